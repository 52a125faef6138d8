// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpFee, Message} from "../types/Message.sol";
import {Execution} from "../types/MessageRecords.sol";

/// @notice Messages between routers: a sender cancels its message, and a destination reports a message's outcome.
/// @dev Both contain the complete header, the payload's hash and, in `replaces`, the id of the message that they refer to. Both
///      need that message's quorum. A cancellation must also satisfy its recipient's policy, a report its sender's.
interface IRouterMessages {
    /// @notice The source asked the destination to cancel the message, with the message `cancellationId`.
    event CancellationRequested(bytes32 indexed messageId, bytes32 indexed cancellationId);

    /// @notice On the destination: the message will never be executed.
    event MessageCancelled(bytes32 indexed messageId, uint64 indexed sourceChain, bytes32 cancellationId);

    /// @notice On the destination: the cancellation arrived after the message had ended, and changed nothing.
    event CancellationRejected(
        bytes32 indexed messageId, uint64 indexed sourceChain, bytes32 cancellationId, Execution state
    );

    /// @notice Emitted on the source chain when the destination reports a message's outcome. Base rollbacks and refunds on
    ///         {IRouterViews-outcomeOf}, never on this event: a destination also reports the expiry of messages that were never
    ///         sent.
    /// @dev The router records no outcome of a message that was not sent as retriable: each report of it emits this event.
    event OutcomeReported(bytes32 indexed messageId, uint64 indexed destinationChain, Execution outcome);

    /// @notice On the source: a second report contradicts the first, so a GMP or a chain is faulty.
    event OutcomeContradicted(
        bytes32 indexed messageId, uint64 indexed destinationChain, Execution first, Execution second
    );

    /// @notice Only the message's sender may cancel it.
    error NotSender(bytes32 messageId, address caller, address sender);

    /// @notice The lane has not reached the message's nonce: a message that was not created yet can't be cancelled.
    error NotCreated(bytes32 messageId);

    /// @notice The message has not ended here, so there is nothing to report.
    error NothingToReport(bytes32 messageId);

    /// @notice Reports and cancellations cannot be cancelled or reported themselves.
    error NotForRouterMessages(bytes32 messageId);

    /// @notice The content of a cancellation or report does not match the message that carries it.
    error InvalidRouterMessage(bytes32 messageId);

    /// @notice Asks the destination never to execute a message of the caller. The message can no longer be retried here, but it
    ///         may be executed there before the request arrives: wait for the report.
    /// @param minDispatched The number of GMPs that must accept it; 0 stands for all. The cancellation is retriable.
    function cancel(Message calldata message, uint8 minDispatched, GmpFee[] calldata gmps, address refundTo)
        external
        payable
        returns (bytes32 cancellationId);

    /// @notice Reports a message's outcome here to the source. Anyone may pay, any number of times. The message need not have been
    ///         sent ({IMessageReceiver-expire}), which the source checks.
    function report(Message calldata message, uint8 minDispatched, GmpFee[] calldata gmps, address refundTo)
        external
        payable
        returns (bytes32 reportId);
}
