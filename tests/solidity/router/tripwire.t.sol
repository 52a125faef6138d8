// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IGmpRegistry} from "../../../contracts/interfaces/IGmpRegistry.sol";
import {IOwnable} from "../../../contracts/interfaces/IOwnable.sol";
import {IPauses} from "../../../contracts/interfaces/IPauses.sol";
import {IRoles} from "../../../contracts/interfaces/IRoles.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {RouterFixture} from "./RouterFixture.sol";

contract TripwireTest is RouterFixture {
    uint48 internal constant LONGEST = 6 hours;
    uint256 internal constant ALLOWANCE = 24 hours;

    address internal guardian = makeAddr("guardian");
    address internal tripwire = makeAddr("tripwire");

    function setUp() public override {
        super.setUp();
        vm.startPrank(owner);
        source.setGuardian(guardian);
        source.setTripwire(tripwire);
        vm.stopPrank();
    }

    function inFuture(uint256 seconds_) internal view returns (uint48) {
        return uint48(block.timestamp + seconds_);
    }

    function trip(Gmp gmp, uint256 seconds_) internal {
        vm.prank(tripwire);
        source.pauseGmp(gmp, inFuture(seconds_));
    }

    /// @dev Pauses the GMP for as long as the tripwire may, one pause after the other.
    function spend(Gmp gmp) internal {
        for (uint256 times; times < 4; ++times) {
            trip(gmp, LONGEST);
            vm.warp(block.timestamp + LONGEST);
        }
    }

    function mustWait(Gmp gmp, uint256 until) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(IPauses.TripwireMustWait.selector, gmp, until);
    }

    // ---- how long

    function testFuzz_Revert_When_TheTripwiresPauseEndsInThePastOrTooLate(uint48 until) public {
        vm.assume(until <= block.timestamp || until > block.timestamp + LONGEST);
        vm.expectRevert(
            abi.encodeWithSelector(
                IPauses.InvalidPauseEnd.selector, until, block.timestamp + 1, block.timestamp + LONGEST
            )
        );
        vm.prank(tripwire);
        source.pauseGmp(HYPERLANE, until);
    }

    function test_Revert_When_TheTripwirePausesAGmpWithoutAdapter() public {
        vm.expectRevert(abi.encodeWithSelector(IGmpRegistry.GmpHasNoAdapter.selector, 4));
        trip(Gmp.wrap(4), LONGEST);
    }

    function test_TheTripwirePausesForItsLongestPause() public {
        uint48 until = inFuture(LONGEST);
        vm.expectEmit(address(source));
        emit IPauses.GmpPauseSet(HYPERLANE, until);
        trip(HYPERLANE, LONGEST);
        assertEq(source.gmpPausedUntil(HYPERLANE), until);
        assertEq(source.MAX_TRIPWIRE_PAUSE(), LONGEST);
    }

    function testFuzz_Revert_When_TheTripwireWouldEndAPauseSooner(uint8 who, uint32 first, uint32 second) public {
        uint48 until = inFuture(bound(first, 1, LONGEST));
        vm.prank([owner, guardian, tripwire][who % 3]);
        source.pauseGmp(HYPERLANE, until);
        uint48 sooner = inFuture(bound(second, 1, until - block.timestamp));
        vm.expectRevert(
            abi.encodeWithSelector(IPauses.InvalidPauseEnd.selector, sooner, until + 1, block.timestamp + LONGEST)
        );
        vm.prank(tripwire);
        source.pauseGmp(HYPERLANE, sooner);
    }

    function test_APauseThatTheTripwireLengthensStaysWhoseItWas() public {
        vm.prank(owner);
        source.pauseGmp(HYPERLANE, inFuture(1 hours));
        vm.prank(guardian);
        source.pauseGmp(AXELAR, inFuture(1 hours));
        trip(HYPERLANE, 2 hours);
        trip(AXELAR, 2 hours);
        assertEq(source.tripwireAllowance(HYPERLANE), ALLOWANCE - 1 hours, "only what it adds is spent");
        vm.startPrank(guardian);
        vm.expectRevert(abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, guardian));
        source.endGmpPause(HYPERLANE);
        source.endGmpPause(AXELAR);
        vm.startPrank(owner);
        source.endGmpPause(HYPERLANE);
        assertEq(source.gmpPausedUntil(HYPERLANE), block.timestamp);
        assertEq(source.gmpPausedUntil(AXELAR), block.timestamp);
    }

    // ---- how often

    function test_Revert_When_FourLongestPausesAreSpent() public {
        spend(HYPERLANE);
        assertEq(source.tripwireAllowance(HYPERLANE), 45 minutes);
        vm.expectRevert(mustWait(HYPERLANE, START + 6 hours * 32));
        trip(HYPERLANE, LONGEST);
        vm.warp(START + 6 hours * 32 - 1);
        vm.expectRevert();
        trip(HYPERLANE, LONGEST);
        vm.warp(START + 6 hours * 32);
        trip(HYPERLANE, LONGEST);
    }

    /// @dev A trip that costs a liar nothing must not open the way for the next.
    function test_ACheapTripLeavesThreeMoreAndAllOfTheOtherGmps() public {
        trip(HYPERLANE, LONGEST);
        vm.warp(block.timestamp + LONGEST);
        trip(HYPERLANE, LONGEST);
        trip(AXELAR, LONGEST);
        assertEq(source.gmpPausedUntil(HYPERLANE), block.timestamp + LONGEST);
        assertEq(source.gmpPausedUntil(AXELAR), block.timestamp + LONGEST);
    }

    function test_WhatTheGuardianSpendsTheTripwireHas() public {
        vm.prank(guardian);
        source.pauseGmp(HYPERLANE, inFuture(1));
        vm.warp(START + 7 days);
        vm.expectRevert(abi.encodeWithSelector(IPauses.GuardianMustWait.selector, START + 14 days));
        vm.prank(guardian);
        source.pauseGmp(HYPERLANE, inFuture(1 hours));
        trip(HYPERLANE, LONGEST);
        assertEq(source.gmpPausedUntil(HYPERLANE), block.timestamp + LONGEST);
    }

    function test_WhatTheTripwireSpendsTheGuardianHas() public {
        spend(HYPERLANE);
        vm.warp(START + 8 days);
        vm.startPrank(guardian);
        source.pauseGmp(HYPERLANE, inFuture(7 days));
        assertEq(source.gmpPausedUntil(HYPERLANE), block.timestamp + 7 days);
    }

    function testFuzz_TheAllowanceIsWhatCanBeSpent(uint32 first, uint32 later, uint32 second) public {
        trip(HYPERLANE, bound(first, 1, LONGEST));
        vm.warp(START + bound(later, LONGEST, 40 days));
        uint256 left = source.tripwireAllowance(HYPERLANE);
        assertLe(left, ALLOWANCE);
        assertGe(left, ALLOWANCE - LONGEST);
        uint256 length = bound(second, 1, LONGEST);
        trip(HYPERLANE, length);
        assertApproxEqAbs(source.tripwireAllowance(HYPERLANE), left - length, 1);
    }

    // ---- who

    function test_TheGuardianLengthensAndEndsTheTripwiresPauses() public {
        trip(HYPERLANE, LONGEST);
        trip(AXELAR, LONGEST);
        vm.startPrank(guardian);
        source.endGmpPause(HYPERLANE);
        source.pauseGmp(AXELAR, inFuture(3 days));
        assertEq(source.gmpPausedUntil(HYPERLANE), block.timestamp);
        assertEq(source.gmpPausedUntil(AXELAR), block.timestamp + 3 days);
    }

    function test_Revert_When_TheTripwireDoesAnythingElse() public {
        trip(HYPERLANE, LONGEST);
        bytes[5] memory calls = [
            abi.encodeCall(source.pauseLane, (THERE, inFuture(1 hours))),
            abi.encodeCall(source.endGmpPause, (HYPERLANE)),
            abi.encodeCall(source.revokeAdapter, (HYPERLANE)),
            abi.encodeCall(source.setFloor, (THERE, 3)),
            abi.encodeCall(source.setTripwire, (alice))
        ];
        for (uint256 index; index < calls.length; ++index) {
            vm.prank(tripwire);
            (bool success,) = address(source).call(calls[index]);
            assertFalse(success, vm.toString(index));
        }
    }

    function test_TheOwnerNamesTheTripwire() public {
        assertEq(source.tripwire(), tripwire);
        vm.expectEmit(address(source));
        emit IRoles.TripwireSet(address(0));
        vm.prank(owner);
        source.setTripwire(address(0));
        assertEq(source.tripwire(), address(0));
        vm.expectRevert(abi.encodeWithSelector(IRoles.NotGuardian.selector, tripwire));
        trip(HYPERLANE, LONGEST);
    }

    function test_ANewTripwireHasItsWholeAllowanceAndAnOldOneWhatItHadLeft() public {
        trip(HYPERLANE, LONGEST);
        uint256 left = source.tripwireAllowance(HYPERLANE);
        vm.startPrank(owner);
        source.setTripwire(alice);
        assertEq(source.tripwireAllowance(HYPERLANE), ALLOWANCE);
        source.setTripwire(tripwire);
        assertEq(source.tripwireAllowance(HYPERLANE), left);
    }

    function test_WhoIsGuardianTooPausesAsTheGuardian() public {
        vm.prank(owner);
        source.setTripwire(guardian);
        vm.prank(guardian);
        source.pauseGmp(HYPERLANE, inFuture(7 days));
        assertEq(source.tripwireAllowance(HYPERLANE), ALLOWANCE);
    }

    // ---- a key that leaks

    /// @dev For as many whole hours as it may; none if that is less than one.
    /// @return length For how many seconds.
    function tripForWholeHours(Gmp gmp) internal returns (uint256 length) {
        length = source.tripwireAllowance(gmp);
        length = length > LONGEST ? LONGEST : length / 1 hours * 1 hours;
        if (length != 0) trip(gmp, length);
    }

    function test_ALeakedKeyStopsOneGmpForOneHourOf32AfterItsFirstDay() public {
        uint256 paused;
        for (uint256 hour; hour < 365 * 24; ++hour) {
            vm.warp(START + hour * 1 hours);
            if (source.gmpPausedUntil(HYPERLANE) <= block.timestamp) tripForWholeHours(HYPERLANE);
            if (source.gmpPausedUntil(HYPERLANE) > block.timestamp) ++paused;
        }
        assertLe(paused, 24 + uint256(365) * 24 / 32 + 6);
        assertGe(paused, 24, "it can do some harm, or this test shows nothing");
    }
}
