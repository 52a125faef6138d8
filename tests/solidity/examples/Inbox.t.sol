// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {ERC7786Recipient} from "@openzeppelin/contracts/crosschain/ERC7786Recipient.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Inbox} from "../../../contracts/examples/Inbox.sol";
import {WaybillFixture} from "../../../contracts/testing/WaybillFixture.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {Message, Route} from "../../../contracts/types/Message.sol";

contract InboxTest is WaybillFixture {
    using Addresses for address;

    Inbox private inbox;
    address private immutable owner = makeAddr("owner");

    function setUp() public {
        setUpWaybill();
        inbox = new Inbox(address(destinationRouter), owner);
    }

    function _sent(bytes memory payload) private returns (bytes32) {
        Route memory request;
        request.destinationChain = DESTINATION_CHAIN;
        request.recipient = address(inbox).toBytes32();
        request.payload = payload;
        request.gasLimit = 300_000;
        request.quorum = 2;
        request.gmps = quoted(HYPERLANE, AXELAR);
        request.refundTo = address(this);
        return sourceRouter.route(request);
    }

    function testFuzz_KeepsThePayloadAndCountsTheMessage(bytes calldata payload) external {
        bytes32 id = _sent(payload);
        deliver(id, AXELAR);
        vm.expectEmit(address(inbox));
        emit Inbox.Received(id, InteroperableAddress.formatEvmV1(SOURCE_CHAIN, address(this)), payload);
        deliver(id, HYPERLANE);
        assertExecuted(id);
        assertEq(inbox.lastPayload(), payload);
        assertEq(inbox.received(), 1);
        assertEq(inbox.timesReceived(id), 1);
    }

    function test_RefusesWhileClosedAndTakesTheMessageAfterOpening() external {
        vm.expectEmit(address(inbox));
        emit Inbox.ClosedSet(true);
        vm.prank(owner);
        inbox.setClosed(true);
        bytes32 id = _sent("hello");
        deliver(id, HYPERLANE);
        deliver(id, AXELAR);
        assertNotExecuted(id);
        assertEq(inbox.received(), 0);
        Message memory message = messageOf(id);
        onDestination();
        bytes memory reason = abi.encodeWithSelector(Inbox.Closed.selector);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.ExecutionReverted.selector, id, reason));
        destinationRouter.execute(message);

        vm.prank(owner);
        inbox.setClosed(false);
        onDestination();
        destinationRouter.execute(message);
        assertEq(inbox.timesReceived(id), 1);
    }

    function testFuzz_RevertWhen_SomebodyElseThanTheRouterCalls(address caller) external {
        vm.assume(caller != address(destinationRouter));
        vm.expectRevert(
            abi.encodeWithSelector(ERC7786Recipient.ERC7786RecipientUnauthorizedGateway.selector, caller, bytes("me"))
        );
        vm.prank(caller);
        inbox.receiveMessage(0, "me", "");
    }

    function testFuzz_RevertWhen_SomebodyElseThanTheOwnerClosesIt(address caller) external {
        vm.assume(caller != owner);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, caller));
        vm.prank(caller);
        inbox.setClosed(true);
    }
}
