// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {AttestationGuard} from "../../../contracts/client/AttestationGuard.sol";
import {ExpiringLocks} from "../../../contracts/client/ExpiringLocks.sol";
import {OrderedGuard} from "../../../contracts/client/OrderedGuard.sol";
import {ReissueGuard} from "../../../contracts/client/ReissueGuard.sol";
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
        guard.useAttestation("ledger", 0, "message");
    }

    function test_RevertWhen_TheLedgerIsZero() external {
        vm.expectRevert(AttestationGuard.ZeroLedger.selector);
        guard.useAttestation(0, "transaction", "message");
    }

    /// @dev Ledgers number their transactions as they like.
    function testFuzz_TransactionsOfTwoLedgersWithOneIdBothCount(bytes32 a, bytes32 b, bytes32 id) external {
        vm.assume(a != 0 && b != 0 && a != b && id != 0);
        guard.useAttestation(a, id, "first");
        guard.useAttestation(b, id, "second");
        assertEq(guard.messageOfTransaction(a, id), "first");
        assertEq(guard.messageOfTransaction(b, id), "second");
    }

    function testFuzz_ATransactionCountsOnceWhicheverMessageBringsIt(
        bytes32 ledger,
        bytes32 id,
        bytes32 first,
        bytes32 second
    ) external {
        vm.assume(ledger != 0 && id != 0 && first != 0);
        vm.expectEmit(address(guard));
        emit AttestationGuard.AttestationUsed(ledger, id, first);
        guard.useAttestation(ledger, id, first);
        assertEq(guard.messageOfTransaction(ledger, id), first);
        vm.expectRevert(abi.encodeWithSelector(AttestationGuard.AttestationReplayed.selector, ledger, id, first));
        guard.useAttestation(ledger, id, second);
    }

    // ---------------------------------------------------------------- ReissueGuard

    /// @dev Of a message and its re-issues one is applied, whichever comes first. A re-issue names the first message, or a re-issue
    ///      that was applied.
    function testFuzz_OfAMessageAndItsReissuesOneIsApplied(uint256 seed, bool namesTheLast) external {
        bytes32[4] memory ids = [bytes32("original"), "second", "third", "fourth"];
        uint256 applied;
        uint256 last;
        for (uint256 step; step < 12; ++step) {
            seed = uint256(keccak256(abi.encode(seed)));
            uint256 index = seed % 4;
            bytes32 replaces = index == 0 ? bytes32(0) : ids[0];
            if (index > last && last != 0 && namesTheLast) replaces = ids[last];
            try guard.applyOnce(1, address(2), ids[index], replaces) {
                ++applied;
                last = index;
            } catch (bytes memory reason) {
                assertEq(bytes4(reason), ReissueGuard.AlreadyApplied.selector);
            }
        }
        assertEq(applied, 1);
        assertEq(guard.appliedBy(1, address(2), ids[last]), ids[last]);
        assertEq(guard.appliedBy(1, address(2), ids[0]), ids[last]);
    }

    /// @dev What a message is said to replace is its sender's word: it must not take another sender's message away.
    function testFuzz_AReissueTakesNoOtherSendersMessageAway(uint64 chain, address sender) external {
        vm.assume(chain != 1 || sender != address(2));
        guard.applyOnce(chain, sender, "reissue", "original");
        guard.applyOnce(1, address(2), "original", 0);
        assertEq(guard.appliedBy(1, address(2), "original"), "original");
        assertEq(guard.appliedBy(chain, sender, "original"), "reissue");
    }

    // ---------------------------------------------------------------- ExpiringLocks

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

    function test_TheDocumentsExamplesAreSizedAsItSizesThem() external {
        guard.setRetryWindow(ExpiringLocks.RetryWindow({messageTtl: 0, maxRetries: 5, maxBackoff: 60}));
        assertEq(guard.leastLockTtl(), 300, "STATE_SYNC");
        guard.setRetryWindow(ExpiringLocks.RetryWindow({messageTtl: 0, maxRetries: 7, maxBackoff: 60}));
        assertEq(guard.leastLockTtl(), 420, "GOVERNANCE EXECUTE");
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
