// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Lane} from "../client/Lanes.sol";
import {BranchState, Participation, Phase} from "../types/Atomic.sol";

/// @notice Takes part in atomic actions of coordinators on other chains: locks a subject and votes, then applies or releases.
/// @dev PREPARE, COMMIT and ABORT change the state when their message is executed. {reply}, which anyone may call and pay for,
///      sends the answer. A message whose subject is locked by another action reverts and waits at the router, where anyone may
///      execute it again.
interface IAtomicParticipant {
    /// @notice The subject is locked for the action, and the participant will vote yes.
    event ActionPrepared(bytes32 indexed actionId, bytes32 indexed subject, uint64 lockedUntil, uint32 fence);

    /// @notice The participant will vote no; it has locked nothing.
    event ActionRefused(bytes32 indexed actionId, bytes32 indexed subject, bytes32 reason);

    /// @notice The change was applied. `underLock` tells whether the lock of PREPARE was still held; otherwise the guards ran
    ///         again.
    event ActionApplied(bytes32 indexed actionId, bytes32 indexed subject, bool underLock);

    /// @notice ABORT arrived, or the PREPARE that follows it will change nothing.
    event ActionReleased(bytes32 indexed actionId, bytes32 indexed subject);

    /// @notice COMMIT arrived after the lock had expired, and the guards refuse. New actions on the subject are rejected.
    event ActionDiverged(bytes32 indexed actionId, bytes32 indexed subject, bytes32 reason);

    /// @notice The owner applied the change of a diverged action.
    event ActionReconciled(bytes32 indexed actionId, bytes32 indexed subject);

    /// @notice The answer was sent to the coordinator.
    event Replied(bytes32 indexed actionId, bytes32 indexed messageId, Phase phase, BranchState state, bytes32 reason);

    event CoordinatorSet(uint64 indexed chain, address indexed coordinator);

    /// @notice The change's guards currently refuse a BEST_EFFORT or GUARANTEED action; its message waits.
    error ChangeRefused(bytes32 actionId, bytes32 reason);

    /// @notice COMMIT arrived for an action that this participant has not prepared.
    error NotPrepared(bytes32 actionId, BranchState state);

    /// @notice The instruction contradicts what was done. A decision never changes, so one of the two is forged.
    error DecisionContradicted(bytes32 actionId, Phase phase, BranchState state);

    /// @notice `ROLLBACK_INCOMPLETE_REJECT`: an action on the subject has diverged here and is not reconciled.
    error RollbackIncomplete(bytes32 subject, bytes32 actionId);

    /// @notice VOTE and FINALIZE are addressed to coordinators, not to participants.
    error NotForParticipants(Phase phase);

    /// @notice There is no answer to send: the action is unknown, or its level requires none.
    error NothingToReply(bytes32 actionId);

    /// @notice The answer was sent and may still be executed. Retry it instead.
    error AlreadyReplied(bytes32 actionId, bytes32 messageId);

    /// @notice The action has not diverged here.
    error NotDiverged(bytes32 actionId, BranchState state);

    /// @notice Sets how answers travel to the coordinator `lane.recipient` on `lane.chain`. Only for the owner, who also calls
    ///         {IRouterClient-allowRoute} for the coordinator's messages. `lane.ttl` is not used.
    function setCoordinator(Lane calldata lane) external;

    /// @notice Sends this participant's answer: VOTE after PREPARE, FINALIZE after COMMIT or ABORT. Anyone who pays may call
    ///         this; `msg.value` is the cap, and the rest is returned to the caller.
    /// @dev Can be called once per answer. A message that the coordinator's chain reports as expired or cancelled may be
    ///      replaced.
    function reply(bytes32 actionId) external payable returns (bytes32 messageId);

    /// @notice Applies the change of a diverged action under a new lock, without running its guards. Only for the owner. The
    ///         coordinator's record is authoritative, and the owner has removed the obstacle.
    function reconcile(bytes32 actionId) external;

    /// @notice State NONE if the action is unknown here.
    function participationOf(bytes32 actionId) external view returns (Participation memory);

    /// @notice The action that diverged on the subject, or 0.
    function divergedOn(bytes32 subject) external view returns (bytes32 actionId);

    /// @notice Whether {reply} has an answer to send.
    function owesReply(bytes32 actionId) external view returns (bool);

    /// @notice The current cost of {reply}, in wei.
    function quoteReply(bytes32 actionId) external view returns (uint256 fees);
}
