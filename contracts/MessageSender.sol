// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {SenderBase} from "./SenderBase.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {GmpSet} from "./types/Gmp.sol";
import {GmpFee, Kind, Message, MessageEncoding, Retry, Route} from "./types/Message.sol";
import {LaneWord, SentMessage} from "./types/MessageRecords.sol";

/// @dev The sending half, as {IMessageSender} specifies it.
abstract contract MessageSender is IMessageSender, SenderBase {
    /// @inheritdoc IMessageSender
    function route(Route calldata request) external payable nonReentrantSend returns (bytes32 messageId) {
        GmpFee[] calldata gmps = request.gmps;
        Attempt memory attempt = _newAttempt(request.minDispatched, request.refundTo, gmps);
        Message memory message = MessageEncoding.allocate()[0];
        LaneWord lane = _compose(message, request, attempt.table);
        uint8 quorum = message.quorum;
        if (quorum == 0 || quorum > gmps.length) revert InvalidQuorum(quorum, gmps.length);
        bool retriable = request.retriable;
        // A message without retries must reach its quorum with this call, or not be sent at all.
        if (!retriable && attempt.required < quorum) {
            revert InvalidMinDispatched(request.minDispatched, quorum, gmps.length);
        }
        messageId = _create(message, lane, attempt, gmps, retriable);
    }

    /// @inheritdoc IMessageSender
    function retryRoute(Retry calldata request) external payable nonReentrantSend returns (uint32 attempt) {
        bytes32 messageId = request.messageId;
        Message memory message = MessageEncoding.allocate()[0];
        MessageEncoding.copy(request.message, message);
        SentMessage sent = _loadSent(message, messageId);
        if (!sent.isRetriable()) revert NotRetriable(messageId);
        if (sent.isUnfunded()) revert StillUnfunded(messageId);
        address sender = sent.sender();
        if (msg.sender != sender) {
            // A report contains public facts, so anyone who pays may retry it.
            bool mayRetry = msg.sender == _retriers[sender] || message.kind == Kind.REPORT;
            if (!mayRetry) revert NotSenderOrRetrier(messageId, msg.sender, sender);
        }
        GmpFee[] calldata gmps = request.gmps;
        Attempt memory retry = _newAttempt(request.minDispatched, request.refundTo, gmps);
        _requireAlive(message, messageId, sent, retry.table);
        sent = sent.withOneMoreAttempt();
        _sent[messageId] = sent;
        attempt = sent.attempts();
        (retry.messageId, retry.number) = (messageId, attempt);
        (GmpSet took,) = _dispatch(retry, gmps, message);
        emit MessageRetried(messageId, message.destinationChain, attempt, took);
    }
}
