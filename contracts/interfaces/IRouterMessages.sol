// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpFee, Message} from "../types/Message.sol";
import {Execution} from "../types/MessageRecords.sol";

/// @notice Messages from router to router: a sender cancels what it sent, and a destination reports how a message ended.
/// @dev Both carry the whole header and the payload's hash of the message they are about, and its id in `replaces`. Both need that
///      message's quorum. A cancellation also needs what its recipient demands, a report what its sender demands.
interface IRouterMessages {
    /// @notice The source asked the destination to cancel the message, by the message `cancellationId`.
    event CancellationRequested(bytes32 indexed messageId, bytes32 indexed cancellationId);

    /// @notice On the destination: the message will never be executed.
    event MessageCancelled(bytes32 indexed messageId, uint64 indexed sourceChain, bytes32 cancellationId);

    /// @notice On the destination: the cancellation came after the message's end, and changed nothing.
    event CancellationRejected(
        bytes32 indexed messageId, uint64 indexed sourceChain, bytes32 cancellationId, Execution state
    );

    /// @notice On the source: the destination reports how the message ended. A dApp rolls back or refunds by
    ///         {IRouterViews-outcomeOf} and never by this event. A destination also reports the expiry of messages that were
    ///         never sent.
    /// @dev The router records no outcome of a message that was not sent as retriable: each report of it emits this event.
    event OutcomeReported(bytes32 indexed messageId, uint64 indexed destinationChain, Execution outcome);

    /// @notice On the source: a second report contradicts the first. Some GMP, or a chain, lies.
    event OutcomeContradicted(
        bytes32 indexed messageId, uint64 indexed destinationChain, Execution first, Execution second
    );

    error NotSender(bytes32 messageId, address caller, address sender);

    /// @notice The lane has not come to the message's nonce: what is not created yet can't be cancelled.
    error NotCreated(bytes32 messageId);

    /// @notice The message has not ended here, so there is nothing to report.
    error NothingToReport(bytes32 messageId);

    /// @notice Reports and cancellations are not cancelled or reported themselves.
    error NotForRouterMessages(bytes32 messageId);

    /// @notice The content of a cancellation or report does not fit the message that carries it.
    error InvalidRouterMessage(bytes32 messageId);

    /// @notice Asks the destination never to execute a message of the caller. It can't be retried here from now on.
    ///         It may be executed there before this arrives: wait for the report.
    /// @param minDispatched How many GMPs must take it for the call to succeed; 0 stands for all of them. It is retriable.
    function cancel(Message calldata message, uint8 minDispatched, GmpFee[] calldata gmps, address refundTo)
        external
        payable
        returns (bytes32 cancellationId);

    /// @notice Reports to the source how a message ended here. Open to anyone who pays, as often as wanted. The message need not
    ///         have been sent ({IMessageReceiver-expire}), which the source finds out.
    function report(Message calldata message, uint8 minDispatched, GmpFee[] calldata gmps, address refundTo)
        external
        payable
        returns (bytes32 reportId);
}
