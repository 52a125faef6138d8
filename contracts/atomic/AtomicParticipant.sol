// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ExpiringLocks} from "../client/ExpiringLocks.sol";
import {Lane, Lanes} from "../client/Lanes.sol";
import {RouterClient} from "../client/RouterClient.sol";
import {IAtomicParticipant} from "../interfaces/IAtomicParticipant.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {BranchState, Instruction, Level, Participation, Phase, Reply, Window} from "../types/Atomic.sol";
import {Kind, Route} from "../types/Message.sol";
import {Execution} from "../types/MessageRecords.sol";

/// @notice Base contract for participants of atomic actions. A dApp implements when a change is refused and how it is applied.
/// @dev Every function that changes a subject must call {_requireMovable} first: a lock that others bypass protects nothing.
abstract contract AtomicParticipant is IAtomicParticipant, RouterClient, ExpiringLocks {
    /// @notice Reasons for a no other than the participant's own guards.
    bytes32 public constant ROLLBACK_INCOMPLETE_REJECT = "ROLLBACK_INCOMPLETE_REJECT";
    bytes32 public constant LOCK_TTL_REJECT = "LOCK_TTL_REJECT";

    mapping(bytes32 actionId => Participation) private _participations;
    mapping(uint64 chain => mapping(address coordinator => Lane)) private _lanes;

    /// @inheritdoc IAtomicParticipant
    mapping(bytes32 subject => bytes32 actionId) public divergedOn;

    /// @param window The minimum times that actions must allow. Their locks hold for at least as long as it requires.
    constructor(IRouter router_, address owner_, Window memory window) RouterClient(router_, owner_) {
        window.requireSound();
        _setRetryWindow(RetryWindow(window.prepareTtl + window.decisionTtl, window.maxRetries, window.maxBackoff));
    }

    /// @inheritdoc IAtomicParticipant
    function setCoordinator(Lane calldata lane) external onlyOwner {
        _lanes[lane.chain][lane.recipient] = lane;
        emit CoordinatorSet(lane.chain, lane.recipient);
    }

    /// @inheritdoc IAtomicParticipant
    function reply(bytes32 actionId) external payable returns (bytes32 messageId) {
        (Route memory made, Phase phase) = _replyOf(actionId);
        uint256 rest;
        (messageId, rest) = Lanes.sendWithin(router, made, msg.value);
        Participation storage part = _participations[actionId];
        part.replyId = messageId;
        emit Replied(actionId, messageId, phase, part.state, part.reason);
        Lanes.refund(made, rest);
    }

    /// @inheritdoc IAtomicParticipant
    function reconcile(bytes32 actionId) external onlyOwner {
        Participation storage part = _participations[actionId];
        if (part.state != BranchState.DIVERGED) revert NotDiverged(actionId, part.state);
        delete divergedOn[part.subject];
        part.reason = 0;
        _takeLock(part.subject, _holderOf(actionId), part.lockTtl);
        emit ActionReconciled(actionId, part.subject);
        _applyUnderLock(actionId, part, false);
    }

    /// @inheritdoc IAtomicParticipant
    function participationOf(bytes32 actionId) external view returns (Participation memory) {
        return _participations[actionId];
    }

    /// @inheritdoc IAtomicParticipant
    function owesReply(bytes32 actionId) external view returns (bool) {
        Participation storage part = _participations[actionId];
        return _hasAnswer(part) && (part.replyId == 0 || _endedInVain(part.replyId));
    }

    /// @inheritdoc IAtomicParticipant
    function quoteReply(bytes32 actionId) external view returns (uint256 fees) {
        (Route memory made,) = _replyOf(actionId);
        fees = Lanes.price(router, made);
    }

    // ---- implemented by participants

    /// @dev Returns why the change can't be applied now, or 0 if it can. The result must stay 0 for as long as the subject is
    ///      locked.
    function _refusal(bytes32 subject, bytes memory change) internal view virtual returns (bytes32 reason);

    /// @dev Applies the change. It must not fail if {_refusal} returns 0, except for the owner's {reconcile}.
    function _apply(bytes32 subject, bytes memory change) internal virtual;

    /// @dev Reverts while an action holds the subject, or while a diverged action on it awaits reconciliation.
    function _requireMovable(bytes32 subject) internal view {
        _requireUnlocked(subject, address(0));
        if (divergedOn[subject] != 0) revert RollbackIncomplete(subject, divergedOn[subject]);
    }

    // ---- messages

    function _handle(bytes32, uint64 chain, address sender, bytes calldata payload) internal override {
        Instruction memory instruction = abi.decode(payload, (Instruction));
        // The id contains the coordinator, so that no coordinator can affect another's action.
        bytes32 actionId = keccak256(abi.encode(chain, sender, instruction.number));
        Participation storage part = _participations[actionId];
        if (part.state == BranchState.NONE) {
            (part.chain, part.coordinator, part.branch) = (chain, sender, instruction.branch);
            (part.level, part.subject) = (instruction.level, instruction.subject);
        }
        if (instruction.phase == Phase.PREPARE) _prepare(actionId, part, instruction);
        else if (instruction.phase == Phase.COMMIT) _commit(actionId, part, instruction);
        else if (instruction.phase == Phase.ABORT) _abort(actionId, part);
        else revert NotForParticipants(instruction.phase);
    }

    /// @dev Locks and votes yes, or votes no. A subject held by another action is not a refusal: the message waits.
    function _prepare(bytes32 actionId, Participation storage part, Instruction memory instruction) private {
        // PREPARE is repeated, or follows its own ABORT: either way there is nothing left to lock.
        if (part.state != BranchState.NONE) return;
        bytes32 subject = instruction.subject;
        _requireUnlocked(subject, address(0));
        (part.voteTtl, part.lockTtl) =
        (instruction.window.prepareTtl + instruction.window.decisionTtl, instruction.window.lockTtl);
        bytes32 reason = _reasonToRefuse(instruction);
        if (reason != 0) {
            (part.state, part.reason) = (BranchState.REFUSED, reason);
            emit ActionRefused(actionId, subject, reason);
            return;
        }
        part.change = instruction.change;
        part.state = BranchState.PREPARED;
        _takeLock(subject, _holderOf(actionId), part.lockTtl);
        (, uint64 until, uint32 fence) = lockOf(subject);
        emit ActionPrepared(actionId, subject, until, fence);
    }

    function _commit(bytes32 actionId, Participation storage part, Instruction memory instruction) private {
        BranchState state = part.state;
        if (state == BranchState.APPLIED || state == BranchState.DIVERGED) return;
        if (state == BranchState.RELEASED || state == BranchState.REFUSED) {
            revert DecisionContradicted(actionId, Phase.COMMIT, state);
        }
        if (instruction.level != Level.ALL_OR_NOTHING) return _commitAtOnce(actionId, part, instruction);
        if (state != BranchState.PREPARED) revert NotPrepared(actionId, state);
        part.replyId = 0;
        (address holder,,) = lockOf(part.subject);
        if (holder == _holderOf(actionId)) return _applyUnderLock(actionId, part, true);

        if (divergedOn[part.subject] != 0) revert RollbackIncomplete(part.subject, divergedOn[part.subject]);
        // OIP-141: the lock has expired, so take another one, and run the guards again.
        _takeLock(part.subject, _holderOf(actionId), part.lockTtl);
        bytes32 reason = _refusal(part.subject, part.change);
        if (reason == 0) return _applyUnderLock(actionId, part, false);
        _releaseLock(part.subject, _holderOf(actionId));
        (part.state, part.reason) = (BranchState.DIVERGED, reason);
        divergedOn[part.subject] = actionId;
        emit ActionDiverged(actionId, part.subject, reason);
    }

    /// @dev COMMIT of a level without a first phase. If it is refused, it waits at the router, where anyone may execute it until
    ///      it expires.
    function _commitAtOnce(bytes32 actionId, Participation storage part, Instruction memory instruction) private {
        _requireMovable(part.subject);
        bytes32 reason = _refusal(part.subject, instruction.change);
        if (reason != 0) revert ChangeRefused(actionId, reason);
        part.state = BranchState.APPLIED;
        emit ActionApplied(actionId, part.subject, false);
        _apply(part.subject, instruction.change);
    }

    /// @dev Releases the lock. If ABORT arrived before PREPARE, records that there is nothing left to prepare.
    function _abort(bytes32 actionId, Participation storage part) private {
        BranchState state = part.state;
        if (state == BranchState.RELEASED) return;
        if (state == BranchState.APPLIED || state == BranchState.DIVERGED) {
            revert DecisionContradicted(actionId, Phase.ABORT, state);
        }
        (part.state, part.replyId, part.reason) = (BranchState.RELEASED, 0, 0);
        (address holder,,) = lockOf(part.subject);
        if (holder == _holderOf(actionId)) _releaseLock(part.subject, holder);
        emit ActionReleased(actionId, part.subject);
    }

    function _applyUnderLock(bytes32 actionId, Participation storage part, bool underLock) private {
        (part.state, part.replyId) = (BranchState.APPLIED, 0);
        emit ActionApplied(actionId, part.subject, underLock);
        _apply(part.subject, part.change);
        _releaseLock(part.subject, _holderOf(actionId));
    }

    function _replyOf(bytes32 actionId) private view returns (Route memory made, Phase phase) {
        Participation storage part = _participations[actionId];
        if (!_hasAnswer(part)) revert NothingToReply(actionId);
        if (part.replyId != 0 && !_endedInVain(part.replyId)) revert AlreadyReplied(actionId, part.replyId);
        bool votes = part.state == BranchState.PREPARED || part.state == BranchState.REFUSED;
        phase = votes ? Phase.VOTE : Phase.FINALIZE;
        Lane memory lane = _lanes[part.chain][part.coordinator];
        lane.ttl = votes ? part.voteTtl : 0;
        bytes memory payload = abi.encode(
            Reply({phase: phase, actionId: actionId, branch: part.branch, state: part.state, reason: part.reason})
        );
        made = lane.request(votes ? Kind.LOCK_MANAGEMENT : Kind.PLAIN, payload, msg.sender);
        made.replaces = part.replyId;
    }

    function _reasonToRefuse(Instruction memory instruction) private view returns (bytes32) {
        uint64 lockTtl = instruction.window.lockTtl;
        bool tooShort = lockTtl < leastLockTtl() || lockTtl < instruction.window.leastLockTtl();
        if (tooShort || lockTtl > MAX_LOCK_TTL) return LOCK_TTL_REJECT;
        if (divergedOn[instruction.subject] != 0) return ROLLBACK_INCOMPLETE_REJECT;
        return _refusal(instruction.subject, instruction.change);
    }

    function _hasAnswer(Participation storage part) private view returns (bool) {
        return part.state != BranchState.NONE && part.level != Level.BEST_EFFORT;
    }

    function _endedInVain(bytes32 messageId) private view returns (bool) {
        Execution outcome = router.outcomeOf(messageId);
        return outcome == Execution.EXPIRED || outcome == Execution.CANCELLED;
    }

    /// @dev The holder of an action's lock: an address of no account, because two actions of one contract must exclude each
    ///      other.
    function _holderOf(bytes32 actionId) private pure returns (address) {
        return address(uint160(uint256(actionId)));
    }
}
