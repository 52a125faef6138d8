// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {AttestationGuard} from "../../../contracts/client/AttestationGuard.sol";
import {ExpiringLocks} from "../../../contracts/client/ExpiringLocks.sol";
import {OrderedGuard} from "../../../contracts/client/OrderedGuard.sol";
import {StateHashGuard} from "../../../contracts/client/StateHashGuard.sol";
import {GuardHarness} from "./doubles/GuardHarness.sol";

contract GuardsTest is Test {
    GuardHarness private guard;
    uint64 private constant LEAST = 300 + 7 * 60;

    function setUp() external {
        vm.warp(1_790_000_000);
        guard = new GuardHarness();
        guard.setRetryWindow(ExpiringLocks.RetryWindow({messageTtl: 300, maxRetries: 7, maxBackoff: 60}));
    }

    // ---------------------------------------------------------------- StateHashGuard

    /// @custom:requirement OIP-12, OIP-149
    function testFuzz_RevertWhen_TheDeclaredStateIsNotThePresentOne(bytes32 subject, bytes32 declared) external {
        bytes32 actual = guard.currentStateHash(subject);
        vm.assume(declared != actual);
        vm.expectRevert(abi.encodeWithSelector(StateHashGuard.StateHashMismatch.selector, subject, declared, actual));
        guard.requireState(subject, declared);
    }

    function testFuzz_PassesForThePresentStateUntilItChanges(bytes32 subject, bytes32 a, bytes32 b) external {
        vm.assume(a != b);
        guard.setState(subject, a);
        bytes32 declared = guard.currentStateHash(subject);
        guard.requireState(subject, declared);
        guard.setState(subject, b);
        bytes32 actual = guard.currentStateHash(subject);
        vm.expectRevert(abi.encodeWithSelector(StateHashGuard.StateHashMismatch.selector, subject, declared, actual));
        guard.requireState(subject, declared);
    }

    // ---------------------------------------------------------------- OrderedGuard

    /// @custom:requirement OIP-13
    function testFuzz_AcceptsOnlyTheNextSequence(bytes32 subject, uint8 applied, uint64 sequence) external {
        for (uint64 next = 1; next <= applied % 8; ++next) {
            guard.takeInOrder(subject, next);
        }
        uint64 expected = uint64(applied % 8) + 1;
        vm.assume(sequence != expected);
        vm.expectRevert(abi.encodeWithSelector(OrderedGuard.OutOfOrder.selector, subject, expected, sequence));
        guard.takeInOrder(subject, sequence);
        guard.takeInOrder(subject, expected);
        assertEq(guard.lastSequence(subject), expected);
    }

    function testFuzz_CountsEachSubjectApart(bytes32 a, bytes32 b) external {
        vm.assume(a != b);
        guard.takeInOrder(a, 1);
        guard.takeInOrder(b, 1);
        guard.takeInOrder(a, 2);
        assertEq(guard.lastSequence(b), 1);
    }

    function testFuzz_ASkippedSequenceCountsAsApplied(bytes32 subject) external {
        vm.expectEmit(address(guard));
        emit OrderedGuard.SequenceSkipped(subject, 1);
        guard.skip(subject, 1);
        guard.takeInOrder(subject, 2);
        vm.expectRevert(abi.encodeWithSelector(OrderedGuard.OutOfOrder.selector, subject, 3, 1));
        guard.takeInOrder(subject, 1);
    }

    // ---------------------------------------------------------------- AttestationGuard

    function test_RevertWhen_TheTransactionIdIsZero() external {
        vm.expectRevert(AttestationGuard.ZeroTransactionId.selector);
        guard.useAttestation(0, "message");
    }

    /// @custom:requirement OIP-14, OIP-15, OIP-148
    function testFuzz_ATransactionCountsOnceWhicheverMessageBringsIt(bytes32 id, bytes32 first, bytes32 second)
        external
    {
        vm.assume(id != 0 && first != 0);
        vm.expectEmit(address(guard));
        emit AttestationGuard.AttestationUsed(id, first);
        guard.useAttestation(id, first);
        assertEq(guard.messageOfTransaction(id), first);
        vm.expectRevert(abi.encodeWithSelector(AttestationGuard.AttestationReplayed.selector, id, first));
        guard.useAttestation(id, second);
    }

    // ---------------------------------------------------------------- ExpiringLocks

    /// @custom:requirement OIP-84, OIP-85, OIP-159
    function testFuzz_TheLeastLockCoversTheWholeRetryWindow(uint32 messageTtl, uint32 retries, uint32 backoff)
        external
    {
        uint256 least = uint256(messageTtl) + uint256(retries) * backoff;
        ExpiringLocks.RetryWindow memory window = ExpiringLocks.RetryWindow(messageTtl, retries, backoff);
        if (least > guard.MAX_LOCK_TTL()) {
            bytes memory expected =
                abi.encodeWithSelector(ExpiringLocks.LockTtlTooLong.selector, least, guard.MAX_LOCK_TTL());
            vm.expectRevert(expected);
            guard.setRetryWindow(window);
        } else {
            guard.setRetryWindow(window);
            assertEq(guard.leastLockTtl(), least);
        }
    }

    function test_RevertWhen_TheHolderIsZero() external {
        vm.expectRevert(ExpiringLocks.ZeroHolder.selector);
        guard.takeLock("asset", address(0), LEAST);
    }

    function testFuzz_RevertWhen_TheLockWouldEndBeforeTheLastRetry(uint64 lockTtl) external {
        lockTtl = uint64(bound(lockTtl, 0, LEAST - 1));
        vm.expectRevert(abi.encodeWithSelector(ExpiringLocks.LockTtlTooShort.selector, lockTtl, LEAST));
        guard.takeLock("asset", address(1), lockTtl);
    }

    function testFuzz_RevertWhen_TheLockWouldHoldForTooLong(uint64 lockTtl) external {
        lockTtl = uint64(bound(lockTtl, guard.MAX_LOCK_TTL() + 1, type(uint64).max));
        vm.expectRevert(abi.encodeWithSelector(ExpiringLocks.LockTtlTooLong.selector, lockTtl, guard.MAX_LOCK_TTL()));
        guard.takeLock("asset", address(1), lockTtl);
    }

    /// @custom:requirement OIP-87, OIP-88
    function testFuzz_ALockHoldsUntilItEndsByItself(uint64 lockTtl, uint64 later) external {
        lockTtl = uint64(bound(lockTtl, LEAST, guard.MAX_LOCK_TTL()));
        later = uint64(bound(later, 0, 2 * uint256(lockTtl)));
        uint64 until = uint64(block.timestamp) + lockTtl;
        guard.takeLock("asset", address(1), lockTtl);
        vm.warp(block.timestamp + later);
        bool held = later < lockTtl;
        (address holder,,) = guard.lockOf("asset");
        assertEq(holder, held ? address(1) : address(0));
        if (held) {
            vm.expectRevert(
                abi.encodeWithSelector(ExpiringLocks.LockHeld.selector, bytes32("asset"), address(1), until)
            );
            guard.takeLock("asset", address(2), lockTtl);
            vm.expectRevert(
                abi.encodeWithSelector(ExpiringLocks.LockHeld.selector, bytes32("asset"), address(1), until)
            );
            guard.requireUnlocked("asset", address(2));
            guard.requireUnlocked("asset", address(1));
        } else {
            guard.requireUnlocked("asset", address(2));
            guard.takeLock("asset", address(2), lockTtl);
        }
    }

    /// @custom:requirement X-2
    function test_TheHolderRenewsUnderANewFence() external {
        guard.takeLock("asset", address(1), LEAST);
        vm.warp(block.timestamp + 100);
        vm.expectEmit(address(guard));
        emit ExpiringLocks.LockTaken("asset", address(1), uint64(block.timestamp) + LEAST, 2);
        guard.takeLock("asset", address(1), LEAST);
        (, uint64 until, uint32 fence) = guard.lockOf("asset");
        assertEq(until, block.timestamp + LEAST);
        assertEq(fence, 2);
    }

    function testFuzz_RevertWhen_SomebodyElseReleases(address caller) external {
        vm.assume(caller != address(1));
        guard.takeLock("asset", address(1), LEAST);
        vm.expectRevert(abi.encodeWithSelector(ExpiringLocks.LockNotHeld.selector, bytes32("asset"), caller));
        guard.releaseLock("asset", caller);
    }

    function test_RevertWhen_ReleasingALockThatEnded() external {
        guard.takeLock("asset", address(1), LEAST);
        vm.warp(block.timestamp + LEAST);
        vm.expectRevert(abi.encodeWithSelector(ExpiringLocks.LockNotHeld.selector, bytes32("asset"), address(1)));
        guard.releaseLock("asset", address(1));
        vm.expectRevert(abi.encodeWithSelector(ExpiringLocks.LockNotHeld.selector, bytes32("asset"), address(0)));
        guard.releaseLock("asset", address(0));
    }

    function test_AReleasedLockIsFreeAndKeepsItsFence() external {
        guard.takeLock("asset", address(1), LEAST);
        vm.expectEmit(address(guard));
        emit ExpiringLocks.LockReleased("asset", address(1), 1);
        guard.releaseLock("asset", address(1));
        guard.takeLock("asset", address(2), LEAST);
        (address holder,, uint32 fence) = guard.lockOf("asset");
        assertEq(holder, address(2));
        assertEq(fence, 2);
    }
}
