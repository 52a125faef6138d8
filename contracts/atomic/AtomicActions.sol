// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAtomicCoordinator} from "../interfaces/IAtomicCoordinator.sol";
import {
    Action,
    ActionRequest,
    ActionState,
    Branch,
    BranchState,
    Cause,
    Decision,
    Level,
    Window
} from "../types/Atomic.sol";

/// @notice The coordinator's state machine: actions, votes, decisions and outcomes, without the messages that carry them.
/// @dev Every state change goes through {_decide}, {_settle}, {_diverge} or {_timeOut}, so only these must be correct.
///      tests/solidity/symbolic/Atomic.proof.sol proves them.
abstract contract AtomicActions is IAtomicCoordinator {
    uint8 internal constant MOST_BRANCHES = 16;

    uint64 private _actionCount;
    mapping(bytes32 actionId => Action) internal _actions;
    mapping(bytes32 actionId => Branch[]) internal _branches;
    mapping(bytes32 subject => bytes32 actionId) private _actionOn;

    // ---- views

    /// @inheritdoc IAtomicCoordinator
    function actionOf(bytes32 actionId) external view returns (Action memory) {
        return _actions[actionId];
    }

    /// @inheritdoc IAtomicCoordinator
    function branchOf(bytes32 actionId, uint256 branch) external view returns (Branch memory) {
        return _branch(actionId, branch);
    }

    /// @inheritdoc IAtomicCoordinator
    function actionOn(bytes32 subject) external view returns (bytes32 actionId) {
        return _actionOn[subject];
    }

    /// @inheritdoc IAtomicCoordinator
    function actionIdOf(uint64 number) public view returns (bytes32) {
        return keccak256(abi.encode(uint64(block.chainid), address(this), number));
    }

    /// @inheritdoc IAtomicCoordinator
    function actionCount() external view returns (uint64) {
        return _actionCount;
    }

    /// @inheritdoc IAtomicCoordinator
    function phaseEndsAt(bytes32 actionId) public view returns (uint64) {
        Action storage action = _actions[actionId];
        Window memory window = action.window;
        if (_isOver(action.state)) return 0;
        if (action.level == Level.BEST_EFFORT) return action.begunAt + window.prepareTtl;
        if (action.decision == Decision.NONE) return _decideBy(action);
        return action.decidedAt + window.retryTime();
    }

    /// @inheritdoc IAtomicCoordinator
    /// @dev OIP-144: a participant that does not answer is asked again until its retries are used up or the phase's time is over.
    function isTimedOut(bytes32 actionId) public view returns (bool) {
        Action storage action = _actions[actionId];
        if (_isOver(action.state) || _isStalled(action.state)) return false;
        if (block.timestamp > phaseEndsAt(actionId)) return true;
        if (action.level == Level.BEST_EFFORT) return false;
        Branch[] storage branches = _branches[actionId];
        for (uint256 index; index < branches.length; ++index) {
            if (_owesAnswer(action, branches[index]) && _isExhausted(action.window, branches[index])) return true;
        }
        return false;
    }

    // ---- transitions

    /// @dev Records a new action. The caller has checked that its participants are known.
    function _begin(ActionRequest calldata request, Window memory window) internal returns (bytes32 actionId) {
        uint256 length = request.branches.length;
        if (length == 0 || length > MOST_BRANCHES) revert InvalidBranches(length);
        _requireFree(request.subject);
        uint64 number = ++_actionCount;
        actionId = actionIdOf(number);
        Action storage action = _actions[actionId];
        action.initiator = msg.sender;
        action.level = request.level;
        action.number = number;
        action.begunAt = uint64(block.timestamp);
        action.subject = request.subject;
        action.window = window;
        action.branches = uint8(length);
        action.pending = uint8(length);
        for (uint256 index; index < length; ++index) {
            Branch storage branch = _branches[actionId].push();
            branch.chain = request.branches[index].chain;
            branch.participant = request.branches[index].participant;
            branch.change = request.branches[index].change;
        }
        emit ActionBegun(actionId, request.subject, msg.sender, number, request.level, window, request.branches);
        if (request.level != Level.BEST_EFFORT) _actionOn[request.subject] = actionId;
        if (request.level == Level.ALL_OR_NOTHING) _moveTo(actionId, action, ActionState.PREPARING);
        else _decide(actionId, Decision.COMMIT, Cause.LEVEL);
    }

    /// @dev Counts a participant's first vote.
    /// @return counted False if the vote was repeated, or came after the decision, and changes nothing.
    function _countVote(bytes32 actionId, uint256 index, bool yes, bytes32 reason) internal returns (bool counted) {
        Action storage action = _actions[actionId];
        Branch storage branch = _branches[actionId][index];
        if (branch.state != BranchState.NONE) return false;
        if (action.decision != Decision.NONE) {
            // Too late to count, but a participant that refused holds nothing that ABORT would have to release.
            if (yes || action.decision == Decision.COMMIT || _isOver(action.state)) return false;
            emit VoteCounted(actionId, uint8(index), yes, reason);
            _settle(actionId, index, BranchState.REFUSED);
            return true;
        }
        emit VoteCounted(actionId, uint8(index), yes, reason);
        branch.state = yes ? BranchState.PREPARED : BranchState.REFUSED;
        --action.pending;
        if (!yes) _decide(actionId, Decision.ABORT, Cause.REFUSED);
        else if (block.timestamp > _decideBy(action)) _decide(actionId, Decision.ABORT, Cause.TIMED_OUT);
        else if (action.pending == 0) _decide(actionId, Decision.COMMIT, Cause.ALL_PREPARED);
        return true;
    }

    /// @dev Applies a participant's report of what it finally did.
    /// @return counted False if its part was already over.
    function _finalize(bytes32 actionId, uint256 index, BranchState reported, bytes32 reason)
        internal
        returns (bool counted)
    {
        Action storage action = _actions[actionId];
        if (_isOver(action.state) || _isSettled(_branches[actionId][index].state)) return false;
        if (action.decision == Decision.NONE) {
            // No decision was sent yet, so abort to save what can be saved.
            _branches[actionId][index].state = BranchState.DIVERGED;
            _decide(actionId, Decision.ABORT, Cause.CONTRADICTED);
        }
        BranchState expected = action.decision == Decision.COMMIT ? BranchState.APPLIED : BranchState.RELEASED;
        if (reported == expected) _settle(actionId, index, reported);
        else _diverge(actionId, index, reported, reason);
        return true;
    }

    /// @dev Records the decision; no other function writes one.
    function _decide(bytes32 actionId, Decision decision, Cause cause) internal {
        Action storage action = _actions[actionId];
        if (action.decision != Decision.NONE) revert WrongState(actionId, action.state);
        action.decision = decision;
        action.cause = cause;
        action.decidedAt = uint64(block.timestamp);
        emit ActionDecided(actionId, decision, cause);
        _moveTo(actionId, action, decision == Decision.COMMIT ? ActionState.COMMITTING : ActionState.ABORTING);
        Branch[] storage branches = _branches[actionId];
        action.pending = uint8(branches.length);
        for (uint256 index; index < branches.length; ++index) {
            Branch storage branch = branches[index];
            bool told = branch.sentAt != 0;
            (branch.retries, branch.sentAt) = (0, 0);
            if (decision == Decision.COMMIT) continue;
            if (branch.state == BranchState.REFUSED) {
                _settle(actionId, index, BranchState.REFUSED);
            } else if (branch.state == BranchState.NONE && !told) {
                _settle(actionId, index, BranchState.RELEASED);
            }
        }
    }

    /// @dev Closes one participant's part, and the action with the last of them.
    function _settle(bytes32 actionId, uint256 index, BranchState state) internal {
        Action storage action = _actions[actionId];
        _branches[actionId][index].state = state;
        emit BranchSettled(actionId, uint8(index), state);
        if (--action.pending != 0 || _isOver(action.state)) return;
        if (action.decision == Decision.ABORT) _end(actionId, action, ActionState.ABORTED);
        else _end(actionId, action, _isPartial(actionId) ? ActionState.PARTIALLY_COMMITTED : ActionState.COMMITTED);
    }

    /// @dev Records that a participant contradicts the decision, which stays.
    function _diverge(bytes32 actionId, uint256 index, BranchState reported, bytes32 reason) internal {
        Action storage action = _actions[actionId];
        _branches[actionId][index].state = BranchState.DIVERGED;
        emit BranchDiverged(actionId, uint8(index), action.decision, reported, reason);
        _stall(actionId, action);
    }

    /// @dev Handles a time-out by the action's level: aborts before the decision, persists after it.
    function _timeOut(bytes32 actionId) internal {
        Action storage action = _actions[actionId];
        if (_isOver(action.state) || _isStalled(action.state)) revert WrongState(actionId, action.state);
        if (!isTimedOut(actionId)) revert NotTimedOut(actionId, phaseEndsAt(actionId));
        if (action.decision == Decision.NONE) _decide(actionId, Decision.ABORT, Cause.TIMED_OUT);
        else if (action.level == Level.BEST_EFFORT) _end(actionId, action, ActionState.PARTIALLY_COMMITTED);
        else _stall(actionId, action);
    }

    function _stall(bytes32 actionId, Action storage action) private {
        ActionState stalled =
            action.decision == Decision.COMMIT ? ActionState.DIVERGED : ActionState.ROLLBACK_INCOMPLETE;
        if (action.state != stalled) _moveTo(actionId, action, stalled);
    }

    function _end(bytes32 actionId, Action storage action, ActionState state) private {
        if (_actionOn[action.subject] == actionId) delete _actionOn[action.subject];
        _moveTo(actionId, action, state);
    }

    function _moveTo(bytes32 actionId, Action storage action, ActionState state) private {
        emit ActionStateChanged(actionId, action.state, state);
        action.state = state;
    }

    // ---- questions

    function _action(bytes32 actionId) internal view returns (Action storage action) {
        action = _actions[actionId];
        if (action.state == ActionState.NONE) revert UnknownAction(actionId);
    }

    function _branch(bytes32 actionId, uint256 index) internal view returns (Branch storage) {
        if (index >= _branches[actionId].length) revert UnknownBranch(actionId, index);
        return _branches[actionId][index];
    }

    /// @dev OIP-152: no action begins on a subject before the previous one is over.
    function _requireFree(bytes32 subject) internal view {
        if (subject == 0) revert ZeroSubject();
        bytes32 present = _actionOn[subject];
        if (present == 0) return;
        if (_isStalled(_actions[present].state)) revert RollbackIncomplete(subject, present);
        revert SubjectBusy(subject, present);
    }

    /// @dev Whether the participant has not answered the current phase.
    function _owesAnswer(Action storage action, Branch storage branch) internal view returns (bool) {
        if (action.decision == Decision.NONE) return branch.state == BranchState.NONE;
        return !_isSettled(branch.state);
    }

    function _isOver(ActionState state) internal pure returns (bool) {
        return state == ActionState.NONE || state == ActionState.COMMITTED || state == ActionState.ABORTED
            || state == ActionState.PARTIALLY_COMMITTED;
    }

    function _isStalled(ActionState state) internal pure returns (bool) {
        return state == ActionState.DIVERGED || state == ActionState.ROLLBACK_INCOMPLETE;
    }

    function _isSettled(BranchState state) internal pure returns (bool) {
        return state != BranchState.NONE && state != BranchState.PREPARED && state != BranchState.DIVERGED;
    }

    function _isExhausted(Window memory window, Branch storage branch) private view returns (bool) {
        return branch.sentAt != 0 && branch.retries >= window.maxRetries
            && block.timestamp > branch.sentAt + window.maxBackoff;
    }

    function _decideBy(Action storage action) private view returns (uint64) {
        return action.begunAt + uint64(action.window.prepareTtl) + action.window.decisionTtl;
    }

    function _isPartial(bytes32 actionId) private view returns (bool) {
        Branch[] storage branches = _branches[actionId];
        for (uint256 index; index < branches.length; ++index) {
            if (branches[index].state == BranchState.NOT_APPLIED) return true;
        }
        return false;
    }
}
