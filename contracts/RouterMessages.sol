// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {SenderBase} from "./SenderBase.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {IRouterMessages} from "./interfaces/IRouterMessages.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Gmp, HIGHEST_GMP} from "./types/Gmp.sol";
import {GmpFee, Kind, Message, MessageEncoding} from "./types/Message.sol";
import {Execution, LaneWord} from "./types/MessageRecords.sol";

/// @dev The sending of cancellations and reports, as {IRouterMessages} specifies it.
abstract contract RouterMessages is IRouterMessages, SenderBase {
    using Addresses for address;
    using Addresses for bytes32;

    /// @inheritdoc IRouterMessages
    function cancel(Message calldata request, uint8 minDispatched, GmpFee[] calldata gmps, address refundTo)
        external
        payable
        nonReentrantSend
        returns (bytes32 cancellationId)
    {
        (Message memory original, bytes32 payloadHash, bytes32 messageId) = _loadHeader(request);
        if (original.sourceChain != block.chainid || original.sourceRouter != address(this).toBytes32()) {
            revert IMessageSender.WrongSource(original.sourceChain, original.sourceRouter);
        }
        if (original.sender != msg.sender.toBytes32()) {
            revert NotSender(messageId, msg.sender, original.sender.toAddress());
        }
        // From now on, no message with that id can be created.
        if (original.nonce >= _lanes[original.destinationChain].word.sent().nextNonce()) revert NotCreated(messageId);
        _sent[messageId] = _sent[messageId].cancelled();
        Message memory message;
        _setOrigin(message, original.sender, original.destinationChain);
        message.destinationRouter = original.destinationRouter;
        message.kind = Kind.CANCELLATION;
        message.payload = abi.encode(original, payloadHash, Execution.CANCELLED);
        cancellationId =
            _sendRouterMessage(message, original.quorum, messageId, _newAttempt(minDispatched, refundTo, gmps), gmps);
        emit CancellationRequested(messageId, cancellationId);
    }

    /// @inheritdoc IRouterMessages
    function report(Message calldata request, uint8 minDispatched, GmpFee[] calldata gmps, address refundTo)
        external
        payable
        nonReentrantSend
        returns (bytes32 reportId)
    {
        (Message memory original, bytes32 payloadHash, bytes32 messageId) = _loadHeader(request);
        Execution outcome = _receipts[messageId].execution();
        if (outcome == Execution.NONE) revert NothingToReport(messageId);
        Message memory message;
        _setOrigin(message, address(this).toBytes32(), original.sourceChain);
        message.destinationRouter = original.sourceRouter;
        message.kind = Kind.REPORT;
        message.payload = abi.encode(original, payloadHash, outcome);
        reportId =
            _sendRouterMessage(message, original.quorum, messageId, _newAttempt(minDispatched, refundTo, gmps), gmps);
    }

    /// @dev Sends a message about another one. It is retriable, never expires, and has the other message's quorum.
    function _sendRouterMessage(
        Message memory message,
        uint8 quorum,
        bytes32 messageId,
        Attempt memory attempt,
        GmpFee[] calldata gmps
    ) private returns (bytes32) {
        LaneWord lane = _requireLane(_gmps, message.destinationChain, message.destinationRouter);
        message.recipient = message.destinationRouter;
        message.quorum = quorum;
        message.replaces = messageId;
        return _create(message, lane, attempt, gmps, true);
    }

    /// @dev Encodes a message without its payload, with the payload's hash and the id.
    function _loadHeader(Message calldata request)
        private
        pure
        returns (Message memory original, bytes32 payloadHash, bytes32 messageId)
    {
        original = MessageEncoding.load(request);
        // No router accepts messages about a message that could never be executed.
        uint8 quorum = original.quorum;
        uint8 most = Gmp.unwrap(HIGHEST_GMP);
        if (quorum == 0 || quorum > most) revert IMessageSender.InvalidQuorum(quorum, most);
        original.sender.toAddress();
        original.recipient.toAddress();
        payloadHash = keccak256(original.payload);
        messageId = original.idOf(payloadHash);
        if (original.kind >= Kind.CANCELLATION) revert NotForRouterMessages(messageId);
        original.payload = "";
    }
}
