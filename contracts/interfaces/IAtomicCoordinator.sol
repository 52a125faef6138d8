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

/// @notice Decides, for several chains at once, whether a change happens on all of them or on none: the coordinator of a two-phase
///         commit, on the action's source chain. Its record of a decision is the primary record.
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

    /// @notice The phase's message to the participant was created. Its lifecycle is that of any message.
    event PhaseDispatched(
        bytes32 indexed actionId, uint8 indexed branch, bytes32 indexed messageId, Phase phase, uint64 chain
    );

    /// @notice The same message was sent again; `retries` counts within the phase, from 1.
    event PhaseRetried(bytes32 indexed actionId, uint8 indexed branch, bytes32 indexed messageId, uint32 retries);

    /// @notice A participant's first vote. `reason` is its own word for a refusal.
    event VoteCounted(bytes32 indexed actionId, uint8 indexed branch, bool yes, bytes32 reason);

    /// @notice The decision is recorded; it never changes. COMMIT and ABORT leave only after it. Happens once for an action.
    event ActionDecided(bytes32 indexed actionId, Decision decision, Cause cause);

    /// @notice A participant's part is over: APPLIED, RELEASED, REFUSED, NOT_APPLIED or RECONCILED.
    event BranchSettled(bytes32 indexed actionId, uint8 indexed branch, BranchState state);

    /// @notice A participant can't do what was decided, or did the contrary: `reported` is what it says it did.
    event BranchDiverged(
        bytes32 indexed actionId, uint8 indexed branch, Decision decision, BranchState reported, bytes32 reason
    );

    /// @notice A reply changed nothing: it came twice or too late.
    event ReplyIgnored(bytes32 indexed actionId, uint8 indexed branch, bytes32 indexed messageId, BranchState reported);

    /// @notice The action's state changed. COMMITTED, PARTIALLY_COMMITTED and ABORTED are final, so each action ends once.
    event ActionStateChanged(bytes32 indexed actionId, ActionState from, ActionState to);

    /// @notice The owner vouches for what a participant can't confirm itself; `evidence` is the hash of why.
    event BranchReconciled(bytes32 indexed actionId, uint8 indexed branch, bytes32 evidence);

    event InitiatorSet(address indexed account, bool allowed);
    event ParticipantSet(uint64 indexed chain, address indexed participant);
    event DefaultWindowSet(Window window);

    error NotInitiator(address account);

    /// @notice Only the action's initiator and the coordinator's owner may.
    error NotInitiatorOrOwner(bytes32 actionId, address account);

    error UnknownAction(bytes32 actionId);
    error UnknownBranch(bytes32 actionId, uint256 branch);

    /// @notice An action has between 1 and 16 participants.
    error InvalidBranches(uint256 branches);

    error DuplicateParticipant(uint64 chain, address participant);

    /// @notice No lane leads to the participant: the owner calls {setParticipant}.
    error UnknownParticipant(uint64 chain, address participant);

    error ZeroSubject();

    /// @notice Another action on the subject is not finished.
    error SubjectBusy(bytes32 subject, bytes32 actionId);

    /// @notice `ROLLBACK_INCOMPLETE_REJECT`: an action on the subject is DIVERGED or ROLLBACK_INCOMPLETE. No other begins until
    ///         its participants have answered or were reconciled.
    error RollbackIncomplete(bytes32 subject, bytes32 actionId);

    /// @notice The action is in another state than the call needs.
    error WrongState(bytes32 actionId, ActionState state);

    /// @notice The phase's message to this participant exists and may still be executed: retry it.
    error AlreadyDispatched(bytes32 actionId, uint256 branch, bytes32 messageId);

    /// @notice Nothing more is to be sent to this participant: it has voted, or its part is over.
    error NothingToDispatch(bytes32 actionId, uint256 branch);

    /// @notice The time for the phase is over, Unix seconds.
    error PhaseOver(bytes32 actionId, uint64 endedAt);

    /// @notice The message has been sent again as often as its phase allows: call {timeOut} once the last try is over.
    error RetriesExhausted(bytes32 actionId, uint256 branch, uint32 retries);

    /// @notice Retries and time are not used up: the phase goes on.
    error NotTimedOut(bytes32 actionId, uint64 endsAt);

    /// @notice A reply about an action comes from another account than its participant.
    error NotParticipant(bytes32 actionId, uint64 chain, address sender);

    /// @notice The destination has not reported how the message ended.
    error NotReported(bytes32 messageId);

    // ---- configuration, by the owner

    /// @notice Lets `account` begin actions.
    function setInitiator(address account, bool allowed) external;

    /// @notice Says how messages travel to the participant `lane.recipient` on `lane.chain`: its GMPs, its quorum, its gas. For the
    ///         way back the owner also calls {IRouterClient-allowRoute}. `lane.ttl` is not used: phases have their own.
    function setParticipant(Lane calldata lane) external;

    /// @notice The window of actions that name none.
    function setDefaultWindow(Window calldata window) external;

    // ---- actions

    /// @notice Records an action. Nothing is sent yet: {dispatch} does that.
    /// @dev Reverts unless the caller is an initiator, the window is sound and the subject is free. `TtlTooShort` if `prepareTtl`
    ///      is below what the router takes.
    /// @return actionId Its name on all chains.
    function begin(ActionRequest calldata request) external returns (bytes32 actionId);

    /// @notice Sends the present phase's message to one participant: PREPARE before the decision, COMMIT or ABORT after it. Open to
    ///         anyone who pays; `msg.value` is the cap.
    /// @dev Once for each phase, except that a message which the destination reports as expired or cancelled is replaced by a new
    ///      one. Participants do nothing twice.
    function dispatch(bytes32 actionId, uint256 branch) external payable returns (bytes32 messageId);

    /// @notice Aborts an action that is not decided; for its initiator and the owner.
    function abort(bytes32 actionId) external;

    /// @notice Ends a phase whose retries and time are used up. Open to anyone. PREPARING is aborted; COMMITTING becomes DIVERGED,
    ///         ABORTING becomes ROLLBACK_INCOMPLETE, and both go on until every participant has answered. A BEST_EFFORT action
    ///         becomes PARTIALLY_COMMITTED.
    function timeOut(bytes32 actionId) external;

    /// @notice For BEST_EFFORT: takes the destination router's report of how the participant's message ended. Open to anyone.
    function settle(bytes32 actionId, uint256 branch) external;

    /// @notice Ends one participant's part of a DIVERGED or ROLLBACK_INCOMPLETE action by the owner's word, because the participant
    ///         can't confirm. The decision stays as it is.
    /// @param evidence Hash of what shows that the participant's chain agrees with the decision, or never will matter again.
    function reconcile(bytes32 actionId, uint256 branch, bytes32 evidence) external;

    // ---- views

    /// @notice The primary record; state NONE if there is no such action.
    function actionOf(bytes32 actionId) external view returns (Action memory);

    function branchOf(bytes32 actionId, uint256 branch) external view returns (Branch memory);

    /// @notice The unfinished action on the subject, or 0. BEST_EFFORT actions don't occupy it.
    function actionOn(bytes32 subject) external view returns (bytes32 actionId);

    /// @notice The action and the place that a phase's message belongs to; 0 and 0 for any other message.
    function actionOfMessage(bytes32 messageId) external view returns (bytes32 actionId, uint8 branch);

    /// @notice The id of the action with that number, whether or not it exists: `keccak256(abi.encode(chain, coordinator, number))`.
    function actionIdOf(uint64 number) external view returns (bytes32);

    /// @notice How many actions were begun; the number of the last.
    function actionCount() external view returns (uint64);

    /// @notice When the present phase ends even if its retries are not used up, Unix seconds; 0 if the action is over.
    function phaseEndsAt(bytes32 actionId) external view returns (uint64);

    /// @notice Whether {timeOut} may be called.
    function isTimedOut(bytes32 actionId) external view returns (bool);

    /// @notice What {dispatch} would cost now, in wei.
    function quoteDispatch(bytes32 actionId, uint256 branch) external view returns (uint256 fees);

    function defaultWindow() external view returns (Window memory);

    /// @notice No recipient means that the participant is not known.
    function laneOf(uint64 chain, address participant) external view returns (Lane memory);

    function isInitiator(address account) external view returns (bool);
}
