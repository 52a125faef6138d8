// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RevertingRecipient} from "./doubles/Recipients.sol";

contract ExpireTest is RouterFixture {
    using Addresses for address;

    function assertState(Message memory message, uint16 expected, Execution execution) internal view {
        (GmpSet receipts, Execution found) = destination.receiptsOf(MessageEncoding.id(message));
        assertEq(GmpSet.unwrap(receipts), expected);
        assertEq(uint8(found), uint8(execution));
    }

    function testFuzz_OnlyPlainAndCriticalMessagesMayLiveForEver(uint8 kind) public {
        Route memory request = usualRoute(1, 1);
        request.ttl = 0;
        request.kind = Kind(bound(kind, 0, uint8(Kind.GOVERNANCE_EXECUTE)));
        if (request.kind != Kind.PLAIN && request.kind != Kind.REGULATORY_ACTION_CRITICAL) {
            vm.expectRevert(abi.encodeWithSelector(IMessageSender.TtlRequired.selector, request.kind));
        }
        vm.prank(alice);
        source.route(request);
    }

    function testFuzz_Revert_When_ACriticalActionCouldExpire(uint32 ttl) public {
        Route memory request = usualRoute(1, 1);
        request.ttl = uint32(bound(ttl, 1, type(uint32).max));
        request.kind = Kind.REGULATORY_ACTION_CRITICAL;
        vm.expectRevert(
            abi.encodeWithSelector(IMessageSender.TtlNotAllowed.selector, Kind.REGULATORY_ACTION_CRITICAL, request.ttl)
        );
        vm.prank(alice);
        source.route(request);
    }

    function testFuzz_Revert_When_AnExpiredMessageIsRetried(uint32 ttl, uint32 late) public {
        Route memory request = usualRoute(1, 1);
        request.ttl = uint32(bound(ttl, 60, 365 days));
        (Message memory message, bytes32 messageId) = send(request);
        vm.warp(START + request.ttl);
        vm.prank(alice);
        source.retryRoute(usualRetry(message, AXELAR));
        vm.warp(START + request.ttl + bound(late, 1, 365 days));
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.Expired.selector, messageId, message.sentAt, message.ttl));
        vm.prank(alice);
        source.retryRoute(usualRetry(message, AXELAR));
    }

    function testFuzz_AnExpiredArrivalIsMarkedAndConsumed(uint32 ttl, uint32 late, uint8 quorum) public {
        Message memory message = arriving(uint8(bound(quorum, 1, 16)));
        message.ttl = uint32(bound(ttl, 1, 365 days));
        vm.warp(START + message.ttl + bound(late, 1, 365 days));
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageExpired(MessageEncoding.id(message), HERE);
        deliver(HYPERLANE, message);
        assertState(message, 1, Execution.EXPIRED);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.LateReceipt(MessageEncoding.id(message), HERE, AXELAR, Execution.EXPIRED);
        deliver(AXELAR, message);
        assertState(message, 3, Execution.EXPIRED);
        assertEq(recipient.received(), 0);
    }

    function testFuzz_AMessageExecutesUntilTheLastSecondOfItsTime(uint32 ttl) public {
        Message memory message = arriving(1);
        message.ttl = uint32(bound(ttl, 1, type(uint32).max));
        vm.warp(START + message.ttl);
        deliver(HYPERLANE, message);
        assertEq(recipient.received(), 1);
    }

    function test_ALateReceiptAfterExecutionMarksNothing() public {
        Message memory message = arriving(1);
        deliver(HYPERLANE, message);
        vm.warp(START + message.ttl + 1);
        deliver(AXELAR, message);
        assertState(message, 3, Execution.EXECUTED);
    }

    function test_Revert_When_AnExpiredMessageIsExecuted() public {
        // All that it lacks is time: its quorum is reached, and its recipient is willing by now.
        RevertingRecipient reverting = new RevertingRecipient();
        Message memory message = arrivingFor(address(reverting), 1);
        deliver(HYPERLANE, message);
        reverting.mend();
        vm.warp(START + message.ttl + 1);
        bytes32 messageId = MessageEncoding.id(message);
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.MessageHasExpired.selector, messageId, message.sentAt, message.ttl)
        );
        destination.execute(message);
        destination.expire(message);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.AlreadyEnded.selector, messageId, Execution.EXPIRED));
        destination.execute(message);
    }

    function testFuzz_Revert_When_TheTimeHasNotRunOut(uint32 ttl, uint32 elapsed) public {
        onDestination();
        Message memory message = arriving(1);
        message.ttl = ttl;
        if (ttl != 0) elapsed = uint32(bound(elapsed, 0, ttl));
        vm.warp(START + elapsed);
        vm.expectRevert(
            abi.encodeWithSelector(
                IMessageReceiver.NotExpired.selector, MessageEncoding.id(message), message.sentAt, ttl
            )
        );
        destination.expire(message);
    }

    function testFuzz_AnyoneMayMarkAnExpiredMessageArrivedOrNot(address caller, bool arrived) public {
        Message memory message = arriving(2);
        if (arrived) deliver(HYPERLANE, message);
        onDestination();
        vm.warp(START + message.ttl + 1);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageExpired(MessageEncoding.id(message), HERE);
        vm.prank(caller);
        destination.expire(message);
        assertState(message, arrived ? 1 : 0, Execution.EXPIRED);
    }

    function test_Revert_When_WhatHasEndedIsMarked() public {
        Message memory message = arriving(1);
        deliver(HYPERLANE, message);
        bytes32 executed = MessageEncoding.id(message);
        vm.warp(START + message.ttl + 1);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.AlreadyExecuted.selector, executed));
        destination.expire(message);
        message.nonce = 2;
        bytes32 messageId = MessageEncoding.id(message);
        destination.expire(message);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.AlreadyEnded.selector, messageId, Execution.EXPIRED));
        destination.expire(message);
    }

    function testFuzz_Revert_When_AMessageOfAnUnknownRouterIsMarked(bytes32 router) public {
        onDestination();
        Message memory message = arriving(1);
        vm.assume(router != message.sourceRouter);
        message.sourceRouter = router;
        vm.warp(START + message.ttl + 1);
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, HERE, router));
        destination.expire(message);
    }

    /// @dev A receipt below the quorum does not ask whose message it is (docs/decisions/0004). The mark says what is true for good:
    ///      the message's time has run out. It is of that id alone, and nobody is told of it before the router is known.
    function testFuzz_AReceiptMarksAnExpiredMessageOfAnUnknownRouterToo(address router, uint32 late) public {
        vm.assume(router != address(source) && router != address(0));
        Message memory message = arriving(2);
        Message memory known = arriving(2);
        message.sourceRouter = router.toBytes32();
        vm.warp(START + message.ttl + bound(late, 1, 365 days));
        deliver(HYPERLANE, message);
        assertState(message, 1, Execution.EXPIRED);
        assertState(known, 0, Execution.NONE);
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, HERE, message.sourceRouter));
        destination.report(message, 1, firstGmps(2), refundee);

        vm.prank(owner);
        destination.setPeer(HERE, message.sourceRouter, 1);
        deliver(AXELAR, message);
        bytes32 messageId = MessageEncoding.id(message);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.AlreadyEnded.selector, messageId, Execution.EXPIRED));
        destination.execute(message);
        assertEq(recipient.received(), 0);
        (uint64 executed,) = destination.executedFrom(HERE);
        assertEq(executed, 0);
    }
}
