// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../types/Gmp.sol";
import {Kind, Message} from "../types/Message.sol";
import {Execution} from "../types/MessageRecords.sol";

/// @notice The receiving half of a router: collects receipts, and calls the recipient once enough GMPs have delivered.
interface IMessageReceiver {
    /// @notice A GMP delivered the message; `receipts` is the number of valid receipts including this one. `quorum` is the number
    ///         needed: the message's own quorum, or the recipient's if that is larger.
    /// @dev The lane's floor and the recipient's policy are read once the message's own quorum is reached. Before that, `quorum` is
    ///      the message's, and `receipts` includes GMPs that the policy excludes.
    event MessageReceived(
        bytes32 indexed messageId,
        uint64 indexed sourceChain,
        Gmp indexed gmp,
        uint8 receipts,
        uint8 quorum,
        bytes32 payloadHash
    );

    /// @notice The recipient accepted the message. Emitted at most once per id.
    event MessageExecuted(
        bytes32 indexed messageId, uint64 indexed sourceChain, address indexed recipient, bytes32 payloadHash
    );

    /// @notice The recipient reverted or returned a wrong value. The receipts remain valid, and anyone may call {execute}.
    /// @param reason The revert data, truncated to 256 bytes.
    event ExecutionFailed(bytes32 indexed messageId, uint64 indexed sourceChain, bytes reason);

    /// @notice The delivery had less gas than the message requests. The receipts remain valid, and anyone may call {execute}.
    event ExecutionDeferred(bytes32 indexed messageId, uint64 indexed sourceChain, uint64 gasLimit);

    /// @notice The message expired without having been executed, and never will be executed.
    event MessageExpired(bytes32 indexed messageId, uint64 indexed sourceChain);

    /// @notice A GMP delivered a message that had expired or was cancelled; only the receipt was recorded.
    event LateReceipt(bytes32 indexed messageId, uint64 indexed sourceChain, Gmp indexed gmp, Execution state);

    /// @notice The caller is not the adapter of an enabled GMP.
    error NotAdapter(address caller);

    /// @notice The router already has this GMP's receipt for the message. Relayers treat this as success.
    error AlreadyReceived(bytes32 messageId, Gmp gmp);

    /// @notice The message was already executed.
    error AlreadyExecuted(bytes32 messageId);

    /// @notice The message expired or was cancelled.
    error AlreadyEnded(bytes32 messageId, Execution state);

    /// @notice The message's TTL has not elapsed.
    error NotExpired(bytes32 messageId, uint64 sentAt, uint32 ttl);

    /// @notice The message's TTL has elapsed. Call {expire} to mark it.
    error MessageHasExpired(bytes32 messageId, uint64 sentAt, uint32 ttl);

    /// @notice The content does not hash to the id that the envelope states.
    error WrongMessageId(bytes32 stated, bytes32 computed);

    /// @notice The message names a source chain other than the one that the GMP authenticated.
    error WrongSourceChain(uint64 stated, uint64 authenticated);

    /// @notice The message is for another chain or router.
    error WrongDestination(uint64 chain, bytes32 router);
    /// @notice The router calls neither itself nor an adapter on a message's behalf.
    error ForbiddenRecipient(address recipient);

    /// @notice The message's quorum is zero.
    error ZeroQuorum();
    /// @notice Too few receipts count for the message.
    error QuorumNotReached(bytes32 messageId, uint8 receipts, uint8 quorum);

    /// @notice {execute} was called with less gas than the message requests.
    error InsufficientGas(bytes32 messageId, uint64 gasLimit);

    /// @notice {execute} was called, and the recipient reverted.
    error ExecutionReverted(bytes32 messageId, bytes reason);

    /// @notice The recipient did not return the selector that ERC-7786 requires.
    error WrongReturnValue(address recipient);

    /// @notice Only the router itself may call this.
    error OnlySelf();
    /// @notice The router is already receiving or sending.
    error ReceivingReentered();

    /// @notice Accepts a delivery.
    /// @dev Steps:
    ///      1. Check that the caller is the adapter of an enabled GMP that is not paused.
    ///      2. Recompute the id.
    ///      3. Check the chains, the destination and the lane's pause.
    ///      4. Record the GMP's receipt.
    ///      5. Mark the message expired if its TTL has elapsed.
    ///      6. Otherwise execute it, if the quorum is reached and it is not yet executed. Once its own quorum is reached, a message
    ///         from an unknown source router is rejected.
    ///      A failing recipient does not revert the receipt.
    /// @param originChain The chain that the GMP authenticated.
    /// @param envelope The envelope that the source router dispatched (docs/formats.md).
    function receiveMessage(uint64 originChain, bytes calldata envelope) external;

    /// @notice Executes a message whose quorum is reached. Open to anyone; reverts if the recipient fails, so that gas can be
    ///         estimated.
    function execute(Message calldata message) external;

    /// @notice Marks an overdue message as expired, so that this outcome can be reported. Open to anyone; the message need not
    ///         have arrived.
    function expire(Message calldata message) external;

    /// @notice For recipients: members of the message being executed that ERC-7786 does not pass. Zero between executions.
    /// @dev `replaces` is the sender's claim: the router checks neither that the message exists nor who sent it. A recipient must
    ///      only relate it to the same sender's messages, as {ReissueGuard} does.
    function executing() external view returns (bytes32 messageId, Kind kind, uint64 nonce, bytes32 replaces);
}
