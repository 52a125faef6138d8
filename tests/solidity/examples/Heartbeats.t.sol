// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ERC7786Recipient} from "@openzeppelin/contracts/crosschain/ERC7786Recipient.sol";

import {Arrived, Beat, Heartbeats} from "../../../contracts/examples/Heartbeats.sol";
import {WaybillFixture} from "../../../contracts/testing/WaybillFixture.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Kind, Route} from "../../../contracts/types/Message.sol";

contract HeartbeatsTest is WaybillFixture {
    using Addresses for address;

    Heartbeats private heartbeats;

    function setUp() public {
        setUpWaybill();
        heartbeats = new Heartbeats(destinationRouter);
    }

    function _sent(bytes memory payload) private returns (bytes32) {
        Route memory request;
        request.destinationChain = DESTINATION_CHAIN;
        request.recipient = address(heartbeats).toBytes32();
        request.payload = payload;
        request.gasLimit = 300_000;
        request.ttl = 60;
        request.kind = Kind.HEARTBEAT;
        request.quorum = 2;
        request.gmps = quoted(HYPERLANE, AXELAR);
        request.refundTo = address(this);
        return sourceRouter.route(request);
    }

    /// @dev A heartbeat of that moment, with what the source counts.
    function _beat(uint64 at) private returns (bytes32) {
        (uint64 count, uint32 sum) = sourceRouter.sentTo(DESTINATION_CHAIN);
        return _sent(abi.encode(Beat(at, 7, 5, 40, count, sum)));
    }

    function _arrives(bytes32 id) private {
        deliver(id, HYPERLANE);
        deliver(id, AXELAR);
        assertExecuted(id);
    }

    function test_KeepsTheNewestWhateverComesLater() external {
        bytes32 early = _beat(100);
        bytes32 late = _beat(200);
        _arrives(late);
        _arrives(early);
        Arrived memory last = heartbeats.lastOf(SOURCE_CHAIN, address(this));
        assertEq(last.beat.at, 200);
        assertEq(last.beat.primaryFinal, 7);
        assertEq(last.beat.applied, 5);
        assertEq(last.beat.lagSeconds, 40);
    }

    function testFuzz_CountsWhatIsMissing(uint8 lost, uint8 arrived) external {
        (lost, arrived) = (lost % 5, arrived % 5);
        for (uint64 index = 1; index <= arrived; ++index) {
            _arrives(_beat(index));
        }
        for (uint256 index; index < lost; ++index) {
            _beat(50);
        }
        _arrives(_beat(100));
        Arrived memory last = heartbeats.lastOf(SOURCE_CHAIN, address(this));
        assertEq(last.missing, lost);
        assertTrue(last.matches);
    }

    function test_SaysSoWhenOtherMessagesWereExecuted() external {
        _arrives(_beat(1));
        (uint64 count, uint32 sum) = sourceRouter.sentTo(DESTINATION_CHAIN);
        _arrives(_sent(abi.encode(Beat(2, 0, 0, 0, count, sum + 1))));
        assertFalse(heartbeats.lastOf(SOURCE_CHAIN, address(this)).matches);
    }

    function testFuzz_KeepsSendersApart(address other) external {
        vm.assume(other != address(this));
        _arrives(_beat(1));
        assertEq(heartbeats.lastOf(SOURCE_CHAIN, other).beat.at, 0);
        assertEq(heartbeats.lastOf(DESTINATION_CHAIN, address(this)).beat.at, 0);
    }

    function testFuzz_RevertWhen_SomebodyElseThanTheRouterCalls(address caller) external {
        vm.assume(caller != address(destinationRouter));
        vm.expectRevert(
            abi.encodeWithSelector(ERC7786Recipient.ERC7786RecipientUnauthorizedGateway.selector, caller, bytes("me"))
        );
        vm.prank(caller);
        heartbeats.receiveMessage(0, "me", "");
    }
}
