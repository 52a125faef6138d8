// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Lane} from "../client/Lanes.sol";
import {BranchState, Participation, Phase} from "../types/Atomic.sol";

/// @notice Takes part in the atomic actions of coordinators on other chains: locks a subject and votes, then applies or releases.
/// @dev PREPARE, COMMIT and ABORT change the state when their message is executed. The answer is sent by {reply}, which anyone
///      calls and pays. A message that finds the subject locked by another action reverts: it waits at the router, and anyone may
///      execute it again.
interface IAtomicParticipant {
    /// @notice The subject is locked for the action, and the participant will vote yes.
    event ActionPrepared(bytes32 indexed actionId, bytes32 indexed subject, uint64 lockedUntil, uint32 fence);

    /// @notice The participant will vote no; nothing is locked.
    event ActionRefused(bytes32 indexed actionId, bytes32 indexed subject, bytes32 reason);

    /// @notice The change was made. `underLock` is whether the lock of PREPARE still held; without it the guards were asked again.
    event ActionApplied(bytes32 indexed actionId, bytes32 indexed subject, bool underLock);

    /// @notice ABORT arrived, or the PREPARE that follows it will change nothing.
    event ActionReleased(bytes32 indexed actionId, bytes32 indexed subject);

    /// @notice COMMIT arrived when the lock had expired, and the guards refuse now. New actions on the subject are refused.
    event ActionDiverged(bytes32 indexed actionId, bytes32 indexed subject, bytes32 reason);

    /// @notice The owner made the change of a diverged action.
    event ActionReconciled(bytes32 indexed actionId, bytes32 indexed subject);

    /// @notice The answer left for the coordinator.
    event Replied(bytes32 indexed actionId, bytes32 indexed messageId, Phase phase, BranchState state, bytes32 reason);

    event CoordinatorSet(uint64 indexed chain, address indexed coordinator);

    /// @notice The change's guards refuse a BEST_EFFORT or GUARANTEED action now; its message waits.
    error ChangeRefused(bytes32 actionId, bytes32 reason);

    /// @notice COMMIT of an action that this participant has not prepared.
    error NotPrepared(bytes32 actionId, BranchState state);

    /// @notice The instruction is the contrary of what was done: a decision never changes, so one of the two is a lie.
    error DecisionContradicted(bytes32 actionId, Phase phase, BranchState state);

    /// @notice `ROLLBACK_INCOMPLETE_REJECT`: an action on the subject diverged here and is not reconciled.
    error RollbackIncomplete(bytes32 subject, bytes32 actionId);

    /// @notice VOTE and FINALIZE are for coordinators.
    error NotForParticipants(Phase phase);

    /// @notice The action has no answer to send: it is unknown, or its level wants none.
    error NothingToReply(bytes32 actionId);

    /// @notice The answer is on its way and may still be executed: retry it.
    error AlreadyReplied(bytes32 actionId, bytes32 messageId);

    error NotDiverged(bytes32 actionId, BranchState state);

    /// @notice Says how answers travel to the coordinator `lane.recipient` on `lane.chain`; for the owner, who also calls
    ///         {IRouterClient-allowRoute} for what comes from it. `lane.ttl` is not used.
    function setCoordinator(Lane calldata lane) external;

    /// @notice Sends this participant's answer: VOTE after PREPARE, FINALIZE after COMMIT or ABORT. Open to anyone who pays;
    ///         `msg.value` is the cap, the rest goes back to the caller.
    /// @dev Once for each answer, except that a message which the coordinator's chain reports as expired or cancelled is replaced.
    function reply(bytes32 actionId) external payable returns (bytes32 messageId);

    /// @notice Makes the change of a diverged action without asking its guards, under a new lock; for the owner. The coordinator's
    ///         record is the truth, and the owner has made room for it.
    function reconcile(bytes32 actionId) external;

    /// @notice State NONE if nothing is known of the action.
    function participationOf(bytes32 actionId) external view returns (Participation memory);

    /// @notice The action that diverged on the subject, or 0.
    function divergedOn(bytes32 subject) external view returns (bytes32 actionId);

    /// @notice Whether {reply} has something to send.
    function owesReply(bytes32 actionId) external view returns (bool);

    /// @notice What {reply} would cost now, in wei.
    function quoteReply(bytes32 actionId) external view returns (uint256 fees);
}
