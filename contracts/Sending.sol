// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Dispatcher} from "./Dispatcher.sol";
import {IGmpRegistry} from "./interfaces/IGmpRegistry.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Words} from "./libraries/Words.sol";
import {GmpSet} from "./types/Gmp.sol";
import {LaneTotal} from "./types/LaneTotal.sol";
import {Kind, Message} from "./types/Message.sol";
import {GmpFee, Route} from "./types/Route.sol";
import {SentMessage, SentMessageLibrary} from "./types/SentMessage.sol";

/// @dev How messages come into being and depart, whoever asks for it.
abstract contract Sending is Dispatcher {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev In bytes. So much over sixteen GMPs stays below a quarter of a block of 30 million gas (bench/).
    uint256 internal constant MAX_PAYLOAD = 32_768;

    /// @dev In gas: a block of the chains that this is made for. What asks for more could never be executed.
    uint64 internal constant MAX_GAS_LIMIT = 30_000_000;

    /// @dev In seconds: less than any GMP needs. A message with less would be dead on arrival.
    uint32 internal constant MIN_TTL = 60;

    /// @dev The message that a request of the caller asks for, but for its nonce.
    function _compose(Route calldata request) internal view returns (Message memory message) {
        Words.copyRequest(request, message);
        _draft(message, msg.sender.toBytes32(), message.destinationChain);
        message.payload = request.payload;
        _address(message);
    }

    /// @dev Names the router that a dApp's message is for; refuses what could never be executed there.
    function _address(Message memory message) internal view {
        if (message.destinationChain == block.chainid) revert IGmpRegistry.SameChain(message.destinationChain);
        if (message.recipient == 0) revert IMessageSender.ZeroRecipient();
        // Every peer is an EVM router, so a recipient that is no EVM address could never be called.
        message.recipient.toAddress();
        if (message.kind >= Kind.CANCELLATION) revert IMessageSender.ReservedKind(message.kind);
        bool mayLiveForEver = message.kind == Kind.PLAIN || message.kind == Kind.REGULATORY_ACTION_CRITICAL;
        uint32 ttl = message.ttl;
        if (ttl == 0 && !mayLiveForEver) revert IMessageSender.TtlRequired(message.kind);
        if (ttl != 0 && ttl < MIN_TTL) revert IMessageSender.TtlTooShort(ttl, MIN_TTL);
        if (message.gasLimit > MAX_GAS_LIMIT) revert IMessageSender.GasLimitTooHigh(message.gasLimit, MAX_GAS_LIMIT);
        if (message.payload.length > MAX_PAYLOAD) {
            revert IMessageSender.PayloadTooLong(message.payload.length, MAX_PAYLOAD);
        }
        Lane storage lane = _lanes[message.destinationChain];
        (address peer, uint48 pausedUntil) = (lane.peer, lane.pausedUntil);
        if (peer == address(0)) revert IMessageSender.NoPeer(message.destinationChain);
        _requireOpen(message.destinationChain, pausedUntil);
        message.destinationRouter = peer.toBytes32();
    }

    /// @dev Makes an empty message one from here and now. Its nonce it gets when it is registered.
    function _draft(Message memory message, bytes32 sender, uint64 chain) internal view {
        message.sourceChain = uint64(block.chainid);
        message.sourceRouter = address(this).toBytes32();
        message.sender = sender;
        message.destinationChain = chain;
        message.sentAt = uint64(block.timestamp);
    }

    /// @dev Gives a composed message its id and its place on the lane, and dispatches it for the first time.
    function _launch(Message memory message, Attempt memory attempt, GmpFee[] calldata gmps, bool retriable)
        internal
        returns (bytes32 messageId)
    {
        messageId = _register(message);
        attempt.messageId = messageId;
        if (retriable) _sent[messageId] = SentMessageLibrary.retriableBy(message.sender.toAddress());
        _depart(message, attempt, gmps, retriable);
    }

    /// @dev Gives a composed message the lane's next nonce, and with it its id.
    function _register(Message memory message) internal returns (bytes32 messageId) {
        Lane storage lane = _lanes[message.destinationChain];
        LaneTotal total = lane.sent;
        message.nonce = total.nextNonce();
        messageId = message.id();
        lane.sent = total.plus(messageId);
        emit IMessageSender.MessageIdCreated(messageId, message.sender.toAddress(), message.nonce);
    }

    function _depart(Message memory message, Attempt memory attempt, GmpFee[] calldata gmps, bool retriable) internal {
        (GmpSet took, bytes memory envelope) = _dispatch(attempt, gmps, message);
        emit IMessageSender.MessageRouted(attempt.messageId, message.destinationChain, retriable, took, envelope);
    }

    /// @dev What is kept of a message that is said to have that id.
    function _resume(Message memory message, bytes32 stated) internal view returns (SentMessage) {
        bytes32 messageId = message.id();
        if (messageId != stated) revert IMessageSender.MessageIdMismatch(stated, messageId);
        return _sent[messageId];
    }

    /// @dev Refuses what its destination would not execute any more, or what can't get there.
    function _requireAlive(Message memory message, bytes32 messageId, SentMessage sent) internal view {
        if (message.sourceChain != block.chainid) {
            revert IMessageSender.WrongSource(message.sourceChain, message.sourceRouter);
        }
        if (sent.isCancelled()) revert IMessageSender.AlreadyCancelled(messageId);
        if (_hasExpired(message.destinationChain, message.sentAt, message.ttl)) {
            revert IMessageSender.Expired(messageId, message.sentAt, message.ttl);
        }
        _requireLane(message.destinationChain, message.destinationRouter);
    }
}
