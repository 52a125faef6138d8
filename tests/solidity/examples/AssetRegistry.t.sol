// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AttestationGuard} from "../../../contracts/client/AttestationGuard.sol";
import {ExpiringLocks} from "../../../contracts/client/ExpiringLocks.sol";
import {StateHashGuard} from "../../../contracts/client/StateHashGuard.sol";
import {Action, Instruction} from "../../../contracts/examples/AssetInstruction.sol";
import {AssetRegistry} from "../../../contracts/examples/AssetRegistry.sol";
import {ILockedRecipient, MessageLock} from "../../../contracts/interfaces/ILockedRecipient.sol";
import {Message} from "../../../contracts/types/Message.sol";
import {AssetRegistryFixture} from "./AssetRegistryFixture.sol";
import {HashlessRegistry, ReplayableRegistry, UnorderedRegistry} from "./doubles/VulnerableRegistries.sol";

contract AssetRegistryTest is AssetRegistryFixture {
    // ---------------------------------------------------------------- any instruction

    function testFuzz_RefusesASenderWithoutThePermission(uint8 index) external {
        Action action = Action(bound(index, 0, uint8(type(Action).max)));
        vm.prank(owner);
        beta.setPermission(ALPHA, address(alpha), action, false);
        bytes memory reason = abi.encodeWithSelector(AssetRegistry.NotPermitted.selector, ALPHA, address(alpha), action);
        _assertRefused(_make(action, bob, 1), reason);
    }

    function test_RefusesAnUnknownAsset() external {
        Instruction memory made = _make(Action.SYNC, bob, 1);
        made.asset = "boat";
        made.stateHash = beta.currentStateHash("boat");
        _assertRefused(made, abi.encodeWithSelector(AssetRegistry.UnknownAsset.selector, bytes32("boat")));
    }

    function test_WaitsForTheEndOfARollback() external {
        assertTrue(_apply(_make(Action.BEGIN_ROLLBACK, address(0), 0)));
        Message memory sync = _instruct(_make(Action.SYNC, bob, 5));
        _deliver(sync);
        assertFalse(_isExecuted(sync), "applied during the rollback");
        bytes memory reason = abi.encodeWithSelector(AssetRegistry.RollbackIncomplete.selector, HOUSE);
        _assertRefused(_makeLock(Action.LOCK, bob, 1), reason);
        _assertRefused(_make(Action.BEGIN_ROLLBACK, address(0), 0), reason);

        assertTrue(_apply(_make(Action.COMPLETE_ROLLBACK, eve, 7)));
        assertEq(_ownerOf(), eve, "set back");
        assertEq(beta.assetOf(HOUSE).units, 7, "set back");
        assertEq(beta.assetOf(HOUSE).version, 3, "begun and completed");
        assertTrue(_apply(_make(Action.SYNC, bob, 5)), "applied after the rollback");
    }

    function test_GovernanceRollsBackAndSetsTheFinalState() external {
        AssetRegistry council = _council(makeAddr("governor"));
        Message memory stuck = _instruct(_make(Action.SYNC, bob, 5));
        assertTrue(_applyBy(council, _make(Action.BEGIN_ROLLBACK, address(0), 0)));
        _deliver(stuck);
        assertFalse(_isExecuted(stuck), "what was escalated changes nothing any more");
        assertTrue(_applyBy(council, _make(Action.COMPLETE_ROLLBACK, eve, 7)));
        assertEq(_ownerOf(), eve, "governance's word");
        assertEq(beta.assetOf(HOUSE).units, 7, "governance's word");
        assertFalse(_applyBy(council, _make(Action.SYNC, bob, 1)), "it has no other authority");
    }

    /// @dev Governance's own registry on alpha, which beta lets roll back and do nothing else.
    function _council(address governor) private returns (AssetRegistry council) {
        council = new AssetRegistry(routers[ALPHA], governor, _window());
        vm.startPrank(governor);
        council.setOperator(operator, true);
        council.setLane(_lane(BETA, address(beta)));
        vm.startPrank(owner);
        beta.allowRoute(ALPHA, address(council), 2, ALL);
        beta.setPermission(ALPHA, address(council), Action.BEGIN_ROLLBACK, true);
        beta.setPermission(ALPHA, address(council), Action.COMPLETE_ROLLBACK, true);
        vm.stopPrank();
    }

    function _applyBy(AssetRegistry sender, Instruction memory made) private returns (bool) {
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(operator);
        sender.instruct{value: 1 ether}(BETA, made);
        Message memory message = _routed()[0];
        _deliver(message);
        return _isExecuted(message);
    }

    function test_RefusesToCompleteARollbackThatNeverBegan() external {
        bytes memory reason = abi.encodeWithSelector(AssetRegistry.NoRollback.selector, HOUSE);
        _assertRefused(_make(Action.COMPLETE_ROLLBACK, eve, 7), reason);
        assertEq(_ownerOf(), ann);
    }

    // ---------------------------------------------------------------- SYNC

    function testFuzz_AppliesASyncMadeForThePresentState(address newOwner, uint128 units) external {
        vm.assume(newOwner != address(0));
        Message memory message = _instruct(_make(Action.SYNC, newOwner, units));
        bytes32 state = keccak256(abi.encode(HOUSE, newOwner, uint64(2), false, units));
        _bring(message, 1);
        vm.expectEmit(address(beta));
        emit AssetRegistry.AssetChanged(HOUSE, Action.SYNC, state, message.id());
        _bring(message, 2);
        assertEq(_ownerOf(), newOwner);
        assertEq(beta.assetOf(HOUSE).units, units);
        assertEq(beta.assetOf(HOUSE).version, 2);
    }

    function test_RefusesASyncWithoutAnOwner() external {
        _assertRefused(_make(Action.SYNC, address(0), 5), abi.encodeWithSelector(AssetRegistry.ZeroOwner.selector));
    }

    function test_AnOvertakenSyncChangesNothing() external {
        assertEq(_overtake(), bob);
    }

    function test_AnOvertakenSyncTurnsTheTwinWithoutStateHashesBack() external {
        _prepare(new HashlessRegistry(routers[BETA], owner, _window()));
        assertEq(_overtake(), eve);
    }

    /// @dev Two changes made for one state: the second to arrive is the older one.
    function _overtake() private returns (address) {
        Message memory older = _instruct(_make(Action.SYNC, eve, 1));
        assertTrue(_apply(_make(Action.SYNC, bob, 1)));
        _deliver(older);
        return _ownerOf();
    }

    /// @dev The same owner and amount as before are not the same state.
    function test_ASyncMadeForAnEarlierEqualStateChangesNothing() external {
        Message memory old = _instruct(_make(Action.SYNC, eve, 1));
        assertTrue(_apply(_make(Action.SYNC, bob, 5)));
        assertTrue(_apply(_make(Action.SYNC, ann, 100)), "as it was in the beginning");
        _deliver(old);
        assertFalse(_isExecuted(old));
        assertEq(_ownerOf(), ann);
    }

    function test_AFrozenAssetDoesNotMove() external {
        assertTrue(_apply(_make(Action.FREEZE, address(0), 0)));
        _assertRefused(_make(Action.SYNC, bob, 1), abi.encodeWithSelector(AssetRegistry.AssetFrozen.selector, HOUSE));
        assertTrue(_apply(_make(Action.UNFREEZE, address(0), 0)));
        assertTrue(_apply(_make(Action.SYNC, bob, 1)));
    }

    function test_ALockedAssetMovesUnderItsFenceOnly() external {
        assertTrue(_apply(_makeLock(Action.LOCK, bob, 1)));
        Instruction memory made = _make(Action.SYNC, bob, 1);
        _assertRefused(made, abi.encodeWithSelector(AssetRegistry.StaleFence.selector, HOUSE, 0, 1));
        made.fence = 2;
        _assertRefused(made, abi.encodeWithSelector(AssetRegistry.StaleFence.selector, HOUSE, 2, 1));
        made.fence = 1;
        assertTrue(_apply(made), "with the lock's fence");

        vm.warp(block.timestamp + LOCK_TTL);
        made = _make(Action.SYNC, eve, 1);
        made.fence = 1;
        _assertRefused(made, abi.encodeWithSelector(AssetRegistry.StaleFence.selector, HOUSE, 1, 0));
        made.fence = 0;
        assertTrue(_apply(made), "free again");
    }

    // ---------------------------------------------------------------- regulatory actions

    function testFuzz_RegulatoryActionsAreForOneState(uint8 index, bytes32 stateHash) external {
        Instruction memory made = _make(Action(bound(index, 1, 3)), bob, 1);
        vm.assume(stateHash != made.stateHash);
        bytes32 actual = made.stateHash;
        made.stateHash = stateHash;
        _assertRefused(
            made, abi.encodeWithSelector(StateHashGuard.StateHashMismatch.selector, HOUSE, stateHash, actual)
        );
        assertEq(_ownerOf(), ann);
        assertFalse(beta.assetOf(HOUSE).frozen);
    }

    function test_ASeizureStopsAtNeitherAFreezeNorALock() external {
        assertTrue(_apply(_makeLock(Action.LOCK, bob, 1)));
        assertTrue(_apply(_make(Action.FREEZE, address(0), 0)));
        assertTrue(_apply(_make(Action.SEIZE, eve, 100)));
        assertEq(_ownerOf(), eve);
        assertTrue(beta.assetOf(HOUSE).frozen, "still frozen");
    }

    // ---------------------------------------------------------------- locks

    function test_LocksAreAppliedInTheSendersOrder() external {
        (Message[3] memory messages) = _locksBackwards();
        assertFalse(_isExecuted(messages[2]), "the last came first");
        assertFalse(_isExecuted(messages[1]), "the second came second");
        assertTrue(_isExecuted(messages[0]), "the first");
        _execute(messages[1]);
        _execute(messages[2]);
        (address holder,, uint32 fence) = beta.lockOf(HOUSE);
        assertEq(holder, bob);
        assertEq(fence, 2);
    }

    function test_WithoutOrderTheTwinKeepsOutTheFirstLocker() external {
        _prepare(new UnorderedRegistry(routers[BETA], owner, _window()));
        (Message[3] memory messages) = _locksBackwards();
        assertTrue(_isExecuted(messages[2]), "the last took the lock");
        assertFalse(_isExecuted(messages[0]), "the first came too late");
    }

    /// @dev Ann locks, Ann unlocks, Bob locks; the messages arrive the other way round.
    function _locksBackwards() private returns (Message[3] memory messages) {
        messages[0] = _instruct(_makeLock(Action.LOCK, ann, 1));
        messages[1] = _instruct(_makeLock(Action.UNLOCK, ann, 2));
        messages[2] = _instruct(_makeLock(Action.LOCK, bob, 3));
        for (uint256 index = 3; index > 0; --index) {
            _deliver(messages[index - 1]);
        }
    }

    /// @dev A re-issue keeps the number of the message that it stands in for, so only one of the two counts.
    function test_OnlyOneOfAMessageAndItsReissueCounts() external {
        Message memory original = _instruct(_makeLock(Action.LOCK, ann, 1));
        assertTrue(_apply(_makeLock(Action.LOCK, ann, 1)), "the re-issue");
        _deliver(original);
        assertFalse(_isExecuted(original), "the original, late");
        (,, uint32 fence) = beta.lockOf(HOUSE);
        assertEq(fence, 1);
    }

    function test_TheOwnerSkipsALockThatNeverComes() external {
        Message memory second = _instruct(_makeLock(Action.LOCK, bob, 2));
        _deliver(second);
        assertFalse(_isExecuted(second));
        vm.prank(owner);
        beta.skip(HOUSE, 1);
        _execute(second);
        (address holder,,) = beta.lockOf(HOUSE);
        assertEq(holder, bob);
    }

    function testFuzz_RefusesALockShorterThanTheRetryWindow(uint64 lockTtl) external {
        Instruction memory made = _makeLock(Action.LOCK, bob, 1);
        made.lockTtl = uint64(bound(lockTtl, 0, beta.leastLockTtl() - 1));
        uint64 least = beta.leastLockTtl();
        _assertRefused(made, abi.encodeWithSelector(ExpiringLocks.LockTtlTooShort.selector, made.lockTtl, least));
        made.lockTtl = beta.leastLockTtl();
        assertTrue(_apply(made));
    }

    function test_ALockThatWaitsBehindAnotherIsTakenWhenThatEnds() external {
        assertTrue(_apply(_makeLock(Action.LOCK, ann, 1)));
        Message memory second = _instruct(_makeLock(Action.LOCK, bob, 2));
        _deliver(second);
        assertFalse(_isExecuted(second), "while Ann's lock holds");
        // The message outlives the lock only if its own time has not run out.
        vm.warp(block.timestamp + LOCK_TTL);
        assertTrue(_apply(_makeLock(Action.LOCK, eve, 2)), "re-issued after Ann's lock ended");
    }

    function test_OfAnAbandonedMessageTheAssetKeepsItsStateAndTheLockEndsAtItsTtl() external {
        bytes32 before = beta.currentStateHash(HOUSE);
        assertTrue(_apply(_makeLock(Action.LOCK, bob, 1)));
        Instruction memory made = _make(Action.SYNC, bob, 1);
        made.fence = 1;
        _instruct(made); // no GMP brings it, and an operator abandons it
        vm.warp(block.timestamp + LOCK_TTL - 1);
        (address holder,,) = beta.lockOf(HOUSE);
        assertEq(holder, bob);
        vm.warp(block.timestamp + 1);
        (holder,,) = beta.lockOf(HOUSE);
        assertEq(holder, address(0), "nobody had to release it");
        assertEq(beta.currentStateHash(HOUSE), before);
        assertTrue(_apply(_make(Action.SYNC, eve, 2)), "the asset moves again");
    }

    function test_AMessageWhoseLockHasExpiredIsAppliedUnderThatLockTakenAgain() external {
        Message memory message = _sendUnderLock();
        vm.prank(owner);
        beta.setRetrier(eve, true);
        _assertLock(message, MessageLock.HELD, uint64(block.timestamp) + 1 hours);
        vm.prank(eve);
        vm.expectRevert(abi.encodeWithSelector(ExpiringLocks.LockNotExpired.selector, HOUSE, 1));
        beta.retakeLock(message.payload);

        vm.warp(block.timestamp + 1 hours);
        _assertLock(message, MessageLock.EXPIRED, 0);
        vm.expectRevert(abi.encodeWithSelector(ILockedRecipient.NotLockRetaker.selector, bob));
        vm.prank(bob);
        beta.retakeLock(message.payload);
        vm.prank(eve);
        beta.retakeLock(message.payload);
        (address holder, uint64 until, uint32 fence) = beta.lockOf(HOUSE);
        assertEq(holder, ann, "for whom it was taken first");
        assertEq(until, block.timestamp + beta.leastLockTtl());
        assertEq(fence, 1, "nobody held it in between");
        assertFalse(_apply(_make(Action.SYNC, eve, 2)), "it keeps others out again");
        _deliver(message);
        assertTrue(_isExecuted(message));
        assertEq(_ownerOf(), bob);
    }

    function test_ALockThatWasReleasedOrFollowedByAnotherIsNotTakenAgain() external {
        Message memory message = _sendUnderLock();
        vm.prank(owner);
        beta.setRetrier(eve, true);
        assertTrue(_apply(_makeLock(Action.UNLOCK, ann, 2)));
        _assertLost(message);
        assertTrue(_apply(_makeLock(Action.LOCK, bob, 3)));
        _assertLost(message);
        vm.warp(block.timestamp + LOCK_TTL);
        _assertLost(message);
        _assertLock(_instruct(_make(Action.SYNC, bob, 1)), MessageLock.NONE, 0);
    }

    /// @dev A lock of Ann, and an hour before it ends a change under it, which no GMP has brought yet.
    function _sendUnderLock() private returns (Message memory) {
        assertTrue(_apply(_makeLock(Action.LOCK, ann, 1)));
        vm.warp(block.timestamp + LOCK_TTL - 1 hours);
        Instruction memory made = _make(Action.SYNC, bob, 1);
        made.fence = 1;
        return _instruct(made);
    }

    function _assertLost(Message memory message) private {
        _assertLock(message, MessageLock.LOST, 0);
        vm.prank(eve);
        vm.expectRevert(abi.encodeWithSelector(ExpiringLocks.LockNotExpired.selector, HOUSE, 1));
        beta.retakeLock(message.payload);
    }

    function _assertLock(Message memory message, MessageLock expected, uint64 expectedUntil) private view {
        (MessageLock lock, uint64 until) = beta.lockFor(message.payload);
        assertTrue(lock == expected, "how the message stands to its lock");
        assertEq(until, expectedUntil);
    }

    // ---------------------------------------------------------------- ATTEST

    function test_ATransactionRewrappedInAnotherMessageChangesNothing() external {
        assertEq(_rewrap(), bob);
    }

    function test_ATransactionRewrappedTurnsTheTwinWithoutAttestationsBack() external {
        _prepare(new ReplayableRegistry(routers[BETA], owner, _window()));
        assertEq(_rewrap(), eve);
    }

    /// @dev The foreign ledger's transfer to Eve counts; then the house goes to Bob; then the same transfer comes again, in a
    ///      message of its own that is made for the present state.
    function _rewrap() private returns (address) {
        Instruction memory made = _make(Action.ATTEST, eve, 1);
        (made.ledger, made.transactionId) = ("canton", "canton transaction");
        assertTrue(_apply(made));
        assertTrue(_apply(_make(Action.SYNC, bob, 1)));
        made.stateHash = beta.currentStateHash(HOUSE);
        _apply(made);
        return _ownerOf();
    }

    function testFuzz_AnAttestationAndARollbackAreForOneState(bytes32 stateHash, bool attests) external {
        Instruction memory made = _make(attests ? Action.ATTEST : Action.BEGIN_ROLLBACK, eve, 1);
        (made.ledger, made.transactionId) = ("canton", "canton transaction");
        bytes32 actual = made.stateHash;
        vm.assume(stateHash != actual);
        made.stateHash = stateHash;
        _assertRefused(
            made, abi.encodeWithSelector(StateHashGuard.StateHashMismatch.selector, HOUSE, stateHash, actual)
        );
        assertEq(_ownerOf(), ann);
        made.stateHash = actual;
        assertTrue(_apply(made), "nothing of it has counted yet");
    }

    function test_RefusesAnAttestationWithoutATransaction() external {
        Instruction memory made = _make(Action.ATTEST, eve, 1);
        _assertRefused(made, abi.encodeWithSelector(AttestationGuard.ZeroLedger.selector));
        made.ledger = "canton";
        _assertRefused(made, abi.encodeWithSelector(AttestationGuard.ZeroTransactionId.selector));
    }
}
