// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IGmpRegistry} from "../../../contracts/interfaces/IGmpRegistry.sol";
import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IOwnable} from "../../../contracts/interfaces/IOwnable.sol";
import {IPauses} from "../../../contracts/interfaces/IPauses.sol";
import {IRoles} from "../../../contracts/interfaces/IRoles.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";

contract PausesTest is RouterFixture {
    using Addresses for address;

    uint48 internal constant WEEK = 7 days;

    address internal guardian = makeAddr("guardian");

    function setUp() public override {
        super.setUp();
        vm.startPrank(owner);
        source.setGuardian(guardian);
        destination.setGuardian(guardian);
        vm.stopPrank();
    }

    function inFuture(uint256 seconds_) internal view returns (uint48) {
        return uint48(block.timestamp + seconds_);
    }

    // ---- who, and for how long

    function testFuzz_Revert_When_NeitherOwnerNorGuardianPauses(address caller) public {
        // Nobody signs for address 0, which is a tripwire that was never set.
        vm.assume(caller != owner && caller != guardian && caller != source.tripwire());
        uint48 until = inFuture(1 hours);
        vm.startPrank(caller);
        vm.expectRevert(abi.encodeWithSelector(IRoles.NotGuardian.selector, caller));
        source.pauseLane(THERE, until);
        vm.expectRevert(abi.encodeWithSelector(IRoles.NotGuardian.selector, caller));
        source.pauseGmp(HYPERLANE, until);
    }

    function testFuzz_Revert_When_APauseEndsInThePastOrTooLate(uint48 until, bool byOwner) public {
        vm.assume(until <= block.timestamp || until > block.timestamp + WEEK);
        bytes memory reason = abi.encodeWithSelector(
            IPauses.InvalidPauseEnd.selector, until, block.timestamp + 1, block.timestamp + WEEK
        );
        vm.startPrank(byOwner ? owner : guardian);
        vm.expectRevert(reason);
        source.pauseLane(THERE, until);
        vm.expectRevert(reason);
        source.pauseGmp(HYPERLANE, until);
    }

    function test_APauseLastsForASecondAtLeastAndForAWeekAtMost() public {
        vm.startPrank(owner);
        uint48[2] memory refused = [inFuture(0), inFuture(WEEK + 1)];
        for (uint256 index; index < 2; ++index) {
            vm.expectRevert(
                abi.encodeWithSelector(
                    IPauses.InvalidPauseEnd.selector, refused[index], block.timestamp + 1, block.timestamp + WEEK
                )
            );
            source.pauseLane(THERE, refused[index]);
        }
        source.pauseLane(THERE, inFuture(1));
        source.pauseLane(THERE, inFuture(WEEK));
    }

    function testFuzz_TheGuardianRestsForAllThatItMayPause(uint32 length, uint32 later, uint8 first) public {
        uint48 until = inFuture(bound(length, 1, WEEK));
        vm.startPrank(guardian);
        if (first % 2 == 0) source.pauseLane(THERE, until);
        else source.pauseGmp(HYPERLANE, until);
        vm.warp(bound(later, START, START + 2 * WEEK - 1));
        uint48 next = uint48(START + WEEK + 1 > block.timestamp ? START + WEEK + 1 : block.timestamp + 1);
        bytes memory reason = block.timestamp < START + WEEK
            ? abi.encodeWithSelector(IPauses.InvalidPauseEnd.selector, next, block.timestamp + 1, uint256(START) + WEEK)
            : abi.encodeWithSelector(IPauses.GuardianMustWait.selector, uint256(START) + 2 * WEEK);
        vm.expectRevert(reason);
        source.pauseLane(THERE, next);
        vm.expectRevert(reason);
        source.pauseLane(77, next);
        vm.expectRevert(reason);
        source.pauseGmp(HYPERLANE, next);
        vm.expectRevert(reason);
        source.pauseGmp(AXELAR, next);
    }

    /// @dev While nothing is paused, the guardian pauses the first thing that it may, for as long as it may.
    function pauseInTurn(uint256 until) internal returns (uint256) {
        if (block.timestamp < until) return until;
        until = block.timestamp + WEEK;
        for (uint8 thing; thing <= 16; ++thing) {
            bytes memory call_ = thing == 0
                ? abi.encodeCall(destination.pauseLane, (HERE, uint48(until)))
                : abi.encodeCall(destination.pauseGmp, (Gmp.wrap(thing), uint48(until)));
            vm.prank(guardian);
            (bool success,) = address(destination).call(call_);
            if (success) return until;
        }
        return 0;
    }

    /// @dev The rest was one of each thing: alternating lane and GMPs the guardian alone stopped 2,184 deliveries in a year.
    function test_InAYearTheGuardianStopsNoMoreThanHalfOfTheDeliveries() public {
        onDestination();
        Message memory message = arriving(1);
        uint256 until;
        uint256 taken;
        for (uint64 time; time < 365 days; time += 6 hours) {
            vm.warp(START + time);
            until = pauseInTurn(until);
            (message.sentAt, message.nonce) = (uint64(block.timestamp), message.nonce + 1);
            bytes memory delivery = abi.encodeCall(RecordingAdapter.deliver, (destination, HERE, envelopeOf(message)));
            (bool success,) = address(inbound[HYPERLANE]).call(delivery);
            if (success) ++taken;
        }
        assertGe(taken, uint256(365) * 4 * 49 / 100);
    }

    function testFuzz_Revert_When_AGmpWithoutAdapterIsPaused(uint8 number, bool byOwner) public {
        if (number != 0) number = uint8(bound(number, 4, 255));
        vm.expectRevert(abi.encodeWithSelector(IGmpRegistry.GmpHasNoAdapter.selector, number));
        vm.prank(byOwner ? owner : guardian);
        source.pauseGmp(Gmp.wrap(number), inFuture(1 hours));
    }

    function test_TheGuardianMayPauseAgainAWhileAfterItsLastPauses() public {
        vm.startPrank(guardian);
        source.pauseLane(THERE, inFuture(1 hours));
        source.pauseGmp(AXELAR, inFuture(2 hours));
        vm.warp(block.timestamp + 2 * WEEK);
        source.pauseLane(THERE, inFuture(1 hours));
        assertEq(source.lanePausedUntil(THERE), block.timestamp + 1 hours);
    }

    function test_ANewGuardianNeedNotRest() public {
        vm.prank(guardian);
        source.pauseLane(THERE, inFuture(1 hours));
        vm.warp(START + WEEK);
        address next = makeAddr("next guardian");
        vm.prank(owner);
        source.setGuardian(next);
        vm.prank(next);
        source.pauseLane(THERE, inFuture(1 hours));
    }

    function test_TheGuardianMayEndItsOwnMistake() public {
        vm.startPrank(guardian);
        source.pauseLane(THERE, inFuture(1 hours));
        source.pauseGmp(AXELAR, inFuture(1 hours));
        vm.expectEmit(address(source));
        emit IPauses.LanePauseSet(THERE, uint48(block.timestamp));
        source.endLanePause(THERE);
        vm.expectEmit(address(source));
        emit IPauses.GmpPauseSet(AXELAR, uint48(block.timestamp));
        source.endGmpPause(AXELAR);
        // What it meant to pause, it still may.
        source.pauseGmp(WORMHOLE, inFuture(1 hours));
        vm.stopPrank();
        send(usualRoute(2, 2));
    }

    function test_WhatTheOwnerPausedOnlyTheOwnerChanges() public {
        vm.prank(guardian);
        source.pauseGmp(AXELAR, inFuture(1 hours));
        vm.startPrank(owner);
        source.pauseLane(THERE, inFuture(2 hours));
        source.pauseGmp(AXELAR, inFuture(2 hours));
        vm.startPrank(guardian);
        bytes memory reason = abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, guardian);
        vm.expectRevert(reason);
        source.endLanePause(THERE);
        vm.expectRevert(reason);
        source.endGmpPause(AXELAR);
        reason = abi.encodeWithSelector(IPauses.GuardianMustWait.selector, inFuture(2 hours));
        vm.expectRevert(reason);
        source.pauseLane(THERE, inFuture(1));
        vm.expectRevert(reason);
        source.pauseGmp(AXELAR, inFuture(1));
        vm.startPrank(owner);
        source.endLanePause(THERE);
        source.endGmpPause(AXELAR);
        vm.stopPrank();
        send(usualRoute(2, 2));
    }

    function test_EndingWhatIsNotPausedChangesNothing() public {
        vm.startPrank(owner);
        source.endLanePause(THERE);
        source.endGmpPause(AXELAR);
        assertEq(source.lanePausedUntil(THERE), 0);
        assertEq(source.gmpPausedUntil(AXELAR), 0);
    }

    // ---- what stops

    function testFuzz_APausedLaneStopsSendingUntilThePauseEnds(uint32 length) public {
        (Message memory message,) = send(usualRoute(1, 1));
        uint48 until = inFuture(bound(length, 1, WEEK));
        vm.prank(guardian);
        source.pauseLane(THERE, until);
        vm.warp(until - 1);
        bytes memory reason = abi.encodeWithSelector(ILanePolicy.LanePaused.selector, THERE, until);
        vm.startPrank(alice);
        vm.expectRevert(reason);
        source.route(usualRoute(1, 1));
        vm.expectRevert(reason);
        source.retryRoute(usualRetry(message, AXELAR));
        vm.warp(until);
        source.route(usualRoute(1, 1));
        source.retryRoute(usualRetry(message, AXELAR));
    }

    function test_APausedLaneLeavesTheOthersOpen() public {
        vm.prank(guardian);
        source.pauseLane(THERE, inFuture(1 hours));
        vm.prank(owner);
        source.setPeer(77, makeAddr("other").toBytes32(), 1);
        Route memory request = usualRoute(1, 1);
        request.destinationChain = 77;
        vm.prank(alice);
        source.route(request);
    }

    function testFuzz_APausedLaneRefusesDeliveriesUntilThePauseEnds(uint32 length) public {
        onDestination();
        Message memory message = arriving(1);
        uint48 until = inFuture(bound(length, 1, WEEK));
        vm.prank(guardian);
        destination.pauseLane(HERE, until);
        bytes memory reason = abi.encodeWithSelector(ILanePolicy.LanePaused.selector, HERE, until);
        bytes memory envelope = envelopeOf(message);
        vm.expectRevert(reason);
        inbound[HYPERLANE].deliver(destination, HERE, envelope);
        vm.expectRevert(reason);
        destination.execute(message);
        vm.warp(until);
        deliver(HYPERLANE, message);
        assertEq(recipient.received(), 1);
    }

    function testFuzz_APausedGmpStopsAloneUntilThePauseEnds(uint8 number, uint32 length) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 1, 3)));
        (Message memory message,) = send(usualRoute(3, 2));
        uint48 until = inFuture(bound(length, 1, WEEK));
        vm.prank(guardian);
        source.pauseGmp(gmp, until);
        bytes memory reason = abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, gmp, until);
        vm.startPrank(alice);
        source.route(usualRoute(3, 2));
        assertEq(outbound[gmp].dispatches(), 1, "the second message");
        vm.expectRevert(tooFew(0, 1, oneGmp(gmp), reason));
        source.retryRoute(usualRetry(message, gmp));
        source.retryRoute(usualRetry(message, Gmp.wrap(Gmp.unwrap(gmp) % 3 + 1)));
        vm.warp(until);
        source.route(usualRoute(3, 2));
        assertEq(outbound[gmp].dispatches(), 2);
    }

    function test_APausedGmpsReceiptsCountAgainAfterThePause() public {
        Message memory message = arriving(2);
        deliver(HYPERLANE, message);
        uint48 until = inFuture(1 hours);
        vm.prank(guardian);
        destination.pauseGmp(HYPERLANE, until);
        deliver(AXELAR, message);
        assertEq(recipient.received(), 0);
        bytes memory envelope = envelopeOf(message);
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, HYPERLANE, until));
        inbound[HYPERLANE].deliver(destination, HERE, envelope);
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.QuorumNotReached.selector, MessageEncoding.id(message), 1, 2)
        );
        destination.execute(message);
        (GmpSet valid,) = destination.receiptsOf(MessageEncoding.id(message));
        assertEq(GmpSet.unwrap(valid), 2);
        vm.warp(until);
        destination.execute(message);
        assertEq(recipient.received(), 1);
    }

    /// @dev The first receipts do not look at the lane, unless a pause of any lane may be under way.
    function testFuzz_APausedLaneTakesNoReceiptBelowTheQuorumEither(uint32 length) public {
        onDestination();
        Message memory message = arriving(3);
        deliver(HYPERLANE, message);
        uint48 until = inFuture(bound(length, 1, WEEK));
        vm.prank(guardian);
        destination.pauseLane(HERE, until);
        bytes memory envelope = envelopeOf(message);
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.LanePaused.selector, HERE, until));
        inbound[AXELAR].deliver(destination, HERE, envelope);
        assertReceipts(message, 1, Execution.NONE);
        vm.warp(until);
        deliver(AXELAR, message);
        deliver(WORMHOLE, message);
        assertEq(recipient.received(), 1);
    }

    /// @dev A later pause of another lane must not let an earlier one be forgotten.
    function test_ALaneStaysPausedWhenAnotherIsPausedForLess() public {
        vm.startPrank(owner);
        source.setPeer(THERE + 1, address(destination).toBytes32(), 1);
        source.pauseLane(THERE, inFuture(3 days));
        source.pauseLane(THERE + 1, inFuture(1 days));
        vm.stopPrank();
        vm.warp(block.timestamp + 2 days);
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.LanePaused.selector, THERE, START + 3 days));
        vm.prank(alice);
        source.route(usualRoute(1, 1));
    }

    // ---- what past pauses cost

    /// @dev Each pause that was made every delivery dearer, until it was ended by hand: sixteen of them by 37,600 gas.
    /// forge-config: default.isolate = true
    function test_APauseThatIsOverCostsADeliveryNothing() public {
        vm.startPrank(owner);
        for (uint8 number = 4; number <= 16; ++number) {
            destination.addAdapter(Gmp.wrap(number), address(new RecordingAdapter()));
        }
        vm.stopPrank();
        deliveryCost(1);
        uint256 before = deliveryCost(2);
        vm.startPrank(owner);
        for (uint8 number = 1; number <= 16; ++number) {
            destination.pauseGmp(Gmp.wrap(number), inFuture(1));
        }
        vm.stopPrank();
        // Up to the end of that day each GMP is looked at.
        vm.warp((block.timestamp / 1 days + 1) * 1 days);
        assertApproxEqAbs(deliveryCost(3), before, 100);
    }

    function deliveryCost(uint64 nonce) internal returns (uint256) {
        Message memory message = arriving(1);
        message.nonce = nonce;
        deliver(HYPERLANE, message);
        return vm.lastCallGas().gasTotalUsed;
    }

    // ---- expiry

    /// @dev What pauses do not change: a message lives until `sentAt + ttl`, and not a second longer.
    function testFuzz_TimeRunsOnDuringAPause(uint32 begin, uint32 length, uint32 ttl, bool ofTheLane) public {
        ttl = uint32(bound(ttl, 2, WEEK));
        begin = uint32(bound(begin, 0, ttl - 1));
        length = uint32(bound(length, 1, ttl - begin));
        Message memory inTime = arriving(1);
        inTime.ttl = ttl;
        Message memory late = arriving(1);
        (late.ttl, late.nonce) = (ttl, 2);
        vm.warp(START + begin);
        vm.prank(guardian);
        if (ofTheLane) destination.pauseLane(HERE, inFuture(length));
        else destination.pauseGmp(HYPERLANE, inFuture(length));
        vm.warp(START + ttl);
        deliver(HYPERLANE, inTime);
        assertReceipts(inTime, 1, Execution.EXECUTED);
        vm.warp(START + ttl + 1);
        deliver(HYPERLANE, late);
        assertReceipts(late, 1, Execution.EXPIRED);
    }

    function test_AMessageThatMayLiveForEverNeverExpires() public {
        Message memory message = arriving(1);
        message.ttl = 0;
        vm.warp(START + 100 * 365 days);
        deliver(HYPERLANE, message);
        assertReceipts(message, 1, Execution.EXECUTED);
    }
}
