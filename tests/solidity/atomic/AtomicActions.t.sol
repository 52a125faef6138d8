// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {ExpiringLocks} from "../../../contracts/client/ExpiringLocks.sol";
import {Lanes} from "../../../contracts/client/Lanes.sol";
import {AtomicAssets} from "../../../contracts/examples/AtomicAssets.sol";
import {AtomicParameters} from "../../../contracts/examples/AtomicParameters.sol";
import {IAtomicCoordinator} from "../../../contracts/interfaces/IAtomicCoordinator.sol";
import {IAtomicParticipant} from "../../../contracts/interfaces/IAtomicParticipant.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {
    ActionRequest,
    ActionState,
    BranchRequest,
    BranchState,
    Cause,
    Decision,
    Instruction,
    Level,
    Participation,
    Phase,
    Reply,
    Window,
    Windows
} from "../../../contracts/types/Atomic.sol";
import {Kind, Message, Retry} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {AtomicChains} from "./AtomicChains.sol";

/// @notice Atomic actions over three chains, step by step: what each level promises, and what happens when a step fails.
contract AtomicActionsTest is Test, AtomicChains {
    /// @dev What this contract does when it is refunded, and what the call answered.
    bytes private refundedCall;
    bytes32 private refundedDelivery;
    bytes private refundedAnswer;

    function setUp() external {
        setUpChains();
    }

    // ---- ALL_OR_NOTHING

    function test_AllPrepareAndTheChangeIsMadeEverywhere() external {
        bytes32 actionId = _prepared();
        assertState(actionId, ActionState.COMMITTING);
        assertTrue(coordinator.actionOf(actionId).cause == Cause.ALL_PREPARED, "cause");
        assertFalse(assets[EAST].isFrozen(ASSET) || assets[WEST].isFrozen(ASSET), "frozen before COMMIT");
        _finish(actionId);
        assertTrue(assets[EAST].isFrozen(ASSET) && assets[WEST].isFrozen(ASSET), "not frozen everywhere");
        assertState(actionId, ActionState.COMMITTED);
        assertEq(coordinator.actionOn(ASSET), 0, "the subject is free");
        assertUnlocked(EAST);
        assertUnlocked(WEST);
    }

    function test_APositionMovesAsAWhole() external {
        bytes32 actionId = _begin(move(300));
        _prepareAll(actionId);
        _finish(actionId);
        assertEq(assets[EAST].unitsOf(ASSET, ann), UNITS - 300);
        assertEq(assets[WEST].unitsOf(ASSET, ann), UNITS + 300);
    }

    function test_ARefusalAbortsItForAllAndFundsAreAsBefore() external {
        bytes32 actionId = _begin(move(uint128(UNITS) + 1));
        tell(actionId, 1);
        answer(actionId, WEST);
        assertLocked(WEST, actionId);
        tell(actionId, 0);
        assertTrue(assets[EAST].participationOf(actionId).state == BranchState.REFUSED, "no vote");
        assertUnlocked(EAST);
        bytes32 vote = sendReply(actionId, EAST);
        deliver(vote, 1);
        vm.expectEmit(address(coordinator));
        emit IAtomicCoordinator.VoteCounted(actionId, 0, false, "TOO_FEW_UNITS");
        deliver(vote, 2);
        assertState(actionId, ActionState.ABORTING);
        assertTrue(coordinator.actionOf(actionId).cause == Cause.REFUSED, "cause");

        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.NothingToDispatch.selector, actionId, 0));
        coordinator.dispatch(actionId, 0);
        tell(actionId, 1);
        assertUnlocked(WEST);
        answer(actionId, WEST);
        assertState(actionId, ActionState.ABORTED);
        assertEq(assets[EAST].unitsOf(ASSET, ann), UNITS);
        assertEq(assets[WEST].unitsOf(ASSET, ann), UNITS);
        assertEq(coordinator.actionOn(ASSET), 0, "the subject is free");
    }

    function test_TheSubjectIsStillWhileItIsLocked() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        vm.startPrank(ann);
        vm.expectPartialRevert(ExpiringLocks.LockHeld.selector);
        assets[EAST].transfer(ASSET, owner, 1);
        assets[WEST].transfer(ASSET, owner, 1);
        vm.stopPrank();
    }

    function test_Revert_When_CommitIsDispatchedBeforeTheDecision() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        tell(actionId, 1);
        answer(actionId, EAST);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.NothingToDispatch.selector, actionId, 0));
        coordinator.dispatch(actionId, 0);
    }

    /// @dev The participant sends its vote in two messages.
    function test_AVoteCountsOnceHoweverOftenItIsSent() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        answer(actionId, EAST);
        bytes32 again = _forge(actionId, EAST, 0, Phase.VOTE, BranchState.PREPARED);
        deliver(again, 1);
        vm.expectEmit(address(coordinator));
        emit IAtomicCoordinator.ReplyIgnored(actionId, 0, again, BranchState.PREPARED);
        deliver(again, 2);
        assertEq(coordinator.actionOf(actionId).pending, 1, "one vote is missing");
        assertState(actionId, ActionState.PREPARING);
    }

    function test_Revert_When_ACommitComesWithoutPrepare() external {
        bytes32 messageId = _instruct(EAST, Phase.COMMIT, Level.ALL_OR_NOTHING, 77);
        deliver(messageId);
        assertTrue(executionOf(messageId) == Execution.NONE, "COMMIT without PREPARE was accepted");
        assertFalse(assets[EAST].isFrozen(ASSET));
        bytes32 actionId = coordinator.actionIdOf(77);
        _assertRefused(
            messageId, abi.encodeWithSelector(IAtomicParticipant.NotPrepared.selector, actionId, BranchState.NONE)
        );
    }

    function test_AnAbortThatOvertakesPrepareLeavesNothingToLock() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        bytes32 prepareId = coordinator.dispatch(actionId, 0);
        vm.prank(initiator);
        coordinator.abort(actionId);
        tell(actionId, 0);
        deliver(prepareId);
        assertTrue(executionOf(prepareId) == Execution.EXECUTED, "PREPARE has an end");
        assertUnlocked(EAST);
        assertTrue(assets[EAST].participationOf(actionId).state == BranchState.RELEASED);
        answer(actionId, EAST);
        assertState(actionId, ActionState.ABORTED);
    }

    function test_WhatWasNeverToldIsOverWithTheAbort() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        vm.prank(owner);
        coordinator.abort(actionId);
        assertState(actionId, ActionState.ABORTED);
        vm.prank(owner);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.WrongState.selector, actionId, ActionState.ABORTED));
        coordinator.abort(actionId);
    }

    function test_ADecisionNeverChanges() external {
        bytes32 actionId = _prepared();
        vm.prank(initiator);
        vm.expectRevert(
            abi.encodeWithSelector(IAtomicCoordinator.WrongState.selector, actionId, ActionState.COMMITTING)
        );
        coordinator.abort(actionId);
        deliver(_forge(actionId, EAST, 0, Phase.VOTE, BranchState.REFUSED));
        assertTrue(coordinator.actionOf(actionId).decision == Decision.COMMIT, "decision");
        skip(1 days);
        coordinator.timeOut(actionId);
        assertTrue(coordinator.actionOf(actionId).decision == Decision.COMMIT, "decision");
    }

    function test_ALateNoIsAnEndAndALateYesIsNot() external {
        bytes32 actionId = _begin(move(uint128(UNITS) + 1));
        tell(actionId, 0);
        tell(actionId, 1);
        vm.prank(initiator);
        coordinator.abort(actionId);
        answer(actionId, EAST);
        assertTrue(coordinator.branchOf(actionId, 0).state == BranchState.REFUSED, "holds nothing");
        answer(actionId, WEST);
        assertTrue(coordinator.branchOf(actionId, 1).state == BranchState.NONE, "still to be released");
        tell(actionId, 1);
        answer(actionId, WEST);
        assertState(actionId, ActionState.ABORTED);
    }

    // ---- times

    function test_APrepareThatFailsIsRetriedWithinItsBudgetBeforeItsActionIsAborted() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        answer(actionId, EAST);
        bytes32 prepareId = coordinator.dispatch(actionId, 1);
        for (uint32 retries; retries < window().maxRetries; ++retries) {
            skip(window().maxBackoff + 1);
            vm.expectPartialRevert(IAtomicCoordinator.NotTimedOut.selector);
            coordinator.timeOut(actionId);
            coordinator.retry(retryOf(prepareId));
            assertEq(coordinator.branchOf(actionId, 1).retries, retries + 1);
        }
        Retry memory oneMore = retryOf(prepareId);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.RetriesExhausted.selector, actionId, 1, 2));
        coordinator.retry(oneMore);
        vm.expectPartialRevert(IAtomicCoordinator.NotTimedOut.selector);
        coordinator.timeOut(actionId);

        skip(window().maxBackoff + 1);
        assertTrue(coordinator.isTimedOut(actionId));
        coordinator.timeOut(actionId);
        assertState(actionId, ActionState.ABORTING);
        assertTrue(coordinator.actionOf(actionId).cause == Cause.TIMED_OUT, "cause");
    }

    function test_APrepareThatIsRetriedInTimeCommits() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        answer(actionId, EAST);
        bytes32 prepareId = coordinator.dispatch(actionId, 1);
        skip(window().maxBackoff + 1);
        coordinator.retry(retryOf(prepareId));
        deliver(prepareId);
        answer(actionId, WEST);
        _finish(actionId);
        assertState(actionId, ActionState.COMMITTED);
    }

    function test_WithoutAnyRetryTheTimeToDecideEndsTheFirstPhase() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        answer(actionId, EAST);
        assertEq(coordinator.phaseEndsAt(actionId), START + 900);
        vm.warp(START + 900);
        assertFalse(coordinator.isTimedOut(actionId));
        vm.warp(START + 901);
        coordinator.timeOut(actionId);
        assertTrue(coordinator.actionOf(actionId).decision == Decision.ABORT);
    }

    /// forge-config: default.fuzz.runs = 24
    function testFuzz_ACommitWithinTheWindowFindsItsLock(uint32 votes, uint32 commits) external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        tell(actionId, 1);
        vm.warp(START + bound(votes, 0, 900));
        answer(actionId, EAST);
        answer(actionId, WEST);
        uint256 decidedAt = block.timestamp;
        vm.warp(decidedAt + bound(commits, 0, 299));
        assertLocked(EAST, actionId);
        bytes32 commitId = coordinator.dispatch(actionId, 0);
        deliver(commitId, 1);
        vm.expectEmit(address(assets[EAST]));
        emit IAtomicParticipant.ActionApplied(actionId, ASSET, true);
        deliver(commitId, 2);
    }

    function testFuzz_Revert_When_TheLockIsShorterThanTheWindow(Window memory asked) external {
        asked.prepareTtl = uint32(bound(asked.prepareTtl, 1, 1 days));
        asked.decisionTtl = uint32(bound(asked.decisionTtl, 1, 1 days));
        asked.maxRetries = uint32(bound(asked.maxRetries, 1, 100));
        asked.maxBackoff = uint32(bound(asked.maxBackoff, 1, 1 hours));
        uint64 least = uint64(asked.prepareTtl) + asked.decisionTtl + uint64(asked.maxRetries) * asked.maxBackoff;
        asked.lockTtl = uint32(bound(asked.lockTtl, 0, least - 1));
        ActionRequest memory made = freeze(Level.ALL_OR_NOTHING);
        made.window = asked;
        vm.expectRevert(abi.encodeWithSelector(Windows.LockShorterThanWindow.selector, asked.lockTtl, least));
        vm.prank(initiator);
        coordinator.begin(made);
        vm.expectRevert(abi.encodeWithSelector(Windows.LockShorterThanWindow.selector, asked.lockTtl, least));
        vm.prank(owner);
        coordinator.setDefaultWindow(asked);
        vm.expectRevert(abi.encodeWithSelector(Windows.LockShorterThanWindow.selector, asked.lockTtl, least));
        this.makeParticipant(asked);
    }

    function test_Revert_When_TheWindowIsEmptyOrTooLong() external {
        Window memory asked = window();
        asked.maxRetries = 0;
        vm.expectRevert(Windows.EmptyWindow.selector);
        this.makeParticipant(asked);
        asked = window();
        asked.lockTtl = uint32(30 days + 1);
        vm.expectRevert(abi.encodeWithSelector(Windows.LockLongerThanAllowed.selector, 30 days + 1, 30 days));
        this.makeParticipant(asked);
    }

    /// @dev What a router would refuse is refused before there is an action.
    function test_Revert_When_PrepareWouldLiveForLessThanTheRouterTakes() external {
        ActionRequest memory made = freeze(Level.ALL_OR_NOTHING);
        made.window = window();
        made.window.prepareTtl = 59;
        bytes memory refused = abi.encodeWithSelector(IMessageSender.TtlTooShort.selector, 59, 60);
        vm.expectRevert(refused);
        vm.prank(initiator);
        coordinator.begin(made);
        vm.expectRevert(refused);
        vm.prank(owner);
        coordinator.setDefaultWindow(made.window);
        made.window.prepareTtl = 60;
        vm.prank(initiator);
        bytes32 actionId = coordinator.begin(made);
        tell(actionId, 0);
    }

    /// @dev The coordinator has another idea of its window: the participant keeps to its own.
    function test_AParticipantRefusesALockThatIsShorterThanItsOwnWindow() external {
        bytes32 messageId = _instruct(EAST, Phase.PREPARE, Level.ALL_OR_NOTHING, 77, window().lockTtl - 1);
        deliver(messageId);
        Participation memory part = assets[EAST].participationOf(coordinator.actionIdOf(77));
        assertTrue(part.state == BranchState.REFUSED, "a lock shorter than the window was taken");
        assertEq(part.reason, bytes32("LOCK_TTL_REJECT"));
        assertUnlocked(EAST);
    }

    function test_ALockEndsByItselfAndTheAssetMovesAgain() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        vm.warp(START + window().lockTtl - 1);
        assertLocked(EAST, actionId);
        vm.warp(START + window().lockTtl);
        assertUnlocked(EAST);
        vm.prank(ann);
        assets[EAST].transfer(ASSET, owner, 1);
    }

    // ---- a participant that does not come back

    function test_ASilentParticipantAfterTheDecisionDivergesAndNothingNewBegins() external {
        bytes32 actionId = _prepared();
        tell(actionId, 0);
        answer(actionId, EAST);
        bytes32 commitId = coordinator.dispatch(actionId, 1);
        skip(window().maxRetries * window().maxBackoff + 1);
        coordinator.timeOut(actionId);
        assertState(actionId, ActionState.DIVERGED);

        vm.startPrank(initiator);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.RollbackIncomplete.selector, ASSET, actionId));
        coordinator.begin(freeze(Level.BEST_EFFORT));
        vm.stopPrank();

        deliver(commitId);
        answer(actionId, WEST);
        assertState(actionId, ActionState.COMMITTED);
        assertTrue(assets[WEST].isFrozen(ASSET));
        _begin(request(Level.ALL_OR_NOTHING, _unfreeze(), _unfreeze()));
    }

    function test_ACommitAfterTheLocksEndTakesAnotherFirst() external {
        bytes32 actionId = _prepared();
        bytes32 commitId = coordinator.dispatch(actionId, 1);
        (,, uint32 fence) = assets[WEST].lockOf(ASSET);
        skip(2 days);
        deliver(commitId, 1);
        vm.expectEmit(address(assets[WEST]));
        emit ExpiringLocks.LockTaken(
            ASSET, address(uint160(uint256(actionId))), uint64(block.timestamp) + window().lockTtl, fence + 1
        );
        vm.expectEmit(address(assets[WEST]));
        emit IAtomicParticipant.ActionApplied(actionId, ASSET, false);
        deliver(commitId, 2);
        assertTrue(assets[WEST].isFrozen(ASSET));
        assertUnlocked(WEST);
    }

    function test_AParticipantThatCannotApplyDivergesUntilItsOwnerReconcilesIt() external {
        bytes32 actionId = _begin(move(600));
        _prepareAll(actionId);
        tell(actionId, 1);
        answer(actionId, WEST);
        bytes32 commitId = coordinator.dispatch(actionId, 0);
        skip(2 days);
        vm.prank(ann);
        assets[EAST].transfer(ASSET, owner, 500); // the lock is over
        deliver(commitId, 1);
        vm.expectEmit(address(assets[EAST]));
        emit IAtomicParticipant.ActionDiverged(actionId, ASSET, "TOO_FEW_UNITS");
        deliver(commitId, 2);
        answer(actionId, EAST);
        assertState(actionId, ActionState.DIVERGED);
        assertTrue(coordinator.actionOf(actionId).decision == Decision.COMMIT, "the record stays");

        vm.prank(ann);
        vm.expectRevert(abi.encodeWithSelector(IAtomicParticipant.RollbackIncomplete.selector, ASSET, actionId));
        assets[EAST].transfer(ASSET, owner, 1);
        bytes32 refused = _instruct(EAST, Phase.PREPARE, Level.ALL_OR_NOTHING, 77);
        deliver(refused);
        assertEq(assets[EAST].participationOf(coordinator.actionIdOf(77)).reason, bytes32("ROLLBACK_INCOMPLETE_REJECT"));

        vm.prank(owner);
        vm.expectRevert(); // nothing was done about the cause
        assets[EAST].reconcile(actionId);
        _giveBack(500);
        vm.prank(owner);
        assets[EAST].reconcile(actionId);
        assertEq(assets[EAST].unitsOf(ASSET, ann), UNITS - 600);
        answer(actionId, EAST);
        assertState(actionId, ActionState.COMMITTED);
        assertEq(assets[EAST].divergedOn(ASSET), 0);
    }

    function test_AnAbortThatIsNotConfirmedIsAnIncompleteRollback() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        vm.prank(initiator);
        coordinator.abort(actionId);
        bytes32 abortId = coordinator.dispatch(actionId, 0);
        skip(window().maxRetries * window().maxBackoff + 1);
        coordinator.timeOut(actionId);
        assertState(actionId, ActionState.ROLLBACK_INCOMPLETE);
        vm.expectRevert(
            abi.encodeWithSelector(IAtomicCoordinator.WrongState.selector, actionId, ActionState.ROLLBACK_INCOMPLETE)
        );
        coordinator.timeOut(actionId);
        coordinator.retry(retryOf(abortId));
        deliver(abortId);
        answer(actionId, EAST);
        assertState(actionId, ActionState.ABORTED);
    }

    function test_TheOwnerReconcilesAParticipantThatIsGoneAndTheDecisionStays() external {
        bytes32 actionId = _prepared();
        tell(actionId, 0);
        answer(actionId, EAST);
        vm.startPrank(owner);
        vm.expectRevert(
            abi.encodeWithSelector(IAtomicCoordinator.WrongState.selector, actionId, ActionState.COMMITTING)
        );
        coordinator.reconcile(actionId, 1, "evidence");
        skip(1 days);
        coordinator.timeOut(actionId);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.WrongState.selector, actionId, ActionState.DIVERGED));
        coordinator.reconcile(actionId, 0, "evidence");
        vm.expectEmit(address(coordinator));
        emit IAtomicCoordinator.BranchReconciled(actionId, 1, "evidence");
        coordinator.reconcile(actionId, 1, "evidence");
        vm.stopPrank();
        assertState(actionId, ActionState.COMMITTED);
        assertTrue(coordinator.branchOf(actionId, 1).state == BranchState.RECONCILED);
    }

    function test_AParticipantThatDidTheContraryIsReportedAndTheDecisionStays() external {
        bytes32 actionId = _prepared();
        tell(actionId, 0);
        answer(actionId, EAST);
        bytes32 finalizeId = _forge(actionId, WEST, 1, Phase.FINALIZE, BranchState.RELEASED);
        deliver(finalizeId, 1);
        vm.expectEmit(address(coordinator));
        emit IAtomicCoordinator.BranchDiverged(actionId, 1, Decision.COMMIT, BranchState.RELEASED, 0);
        deliver(finalizeId, 2);
        assertState(actionId, ActionState.DIVERGED);
        assertTrue(coordinator.actionOf(actionId).decision == Decision.COMMIT);
    }

    function test_AnEndBeforeTheDecisionAbortsWhatCanBeSaved() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        answer(actionId, EAST);
        deliver(_forge(actionId, WEST, 1, Phase.FINALIZE, BranchState.APPLIED));
        assertState(actionId, ActionState.ROLLBACK_INCOMPLETE);
        assertTrue(coordinator.actionOf(actionId).cause == Cause.CONTRADICTED, "cause");
        tell(actionId, 0);
        answer(actionId, EAST);
        assertUnlocked(EAST);
        assertState(actionId, ActionState.ROLLBACK_INCOMPLETE);
    }

    // ---- cancelled and expired messages

    function test_ACancelledCommitIsReplacedAndAppliedOnce() external {
        bytes32 actionId = _prepared();
        bytes32 commitId = coordinator.dispatch(actionId, 0);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.AlreadyDispatched.selector, actionId, 0, commitId));
        coordinator.dispatch(actionId, 0);

        Message memory message = messageOf(commitId);
        vm.prank(owner);
        deliver(coordinator.cancel(message, Lanes.unpriced(ALL)));
        reportEnd(commitId);
        bytes32 again = tell(actionId, 0);
        assertTrue(again != commitId && messageOf(again).replaces == commitId, "a new message in its place");
        assertTrue(assets[EAST].isFrozen(ASSET));
        deliver(commitId, 3);
        assertTrue(executionOf(commitId) == Execution.CANCELLED);
    }

    function test_ALostFinalizeIsReplacedOnceItsChainSaysThatItEnded() external {
        bytes32 actionId = _prepared();
        tell(actionId, 0);
        bytes32 finalizeId = sendReply(actionId, EAST);
        assertFalse(assets[EAST].owesReply(actionId));
        vm.chainId(EAST);
        vm.expectRevert(abi.encodeWithSelector(IAtomicParticipant.AlreadyReplied.selector, actionId, finalizeId));
        assets[EAST].reply(actionId);
        Message memory message = messageOf(finalizeId);
        vm.prank(owner);
        deliver(assets[EAST].cancel(message, Lanes.unpriced(ALL)));
        reportEnd(finalizeId);
        assertTrue(assets[EAST].owesReply(actionId));
        answer(actionId, EAST);
        assertTrue(coordinator.branchOf(actionId, 0).state == BranchState.APPLIED);
    }

    function test_Revert_When_PrepareIsDispatchedAfterItsTime() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        vm.warp(START + 600);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.PhaseOver.selector, actionId, START + 600));
        coordinator.dispatch(actionId, 0);
    }

    function test_Revert_When_APrepareIsRetriedAfterTheVoteOrTheDecision() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        bytes32 prepareId = tell(actionId, 0);
        answer(actionId, EAST);
        Retry memory again = retryOf(prepareId);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.NothingToDispatch.selector, actionId, 0));
        coordinator.retry(again);
        vm.prank(initiator);
        coordinator.abort(actionId);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.NothingToDispatch.selector, actionId, 0));
        coordinator.retry(again);
    }

    // ---- the other levels

    function test_Guaranteed_IsDecidedAtOnceAndRetriedUntilItIsApplied() external {
        bytes32 actionId = _begin(_moveAs(Level.GUARANTEED, uint128(UNITS) + 1));
        assertTrue(coordinator.actionOf(actionId).decision == Decision.COMMIT, "decided");
        assertTrue(coordinator.actionOf(actionId).cause == Cause.LEVEL, "cause");
        bytes32 commitId = tell(actionId, 0);
        assertTrue(executionOf(commitId) == Execution.NONE, "it waits");
        tell(actionId, 1);
        assertEq(assets[WEST].unitsOf(ASSET, ann), 2 * UNITS + 1, "no participant waits for another");
        answer(actionId, WEST);
        vm.prank(initiator);
        vm.expectPartialRevert(IAtomicCoordinator.WrongState.selector);
        coordinator.abort(actionId);
        skip(20 days);
        coordinator.timeOut(actionId);
        assertState(actionId, ActionState.DIVERGED);

        _assertRefused(
            commitId,
            abi.encodeWithSelector(IAtomicParticipant.ChangeRefused.selector, actionId, bytes32("TOO_FEW_UNITS"))
        );
        _grant(ann, 1);
        executeAgain(commitId);
        answer(actionId, EAST);
        assertEq(assets[EAST].unitsOf(ASSET, ann), 0);
        assertState(actionId, ActionState.COMMITTED);
    }

    function test_BestEffort_EndsPartiallyAndOwesNoAnswer() external {
        bytes32 actionId = _begin(_moveAs(Level.BEST_EFFORT, uint128(UNITS) + 1));
        bytes32 east = tell(actionId, 0);
        bytes32 west = tell(actionId, 1);
        assertEq(coordinator.actionOn(ASSET), 0, "it holds nothing");
        assertUnlocked(WEST);
        vm.chainId(WEST);
        vm.expectRevert(abi.encodeWithSelector(IAtomicParticipant.NothingToReply.selector, actionId));
        assets[WEST].reply(actionId);
        vm.chainId(HOME);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.NotReported.selector, west));
        coordinator.settle(actionId, 1);
        reportEnd(west);
        coordinator.settle(actionId, 1);
        assertTrue(coordinator.branchOf(actionId, 1).state == BranchState.APPLIED);

        skip(601);
        vm.chainId(EAST);
        routers[EAST].expire(messageOf(east));
        vm.chainId(HOME);
        reportEnd(east);
        coordinator.settle(actionId, 0);
        assertState(actionId, ActionState.PARTIALLY_COMMITTED);
        assertEq(assets[EAST].unitsOf(ASSET, ann), UNITS);
        vm.expectPartialRevert(IAtomicCoordinator.WrongState.selector);
        coordinator.settle(actionId, 0);
    }

    function test_BestEffort_CommitsWhenAllAreReportedAndTimesOutIfNot() external {
        bytes32 actionId = _begin(freeze(Level.BEST_EFFORT));
        bytes32 east = tell(actionId, 0);
        bytes32 west = tell(actionId, 1);
        reportEnd(east);
        reportEnd(west);
        coordinator.settle(actionId, 0);
        coordinator.settle(actionId, 1);
        assertState(actionId, ActionState.COMMITTED);

        actionId = _begin(request(Level.BEST_EFFORT, _unfreeze(), _unfreeze()));
        east = tell(actionId, 0);
        skip(601);
        coordinator.timeOut(actionId);
        assertState(actionId, ActionState.PARTIALLY_COMMITTED);
        reportEnd(east);
        coordinator.settle(actionId, 0);
        assertTrue(coordinator.branchOf(actionId, 0).state == BranchState.APPLIED, "what is learned later is kept");
        assertState(actionId, ActionState.PARTIALLY_COMMITTED);
    }

    /// @dev The same failure, one participant that refuses, ends in three ways.
    function test_TheLevelsDifferInWhatARefusalLeaves() external {
        bytes32 best = _begin(_moveAs(Level.BEST_EFFORT, uint128(UNITS) + 1));
        tell(best, 0);
        tell(best, 1);
        skip(601);
        coordinator.timeOut(best);
        assertState(best, ActionState.PARTIALLY_COMMITTED);
        assertEq(assets[WEST].unitsOf(ASSET, ann), 2 * UNITS + 1, "applied where it could be");

        bytes32 all = _begin(move(uint128(UNITS) + 1));
        tell(all, 0);
        tell(all, 1);
        answer(all, EAST);
        tell(all, 1);
        answer(all, WEST);
        assertState(all, ActionState.ABORTED);
        assertEq(assets[WEST].unitsOf(ASSET, ann), 2 * UNITS + 1, "applied nowhere");

        bytes32 insisted = _begin(_moveAs(Level.GUARANTEED, uint128(UNITS) + 1));
        bytes32 commitId = tell(insisted, 0);
        skip(30 days);
        _grant(ann, 1);
        executeAgain(commitId);
        assertEq(assets[EAST].unitsOf(ASSET, ann), 0, "applied in the end");
    }

    function test_TheLevelsDifferInWhatASilentParticipantLeaves() external {
        bytes32 all = _begin(freeze(Level.ALL_OR_NOTHING));
        coordinator.dispatch(all, 0);
        skip(901);
        coordinator.timeOut(all);
        assertState(all, ActionState.ABORTING);
        tell(all, 0);
        answer(all, EAST);
        assertState(all, ActionState.ABORTED);

        bytes32 best = _begin(freeze(Level.BEST_EFFORT));
        bytes32 commitId = coordinator.dispatch(best, 0);
        skip(301);
        assertFalse(coordinator.isTimedOut(best), "it has no phases");
        skip(300);
        coordinator.timeOut(best);
        assertState(best, ActionState.PARTIALLY_COMMITTED);
        deliver(commitId);
        assertTrue(executionOf(commitId) == Execution.EXPIRED, "only the message's own time counts");

        bytes32 insisted = _begin(freeze(Level.GUARANTEED));
        commitId = coordinator.dispatch(insisted, 0);
        skip(301);
        coordinator.timeOut(insisted);
        assertState(insisted, ActionState.DIVERGED);
        skip(600);
        deliver(commitId);
        assertTrue(assets[EAST].isFrozen(ASSET), "it never gives up");
    }

    // ---- who may, and what is refused

    function test_Revert_When_TheCallerMayNot() external {
        ActionRequest memory made = freeze(Level.ALL_OR_NOTHING);
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.NotInitiator.selector, address(this)));
        coordinator.begin(made);
        bytes32 actionId = _begin(made);
        vm.expectRevert(
            abi.encodeWithSelector(IAtomicCoordinator.NotInitiatorOrOwner.selector, actionId, address(this))
        );
        coordinator.abort(actionId);
        vm.expectRevert();
        coordinator.reconcile(actionId, 0, 0);
        vm.expectRevert();
        coordinator.setInitiator(address(this), true);
        vm.expectRevert();
        coordinator.setParticipant(_lane(EAST, address(this)));
        vm.expectRevert();
        coordinator.setDefaultWindow(window());
        vm.expectRevert();
        assets[EAST].setCoordinator(_lane(HOME, address(this)));
        vm.expectRevert();
        assets[EAST].reconcile(actionId);
    }

    function test_Revert_When_TheRequestIsUnsound() external {
        ActionRequest memory made = freeze(Level.ALL_OR_NOTHING);
        made.subject = 0;
        _expectUnsound(made, abi.encodeWithSelector(IAtomicCoordinator.ZeroSubject.selector));
        made = freeze(Level.ALL_OR_NOTHING);
        made.branches = new BranchRequest[](0);
        _expectUnsound(made, abi.encodeWithSelector(IAtomicCoordinator.InvalidBranches.selector, 0));
        made = freeze(Level.ALL_OR_NOTHING);
        made.branches[1] = made.branches[0];
        _expectUnsound(
            made, abi.encodeWithSelector(IAtomicCoordinator.DuplicateParticipant.selector, EAST, address(assets[EAST]))
        );
        made.branches[1].participant = ann;
        _expectUnsound(made, abi.encodeWithSelector(IAtomicCoordinator.UnknownParticipant.selector, EAST, ann));
        made = freeze(Level.ALL_OR_NOTHING);
        bytes32 actionId = _begin(made);
        _expectUnsound(made, abi.encodeWithSelector(IAtomicCoordinator.SubjectBusy.selector, ASSET, actionId));
    }

    function test_Revert_When_ThereIsNoSuchActionOrBranch() external {
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.UnknownAction.selector, bytes32("none")));
        coordinator.dispatch("none", 0);
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        vm.expectRevert(abi.encodeWithSelector(IAtomicCoordinator.UnknownBranch.selector, actionId, 2));
        coordinator.dispatch(actionId, 2);
        vm.chainId(EAST);
        vm.expectRevert(abi.encodeWithSelector(IAtomicParticipant.NothingToReply.selector, actionId));
        assets[EAST].reply(actionId);
    }

    function test_AReplyOfAnotherParticipantCountsForNobody() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        bytes32 messageId = _forge(actionId, EAST, 1, Phase.VOTE, BranchState.PREPARED);
        deliver(messageId);
        assertTrue(executionOf(messageId) == Execution.NONE, "refused");
        assertEq(coordinator.actionOf(actionId).pending, 2);
    }

    function test_ViewsTellWhatIsKnown() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        assertEq(coordinator.actionOn(ASSET), actionId);
        assertEq(coordinator.actionIdOf(coordinator.actionCount()), actionId);
        networks[1].setFee(1 ether);
        assertEq(coordinator.quoteDispatch(actionId, 1), 1 ether);
        vm.deal(ann, 3 ether);
        vm.prank(ann);
        bytes32 prepareId = coordinator.dispatch{value: 3 ether}(actionId, 1);
        assertEq(ann.balance, 2 ether, "the rest comes back");
        (bytes32 found, uint8 branch) = coordinator.actionOfMessage(prepareId);
        assertTrue(found == actionId && branch == 1);
        deliver(prepareId);
        vm.chainId(WEST);
        assertEq(assets[WEST].quoteReply(actionId), 1 ether);
        assertEq(coordinator.laneOf(EAST, address(assets[EAST])).quorum, 2);
        assertEq(coordinator.defaultWindow().lockTtl, window().lockTtl);
        assertTrue(messageOf(prepareId).kind == Kind.LOCK_MANAGEMENT && messageOf(prepareId).ttl == 600);
    }

    // ---- who is refunded calls again

    function test_WhoIsRefundedCanNotDispatchTwice() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        refundedCall = abi.encodeCall(coordinator.dispatch, (actionId, 0));
        bytes32 prepareId = coordinator.dispatch{value: 1 wei}(actionId, 0);
        assertEq(
            refundedAnswer,
            abi.encodeWithSelector(IAtomicCoordinator.AlreadyDispatched.selector, actionId, 0, prepareId),
            "dispatched twice"
        );
    }

    /// @dev An adapter that fails has the router refund its fee, before the coordinator knows the message's id.
    function test_AnActionThatEndsWhileItsPrepareIsSentOwesAnAbort() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        vm.prank(owner);
        coordinator.transferOwnership(address(this));
        coordinator.acceptOwnership();
        networks[3].setFee(1 wei);
        networks[3].setBroken(true);
        refundedCall = abi.encodeCall(coordinator.abort, (actionId));
        bytes32 prepareId = coordinator.dispatch{value: 1 wei}(actionId, 0);
        networks[3].setFee(0);
        assertState(actionId, ActionState.ABORTING);
        deliver(prepareId);
        assertLocked(EAST, actionId);
        tell(actionId, 0);
        assertUnlocked(EAST);
        answer(actionId, EAST);
        assertState(actionId, ActionState.ABORTED);
    }

    /// @dev ABORT waits with its receipts. It is executed by the contract that is refunded for the vote.
    function test_AnAbortThatArrivesWhileAVoteIsRefundedIsConfirmed() external {
        bytes32 actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        tell(actionId, 0);
        vm.prank(initiator);
        coordinator.abort(actionId);
        bytes32 abortId = coordinator.dispatch(actionId, 0);
        deliver(abortId, 1);
        refundedDelivery = abortId;
        vm.chainId(EAST);
        assets[EAST].reply{value: 1 wei}(actionId);
        vm.chainId(HOME);
        assertUnlocked(EAST);
        answer(actionId, EAST);
        assertState(actionId, ActionState.ABORTED);
    }

    function test_AParameterChangesOnlyFromTheValueThatItNames() external {
        vm.chainId(EAST);
        AtomicParameters parameters = new AtomicParameters(routers[EAST], owner, window());
        vm.startPrank(owner);
        parameters.set("limit", 5);
        parameters.allowRoute(HOME, address(coordinator), 2, ALL);
        vm.stopPrank();
        vm.chainId(HOME);
        deliver(_instructAt(EAST, address(parameters), Level.GUARANTEED, 77, "limit", abi.encode(5, 9)));
        assertEq(parameters.valueOf("limit"), 9);
        deliver(_instructAt(EAST, address(parameters), Level.GUARANTEED, 78, "limit", abi.encode(5, 7)));
        assertEq(parameters.valueOf("limit"), 9);
    }

    // ---- helpers

    receive() external payable {
        if (refundedDelivery != 0) deliver(refundedDelivery, 2);
        if (refundedCall.length == 0) return;
        bytes memory call = refundedCall;
        delete refundedCall;
        (, refundedAnswer) = address(coordinator).call(call);
    }

    function makeParticipant(Window memory asked) external {
        new AtomicAssets(routers[EAST], owner, asked);
    }

    function assertState(bytes32 actionId, ActionState expected) private view {
        assertEq(uint8(coordinator.actionOf(actionId).state), uint8(expected), "state");
    }

    function assertLocked(uint64 chain, bytes32 actionId) private view {
        (address holder,,) = assets[chain].lockOf(ASSET);
        assertEq(holder, address(uint160(uint256(actionId))), "not locked by the action");
    }

    function assertUnlocked(uint64 chain) private view {
        (address holder,,) = assets[chain].lockOf(ASSET);
        assertEq(holder, address(0), "locked");
    }

    function _begin(ActionRequest memory made) private returns (bytes32 actionId) {
        vm.prank(initiator);
        return coordinator.begin(made);
    }

    function _prepareAll(bytes32 actionId) private {
        tell(actionId, 0);
        tell(actionId, 1);
        answer(actionId, EAST);
        answer(actionId, WEST);
    }

    /// @dev A freeze for which both have voted yes.
    function _prepared() private returns (bytes32 actionId) {
        actionId = _begin(freeze(Level.ALL_OR_NOTHING));
        _prepareAll(actionId);
    }

    function _finish(bytes32 actionId) private {
        _finishOne(actionId, 0, EAST);
        _finishOne(actionId, 1, WEST);
    }

    function _finishOne(bytes32 actionId, uint256 branch, uint64 chain) private {
        tell(actionId, branch);
        answer(actionId, chain);
    }

    function _unfreeze() private pure returns (bytes memory) {
        return _change(AtomicAssets.Act.UNFREEZE, address(0), 0);
    }

    function _moveAs(Level level, uint128 units) private view returns (ActionRequest memory made) {
        made = move(units);
        made.level = level;
    }

    function _grant(address account, uint128 units) private {
        deliver(
            _instructAt(
                EAST,
                address(assets[EAST]),
                Level.GUARANTEED,
                90,
                ASSET,
                _change(AtomicAssets.Act.CREDIT, account, units)
            )
        );
    }

    /// @dev What was moved away under no lock comes back, so that the change can be made.
    function _giveBack(uint128 units) private {
        vm.store(address(assets[EAST]), _unitsSlot(), bytes32(assets[EAST].unitsOf(ASSET, ann) + units));
    }

    function _unitsSlot() private returns (bytes32) {
        bytes32[] memory reads;
        vm.record();
        assets[EAST].unitsOf(ASSET, ann);
        (reads,) = vm.accesses(address(assets[EAST]));
        return reads[reads.length - 1];
    }

    /// @dev A reply that the participant's code would not send.
    function _forge(bytes32 actionId, uint64 chain, uint8 branch, Phase phase, BranchState state)
        private
        returns (bytes32 messageId)
    {
        bytes memory payload =
            abi.encode(Reply({phase: phase, actionId: actionId, branch: branch, state: state, reason: 0}));
        vm.chainId(chain);
        messageId = _routeAs(routers[chain], address(assets[chain]), HOME, address(coordinator), payload);
        vm.chainId(HOME);
    }

    function _instruct(uint64 chain, Phase phase, Level level, uint64 number) private returns (bytes32) {
        return _instruct(chain, phase, level, number, window().lockTtl);
    }

    /// @dev An instruction that the coordinator's code would not send.
    function _instruct(uint64 chain, Phase phase, Level level, uint64 number, uint32 lockTtl)
        private
        returns (bytes32)
    {
        Instruction memory instruction = Instruction({
            phase: phase,
            level: level,
            number: number,
            branch: 0,
            subject: ASSET,
            window: window(),
            change: _change(AtomicAssets.Act.FREEZE, address(0), 0)
        });
        instruction.window.lockTtl = lockTtl;
        return _routeAs(routers[HOME], address(coordinator), chain, address(assets[chain]), abi.encode(instruction));
    }

    function _instructAt(
        uint64 chain,
        address participant,
        Level level,
        uint64 number,
        bytes32 subject,
        bytes memory change
    ) private returns (bytes32) {
        Instruction memory instruction = Instruction({
            phase: Phase.COMMIT,
            level: level,
            number: number,
            branch: 0,
            subject: subject,
            window: window(),
            change: change
        });
        return _routeAs(routers[HOME], address(coordinator), chain, participant, abi.encode(instruction));
    }

    /// @dev The message waits at its router, and its recipient refuses it with this.
    function _assertRefused(bytes32 messageId, bytes memory reason) private {
        Message memory message = messageOf(messageId);
        vm.chainId(message.destinationChain);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.ExecutionReverted.selector, messageId, reason));
        routers[message.destinationChain].execute(message);
        vm.chainId(HOME);
    }

    function _expectUnsound(ActionRequest memory made, bytes memory reason) private {
        vm.expectRevert(reason);
        vm.prank(initiator);
        coordinator.begin(made);
    }
}
