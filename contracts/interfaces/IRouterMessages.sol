// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Message} from "../types/Message.sol";
import {Execution} from "../types/Receipts.sol";
import {GmpFee} from "../types/Route.sol";

/// @notice Messages from router to router: a sender cancels what it sent, and a destination reports how a message ended.
/// @dev Both carry the whole header and the payload's hash of the message they are about, in `replaces` its id, and need its
///      quorum: a cancellation also whatever the recipient demands, a report whatever the sender does.
interface IRouterMessages {
    /// @notice The source asked the destination to cancel the message, by the message `cancellationId`.
    event CancellationRequested(bytes32 indexed messageId, bytes32 indexed cancellationId);

    /// @notice On the destination: the message will never be executed.
    event MessageCancelled(bytes32 indexed messageId, uint64 indexed sourceChain, bytes32 cancellationId);

    /// @notice On the destination: the cancellation came after the message's end, and changed nothing.
    event CancellationCameTooLate(
        bytes32 indexed messageId, uint64 indexed sourceChain, bytes32 cancellationId, Execution state
    );

    /// @notice On the source: how the message ended, says its destination. A dApp rolls back or refunds by {ILedger-outcomeOf}
    ///         and not by this: an honest destination reports the expiry of a message that was never sent, too.
    /// @dev Of a message that was not sent as retriable the router notes nothing, so every report of it is one such event.
    event OutcomeReported(bytes32 indexed messageId, uint64 indexed destinationChain, Execution outcome);

    /// @notice On the source: a second report contradicts the first. Some GMP, or a chain, does not tell the truth.
    event OutcomeContradicted(
        bytes32 indexed messageId, uint64 indexed destinationChain, Execution first, Execution second
    );

    error NotSender(bytes32 messageId, address caller, address sender);

    /// @notice The message has not ended here, so there is nothing to report.
    error NothingToReport(bytes32 messageId);

    /// @notice Reports and cancellations are not cancelled or reported themselves.
    error NotForRouterMessages(bytes32 messageId);

    /// @notice The content of a cancellation or report does not fit the message that carries it.
    error InvalidRouterMessage(bytes32 messageId);

    /// @notice Asks the destination never to execute a message of the caller. Here it can't be retried any more from now on;
    ///         there it may have been executed already, or be before this arrives: wait for the report.
    /// @param minDispatched How many GMPs must take it for the call to succeed; 0 stands for all of them. It is retriable.
    function cancel(Message calldata message, uint8 minDispatched, GmpFee[] calldata gmps, address refundTo)
        external
        payable
        returns (bytes32 cancellationId);

    /// @notice Tells the source how a message ended here. Open to anyone who pays, as often as wanted; the message need not
    ///         have been sent ({IMessageReceiver-expire}), which the source finds out.
    function report(Message calldata message, uint8 minDispatched, GmpFee[] calldata gmps, address refundTo)
        external
        payable
        returns (bytes32 reportId);
}
