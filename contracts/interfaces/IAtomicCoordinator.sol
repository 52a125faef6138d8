// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Lane} from "../client/Lanes.sol";
import {
    Action,
    ActionRequest,
    ActionState,
    Branch,
    BranchRequest,
    BranchState,
    Cause,
    Decision,
    Level,
    Phase,
    Window
} from "../types/Atomic.sol";

/// @notice The coordinator of a two-phase commit, on the action's source chain. It decides whether a change happens on several
///         chains or on none of them. Its record of a decision is the primary record.
/// @dev An action's life:
///
///          begin       PREPARING, or COMMITTING at once if the level has no first phase
///          dispatch    PREPARE leaves for each participant
///          (votes)     all yes in time: the decision is COMMIT; one no: ABORT
///          timeOut     no answer within retries and time: ABORT
///          dispatch    COMMIT or ABORT leaves, never before the decision is recorded here
///          (FINALIZE)  every participant confirms: COMMITTED or ABORTED, recorded once
///          timeOut     a participant stays silent: DIVERGED or ROLLBACK_INCOMPLETE, until it answers or is reconciled
///
///      Votes and confirmations arrive as messages and change the state when they are executed. Everything that sends a message
///      is called, and paid, by anyone. Money beyond the fees goes back to the caller.
interface IAtomicCoordinator {
    /// @notice The action exists. `branches` are numbered from 0 in this order.
    event ActionBegun(
        bytes32 indexed actionId,
        bytes32 indexed subject,
        address indexed initiator,
        uint64 number,
        Level level,
        Window window,
        BranchRequest[] branches
    );

    /// @notice The phase's message to the participant was created. It has the lifecycle of any message.
    event PhaseDispatched(
        bytes32 indexed actionId, uint8 indexed branch, bytes32 indexed messageId, Phase phase, uint64 chain
    );

    /// @notice The same message was sent again; `retries` counts within the phase, from 1.
    event PhaseRetried(bytes32 indexed actionId, uint8 indexed branch, bytes32 indexed messageId, uint32 retries);

    /// @notice A participant's first vote was counted. `reason` is the participant's own reason for a refusal.
    event VoteCounted(bytes32 indexed actionId, uint8 indexed branch, bool yes, bytes32 reason);

    /// @notice The decision was recorded; it never changes. COMMIT and ABORT are sent only after this event. Emitted once per
    ///         action.
    event ActionDecided(bytes32 indexed actionId, Decision decision, Cause cause);

    /// @notice A participant's part is over: APPLIED, RELEASED, REFUSED, NOT_APPLIED or RECONCILED.
    event BranchSettled(bytes32 indexed actionId, uint8 indexed branch, BranchState state);

    /// @notice A participant can't carry out the decision, or did the opposite: `reported` is what it reports.
    event BranchDiverged(
        bytes32 indexed actionId, uint8 indexed branch, Decision decision, BranchState reported, bytes32 reason
    );

    /// @notice A reply changed nothing, because it was repeated or late.
    event ReplyIgnored(bytes32 indexed actionId, uint8 indexed branch, bytes32 indexed messageId, BranchState reported);

    /// @notice The action's state changed. COMMITTED, PARTIALLY_COMMITTED and ABORTED are final, so each action ends once.
    event ActionStateChanged(bytes32 indexed actionId, ActionState from, ActionState to);

    /// @notice The owner attests to what a participant can't confirm itself; `evidence` is the hash of the evidence.
    event BranchReconciled(bytes32 indexed actionId, uint8 indexed branch, bytes32 evidence);

    event InitiatorSet(address indexed account, bool allowed);
    event ParticipantSet(uint64 indexed chain, address indexed participant);
    event DefaultWindowSet(Window window);

    /// @notice Only an initiator may begin actions.
    error NotInitiator(address account);

    /// @notice Only the action's initiator and the coordinator's owner may call this.
    error NotInitiatorOrOwner(bytes32 actionId, address account);

    /// @notice There is no action with this id.
    error UnknownAction(bytes32 actionId);
    /// @notice The action has no participant with this number.
    error UnknownBranch(bytes32 actionId, uint256 branch);

    /// @notice An action has between 1 and 16 participants.
    error InvalidBranches(uint256 branches);

    /// @notice A participant is named twice.
    error DuplicateParticipant(uint64 chain, address participant);

    /// @notice There is no lane to the participant: the owner must call {setParticipant}.
    error UnknownParticipant(uint64 chain, address participant);

    /// @notice The subject is zero.
    error ZeroSubject();

    /// @notice Another action on the subject is unfinished.
    error SubjectBusy(bytes32 subject, bytes32 actionId);

    /// @notice `ROLLBACK_INCOMPLETE_REJECT`: an action on the subject is DIVERGED or ROLLBACK_INCOMPLETE. No other action begins
    ///         until its participants have answered or were reconciled.
    error RollbackIncomplete(bytes32 subject, bytes32 actionId);

    /// @notice The call is not allowed in the action's current state.
    error WrongState(bytes32 actionId, ActionState state);

    /// @notice The phase's message to this participant exists and may still be executed. Retry it instead.
    error AlreadyDispatched(bytes32 actionId, uint256 branch, bytes32 messageId);

    /// @notice There is nothing more to send to this participant: it has voted, or its part is over.
    error NothingToDispatch(bytes32 actionId, uint256 branch);

    /// @notice The time for the phase is over, Unix seconds.
    error PhaseOver(bytes32 actionId, uint64 endedAt);

    /// @notice The message was retried as often as its phase allows. Call {timeOut} once the last try has timed out.
    error RetriesExhausted(bytes32 actionId, uint256 branch, uint32 retries);

    /// @notice The phase has not timed out: retries or time are left.
    error NotTimedOut(bytes32 actionId, uint64 endsAt);

    /// @notice The reply about an action comes from an account other than its participant.
    error NotParticipant(bytes32 actionId, uint64 chain, address sender);

    /// @notice The destination has not reported how the message ended.
    error NotReported(bytes32 messageId);

    // ---- configuration, by the owner

    /// @notice Lets `account` begin actions.
    function setInitiator(address account, bool allowed) external;

    /// @notice Sets how messages travel to the participant `lane.recipient` on `lane.chain`: GMPs, quorum and gas. For the
    ///         replies, the owner also calls {IRouterClient-allowRoute}. `lane.ttl` is not used: phases have their own TTLs.
    function setParticipant(Lane calldata lane) external;

    /// @notice Sets the window of actions that have none of their own.
    function setDefaultWindow(Window calldata window) external;

    // ---- actions

    /// @notice Records an action. {dispatch} then sends the messages.
    /// @dev Reverts unless the caller is an initiator, the window is sound and the subject is free. Reverts with `TtlTooShort` if
    ///      `prepareTtl` is below the router's minimum.
    /// @return actionId The action's id on all chains.
    function begin(ActionRequest calldata request) external returns (bytes32 actionId);

    /// @notice Sends the current phase's message to one participant: PREPARE before the decision, COMMIT or ABORT after it.
    ///         Anyone who pays may call this; `msg.value` is the cap.
    /// @dev Can be called once per phase. A message that the destination reports as expired or cancelled may be replaced by a new
    ///      one. Participants ignore repetitions.
    function dispatch(bytes32 actionId, uint256 branch) external payable returns (bytes32 messageId);

    /// @notice Aborts an undecided action. Only for its initiator and the owner.
    function abort(bytes32 actionId) external;

    /// @notice Ends a phase whose retries and time are used up. Open to anyone. PREPARING is aborted. COMMITTING becomes DIVERGED
    ///         and ABORTING becomes ROLLBACK_INCOMPLETE, and both continue until every participant has answered. A BEST_EFFORT
    ///         action becomes PARTIALLY_COMMITTED.
    function timeOut(bytes32 actionId) external;

    /// @notice For BEST_EFFORT: applies the destination router's report of the outcome of the participant's message. Open to
    ///         anyone.
    function settle(bytes32 actionId, uint256 branch) external;

    /// @notice Closes one participant's part of a DIVERGED or ROLLBACK_INCOMPLETE action on the owner's authority, because the
    ///         participant can't confirm. The decision does not change.
    /// @param evidence Hash of the evidence that the participant's chain agrees with the decision, or will never matter again.
    function reconcile(bytes32 actionId, uint256 branch, bytes32 evidence) external;

    // ---- views

    /// @notice The primary record; state NONE if there is no such action.
    function actionOf(bytes32 actionId) external view returns (Action memory);

    function branchOf(bytes32 actionId, uint256 branch) external view returns (Branch memory);

    /// @notice The unfinished action on the subject, or 0. BEST_EFFORT actions don't occupy their subject.
    function actionOn(bytes32 subject) external view returns (bytes32 actionId);

    /// @notice The action and the participant's number to which a phase's message belongs; 0 and 0 for any other message.
    function actionOfMessage(bytes32 messageId) external view returns (bytes32 actionId, uint8 branch);

    /// @notice The id of the action with that number, whether or not it exists: `keccak256(abi.encode(chain, coordinator, number))`.
    function actionIdOf(uint64 number) external view returns (bytes32);

    /// @notice The number of actions started so far. The latest action has this number.
    function actionCount() external view returns (uint64);

    /// @notice When the current phase ends even if retries are left, Unix seconds; 0 if the action is over.
    function phaseEndsAt(bytes32 actionId) external view returns (uint64);

    /// @notice Whether {timeOut} may be called.
    function isTimedOut(bytes32 actionId) external view returns (bool);

    /// @notice The current cost of {dispatch}, in wei.
    function quoteDispatch(bytes32 actionId, uint256 branch) external view returns (uint256 fees);

    function defaultWindow() external view returns (Window memory);

    /// @notice A lane without recipient means that the participant is unknown.
    function laneOf(uint64 chain, address participant) external view returns (Lane memory);

    function isInitiator(address account) external view returns (bool);
}
