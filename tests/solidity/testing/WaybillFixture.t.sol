// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {InMemoryAdapter} from "../../../contracts/testing/InMemoryAdapter.sol";
import {InMemoryGmp} from "../../../contracts/testing/InMemoryGmp.sol";
import {WaybillFixture} from "../../../contracts/testing/WaybillFixture.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Retry} from "../../../contracts/types/Message.sol";
import {Guestbook} from "./Guestbook.sol";

/// @notice How a dApp tests itself with {WaybillFixture}: the whole life of a message without a relayer.
contract WaybillFixtureTest is WaybillFixture {
    Guestbook private _here;
    Guestbook private _there;

    function setUp() public {
        setUpWaybill();
        _here = new Guestbook(sourceRouter);
        _there = new Guestbook(destinationRouter);
    }

    function _sign(string memory text, uint8 quorum, GmpFee[] memory gmps) private returns (bytes32) {
        return _here.sign{value: totalOf(gmps)}(text, DESTINATION_CHAIN, address(_there), quorum, gmps);
    }

    function test_AMessageIsExecutedWhenItsQuorumHasDelivered() public {
        bytes32 id = _sign("hello", 2, quoted(HYPERLANE, AXELAR));
        assertReceipts(id, 0);

        deliver(id, HYPERLANE);
        assertReceipts(id, 1);
        assertNotExecuted(id);

        deliver(id, AXELAR);
        assertReceipts(id, 2);
        assertExecuted(id);
        assertEq(_there.entries(0), "hello");
    }

    function test_ALateDuplicateIsAbsorbedAndExecutesNothing() public {
        bytes32 id = _sign("hello", 1, quoted(HYPERLANE));
        deliver(id, HYPERLANE);

        vm.expectEmit(true, true, false, false);
        emit IAdapter.DuplicateAbsorbed(id, HYPERLANE);
        deliver(id, HYPERLANE);

        assertReceipts(id, 1);
        vm.expectRevert();
        _there.entries(1);
    }

    function test_ALateDeliveryOfAnotherGmpIsRecordedAndExecutesNothing() public {
        bytes32 id = _sign("hello", 1, quoted(HYPERLANE, AXELAR));
        deliver(id, HYPERLANE);
        deliver(id, AXELAR);
        assertReceipts(id, 2);
        vm.expectRevert();
        _there.entries(1);
    }

    function test_AStalledMessageIsRetriedOverAnotherGmpAndExecutedOnce() public {
        setBroken(AXELAR, true);
        bytes32 id = _sign("hello", 2, quoted(HYPERLANE, AXELAR));
        deliver(id, HYPERLANE);
        assertNotExecuted(id);

        Retry memory request = retryOf(id, quoted(WORMHOLE), address(this));
        vm.expectEmit(address(sourceRouter));
        emit IMessageSender.MessageRetried(id, DESTINATION_CHAIN, 1, WORMHOLE.toSet());
        assertEq(_here.retry(request), 1);
        deliver(id, WORMHOLE);
        assertExecuted(id);

        setBroken(AXELAR, false);
        assertEq(_here.retry(retryOf(id, quoted(AXELAR), address(this))), 2);
        deliver(id, AXELAR);
        assertReceipts(id, 3);
        assertEq(_there.entries(0), "hello");
        vm.expectRevert();
        _there.entries(1);
    }

    function test_OnlyTheSenderMayRetry() public {
        bytes32 id = _sign("hello", 1, quoted(HYPERLANE));
        Retry memory request = retryOf(id, quoted(AXELAR), address(this));
        vm.expectRevert(
            abi.encodeWithSelector(IMessageSender.NotSenderOrRetrier.selector, id, address(this), address(_here))
        );
        sourceRouter.retryRoute(request);
    }

    function test_FeesAreQuotedAndPaidPerGmp() public {
        setFee(HYPERLANE, 1 ether);
        setFee(AXELAR, 2 ether);
        GmpFee[] memory gmps = quoted(HYPERLANE, AXELAR);
        assertEq(totalOf(gmps), 3 ether);
        bytes32 id = _sign("hello", 2, gmps);
        deliver(id, HYPERLANE);
        deliver(id, AXELAR);
        assertEq(_there.entries(0), "hello");
    }

    function test_ThreeGmpsAreQuotedAtTheFeesThatTheAdaptersAskFor() public {
        setFee(WORMHOLE, 4 ether);
        GmpFee[] memory gmps = quoted(HYPERLANE, AXELAR, WORMHOLE);
        bytes32 id = _sign("hello", 3, gmps);
        (uint256 total, GmpFee[] memory fees) = sourceRouter.quoteRetry(messageOf(id), gmps);
        assertEq(total, 4 ether);
        assertEq(fees[2].fee, 4 ether);
    }

    function testFuzz_Revert_When_SomebodyElseThanTheGmpCallsAnAdapter(address caller) public {
        InMemoryAdapter adapter = InMemoryAdapter(destinationRouter.adapterOf(HYPERLANE));
        vm.assume(caller != address(adapter.gmp()));
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyGmp.selector, caller));
        vm.prank(caller);
        adapter.handle(SOURCE_CHAIN, 0, "");
    }

    function test_Revert_When_AnAdapterIsMadeWithoutAGmp() public {
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new InMemoryAdapter(sourceRouter, InMemoryGmp(address(0)));
    }

    /// @dev A message may ask for one receipt: the lane asks for two, as a deployed one does.
    function test_TheFixturesLanesHaveTheFloorOfADeployment() public {
        bytes32 id = _sign("hello", 1, quoted(HYPERLANE, AXELAR));
        deliver(id, HYPERLANE);
        assertNotExecuted(id);
        deliver(id, AXELAR);
        assertExecuted(id);
    }

    function test_AFeeThatRoseSinceItWasQuotedIsRefundedAndTheOtherGmpsGoOn() public {
        GmpFee[] memory gmps = quoted(HYPERLANE, AXELAR, WORMHOLE);
        setFee(AXELAR, 1 ether);
        bytes32 id = _sign("hello", 2, gmps);
        deliver(id, HYPERLANE);
        deliver(id, WORMHOLE);
        assertExecuted(id);
        vm.expectRevert(abi.encodeWithSelector(NotCarried.selector, id, AXELAR));
        this.deliverFromOutside(id, AXELAR);
    }

    function test_MessagesTravelBothWays() public {
        onDestination();
        bytes32 id = _there.sign("back", SOURCE_CHAIN, address(_here), 2, quoted(HYPERLANE, WORMHOLE));
        onSource();
        deliver(id, HYPERLANE);
        deliver(id, WORMHOLE);
        assertExecuted(id);
        assertEq(_here.entries(0), "back");
        assertEq(block.chainid, SOURCE_CHAIN);
    }

    function test_Revert_When_ADeliveryComesFromAChainTheRouterDoesNotKnow() public {
        bytes32 id = _sign("hello", 1, quoted(HYPERLANE));
        vm.startPrank(waybillOwner);
        onDestination();
        destinationRouter.revokePeer(SOURCE_CHAIN, messageOf(id).sourceRouter);
        vm.stopPrank();
        vm.expectRevert();
        this.deliverFromOutside(id, HYPERLANE);
        assertReceipts(id, 0);
    }

    function test_Revert_When_AMessageIsAskedForThatNobodyCarries() public {
        vm.expectRevert(abi.encodeWithSelector(UnknownMessage.selector, bytes32(uint256(1))));
        this.messageFromOutside(bytes32(uint256(1)));
    }

    /// @dev Errors of internal functions can be expected only through an external call.
    function deliverFromOutside(bytes32 messageId, Gmp gmp) external {
        deliver(messageId, gmp);
    }

    function messageFromOutside(bytes32 messageId) external view {
        messageOf(messageId);
    }
}
