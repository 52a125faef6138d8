// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Message} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterFixture} from "./RouterFixture.sol";

contract RouterViewsTest is RouterFixture {
    function testFuzz_AnAppointmentIsTheCallersOwnAndZeroTakesItBack(address sender, address other, address retrier)
        public
    {
        vm.assume(sender != other);
        vm.prank(sender);
        source.appointRetrier(retrier);
        assertEq(source.retrierOf(sender), retrier);
        assertEq(source.retrierOf(other), address(0));
        vm.prank(sender);
        source.appointRetrier(address(0));
        assertEq(source.retrierOf(sender), address(0));
    }

    function testFuzz_WhatTheRouterNeverHeardOfIsZero(bytes32 messageId, uint64 chain, address account, uint8 gmp)
        public
        view
    {
        (address sender, uint32 attempts) = source.sentMessage(messageId);
        (uint64 sent, uint32 sentSum) = source.sentTo(chain);
        (uint64 executed, uint192 executedSum) = source.executedFrom(chain);
        (GmpSet receipts, Execution execution) = source.receiptsOf(messageId);
        assertEq(abi.encode(sender, attempts, sent, sentSum, executed, executedSum, receipts), new bytes(7 * 32));
        assertTrue(execution == Execution.NONE && source.outcomeOf(messageId) == Execution.NONE);
        assertFalse(source.hasReceived(messageId, Gmp.wrap(uint8(bound(gmp, 1, 16)))));
        assertEq(source.creditOf(account), 0);
        assertEq(source.retrierOf(account), address(0));
    }

    function test_FollowsAMessageOnItsWay() public {
        (Message memory message, bytes32 messageId) = send(usualRoute(3, 2));
        (address sender, uint32 attempts) = source.sentMessage(messageId);
        assertEq(sender, alice);
        assertEq(attempts, 0);
        (uint64 sent, uint32 sentSum) = source.sentTo(THERE);
        assertEq(sent, 1);
        assertEq(sentSum, uint32(uint256(messageId)));
        deliver(AXELAR, message);
        assertTrue(destination.hasReceived(messageId, AXELAR));
        (uint64 executed,) = destination.executedFrom(HERE);
        assertEq(executed, 0);
        deliver(WORMHOLE, message);
        (GmpSet receipts, Execution execution) = destination.receiptsOf(messageId);
        assertEq(GmpSet.unwrap(receipts), 6);
        assertTrue(execution == Execution.EXECUTED);
        (uint64 count, uint192 sum) = destination.executedFrom(HERE);
        assertEq(count, 1);
        assertEq(sum, uint192(uint256(messageId)));
    }
}
