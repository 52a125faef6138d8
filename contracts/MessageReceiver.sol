// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {LanePolicy} from "./LanePolicy.sol";
import {RecipientCall} from "./RecipientCall.sol";
import {IMessageReceiver} from "./interfaces/IMessageReceiver.sol";
import {IRouterMessages} from "./interfaces/IRouterMessages.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {ALL_GMPS, Gmp, GmpSet, GmpTable, NO_GMP, NO_GMPS} from "./types/Gmp.sol";
import {Kind, Message, MessageEncoding} from "./types/Message.sol";
import {Execution, Receipts} from "./types/MessageRecords.sol";

/// @dev The receiving half with cancellations and reports, as {IMessageReceiver} and {IRouterMessages} specify it.
abstract contract MessageReceiver is IMessageReceiver, RecipientCall, LanePolicy {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev Receiving is also locked while sending. Otherwise a refundee could deliver a message whose recipient replies, and the
    ///      reply would be rejected permanently.
    modifier nonReentrantReceive() {
        if ((_receiving | _sending) != 0) revert ReceivingReentered();
        _receiving = 1;
        _;
        _receiving = 0;
    }

    /// @inheritdoc IMessageReceiver
    function receiveMessage(uint64 originChain, bytes calldata envelope) external nonReentrantReceive {
        GmpTable table = _tables[msg.sender];
        if (table.gmp() == NO_GMP) revert NotAdapter(msg.sender);
        Message memory message = MessageEncoding.allocate()[0];
        bytes32 messageId = MessageEncoding.read(envelope, message);
        bytes32 payloadHash = keccak256(message.payload);
        _requireAuthentic(message, messageId, message.idOf(payloadHash), originChain);
        (Receipts receipts, uint8 count, uint8 quorum) = _record(table, messageId, message);
        emit MessageReceived(messageId, message.sourceChain, table.gmp(), count, quorum, payloadHash);
        _processReceipt(messageId, payloadHash, message, receipts, table.gmp(), count >= quorum);
    }

    /// @inheritdoc IMessageReceiver
    function execute(Message calldata request) external nonReentrantReceive {
        Message memory message = MessageEncoding.load(request);
        bytes32 payloadHash = keccak256(message.payload);
        bytes32 messageId = message.idOf(payloadHash);
        GmpTable table = _gmps;
        _requireDeliverable(table, message);
        Receipts receipts = _receipts[messageId];
        _requireNotEnded(messageId, receipts);
        if (_hasExpired(message)) revert MessageHasExpired(messageId, message.sentAt, message.ttl);
        (uint8 count, uint8 quorum) = _countReceipts(table, message, receipts.valid(table.epochs(), _activeGmps(table)));
        // `>=`, so that lowering a quorum after more receipts arrived cannot strand a message.
        if (count < quorum) revert QuorumNotReached(messageId, count, quorum);

        _receipts[messageId] = receipts.withExecution(Execution.EXECUTED);
        (Outcome outcome, bytes memory reason) = _executeMessage(messageId, message);
        if (outcome == Outcome.TOO_LITTLE_GAS) revert InsufficientGas(messageId, message.gasLimit);
        if (outcome == Outcome.REFUSED) revert ExecutionReverted(messageId, reason);
        _countExecution(messageId, payloadHash, message);
    }

    /// @inheritdoc IMessageReceiver
    function expire(Message calldata request) external nonReentrantReceive {
        Message memory message = MessageEncoding.load(request);
        bytes32 messageId = message.id();
        GmpTable table = _gmps;
        _requireDeliverable(table, message);
        _requireLane(table, message.sourceChain, message.sourceRouter);
        Receipts receipts = _receipts[messageId];
        _requireNotEnded(messageId, receipts);
        if (!_hasExpired(message)) revert NotExpired(messageId, message.sentAt, message.ttl);
        _markExpired(messageId, message, receipts);
    }

    /// @dev Reverts if a message does not match its envelope, or did not come from the stated source.
    function _requireAuthentic(Message memory message, bytes32 stated, bytes32 computed, uint64 originChain)
        private
        pure
    {
        if (stated != computed) revert WrongMessageId(stated, computed);
        if (message.sourceChain != originChain) revert WrongSourceChain(message.sourceChain, originChain);
    }

    /// @dev Reverts if a message could never be executed here, or its lane is closed. Whether the source router was ever a peer is
    ///      checked with the quorum ({_countReceipts}).
    function _requireDeliverable(GmpTable table, Message memory message) private view {
        if (message.destinationChain != block.chainid || message.destinationRouter != address(this).toBytes32()) {
            revert WrongDestination(message.destinationChain, message.destinationRouter);
        }
        if (message.quorum == 0) revert ZeroQuorum();
        message.sender.toAddress();
        message.recipient.toAddress();
        if (table.mayLanesBeClosedAt(block.timestamp)) {
            _requireLane(table, message.sourceChain, message.sourceRouter);
        }
    }

    /// @dev Adds the receipt of the adapter's GMP, unless it is already recorded.
    /// @return receipts The message's updated record, not yet stored.
    /// @return count The number of receipts that count.
    /// @return quorum The number of receipts needed.
    function _record(GmpTable table, bytes32 messageId, Message memory message)
        private
        view
        returns (Receipts receipts, uint8 count, uint8 quorum)
    {
        _requireDeliverable(table, message);
        Gmp gmp = table.gmp();
        GmpSet own = gmp.toSet();
        if (table.pausedAt(block.timestamp).intersect(own) != NO_GMPS) {
            _requireNotPaused(gmp, _adapterSlots[gmp].pausedUntil);
        }
        receipts = _receipts[messageId];
        GmpSet known = receipts.valid(table.epochs(), table.enabled());
        if (known.intersect(own) != NO_GMPS) revert AlreadyReceived(messageId, gmp);
        receipts = receipts.record(gmp, table.epochs());
        (count, quorum) = _countReceipts(table, message, known.unite(own).intersect(_activeGmps(table)));
    }

    /// @dev Returns how many receipts count for the message, and how many it needs. Two conditions must hold: all receipts reach the
    ///      message's own quorum, and the receipts of the GMPs that its recipient allows reach the recipient's quorum. The
    ///      values are those of the first condition that fails. Lane and recipient are read only once the message's own quorum is
    ///      reached (docs/decisions/0004).
    function _countReceipts(GmpTable table, Message memory message, GmpSet active)
        private
        view
        returns (uint8 count, uint8 quorum)
    {
        (count, quorum) = (active.count(), message.quorum);
        if (count < quorum) return (count, quorum);
        uint8 floor = _requireLane(table, message.sourceChain, message.sourceRouter).floor();
        (uint8 least, GmpSet allowed) = _demandOf(message, floor);
        uint8 counted = active.intersect(allowed).count();
        if (counted < least) return (counted, least);
        if (least > quorum) quorum = least;
    }

    function _requireNotEnded(bytes32 messageId, Receipts receipts) private pure {
        Execution state = receipts.execution();
        if (state == Execution.EXECUTED) revert AlreadyExecuted(messageId);
        if (state != Execution.NONE) revert AlreadyEnded(messageId, state);
    }

    /// @dev Returns the demands of the account that the message affects.
    function _demandOf(Message memory message, uint8 floor) private view returns (uint8 least, GmpSet allowed) {
        address subject = message.kind < Kind.CANCELLATION ? message.recipient.toAddress() : _affectedAccount(message);
        return _recipientPolicy(subject, message.sourceChain, floor);
    }

    /// @return least The lowest quorum with which a message on the lane may affect `recipient`.
    /// @return allowed The GMPs whose receipts count.
    function _recipientPolicy(address recipient, uint64 chain, uint8 floor)
        private
        view
        returns (uint8 least, GmpSet allowed)
    {
        // The same word tells whether a recipient has a policy, so that one without costs a single storage read.
        if (_tables[recipient].hasPolicy()) {
            Policy storage policy = _policies[recipient][chain];
            (least, allowed) = (policy.quorum, policy.gmps);
        }
        if (least == 0) return (floor, ALL_GMPS);
    }

    /// @dev Continues after a receipt. Every path stores the receipts exactly once before any external call.
    function _processReceipt(
        bytes32 messageId,
        bytes32 payloadHash,
        Message memory message,
        Receipts receipts,
        Gmp gmp,
        bool reached
    ) private {
        Execution state = receipts.execution();
        if (state != Execution.NONE) {
            _receipts[messageId] = receipts;
            if (state != Execution.EXECUTED) emit LateReceipt(messageId, message.sourceChain, gmp, state);
        } else if (_hasExpired(message)) {
            _markExpired(messageId, message, receipts);
        } else if (reached) {
            _executeOnArrival(messageId, payloadHash, message, receipts);
        } else {
            _receipts[messageId] = receipts;
        }
    }

    function _markExpired(bytes32 messageId, Message memory message, Receipts receipts) private {
        _receipts[messageId] = receipts.withExecution(Execution.EXPIRED);
        emit MessageExpired(messageId, message.sourceChain);
    }

    /// @dev Marks the message executed before the call and clears the mark after a failure, so that the recipient cannot reenter.
    function _executeOnArrival(bytes32 messageId, bytes32 payloadHash, Message memory message, Receipts receipts)
        private
    {
        _receipts[messageId] = receipts.withExecution(Execution.EXECUTED);
        (Outcome outcome, bytes memory reason) = _executeMessage(messageId, message);
        if (outcome == Outcome.ACCEPTED) return _countExecution(messageId, payloadHash, message);
        _receipts[messageId] = receipts;
        if (outcome == Outcome.REFUSED) emit ExecutionFailed(messageId, message.sourceChain, reason);
        else emit ExecutionDeferred(messageId, message.sourceChain, message.gasLimit);
    }

    function _executeMessage(bytes32 messageId, Message memory message)
        private
        returns (Outcome outcome, bytes memory reason)
    {
        if (message.kind >= Kind.CANCELLATION) {
            reason = _executeRouterMessage(messageId, message);
            return (reason.length == 0 ? Outcome.ACCEPTED : Outcome.REFUSED, reason);
        }
        address recipient = message.recipient.toAddress();
        if (recipient == address(this) || _tables[recipient].gmp() != NO_GMP) {
            return (Outcome.REFUSED, abi.encodeWithSelector(ForbiddenRecipient.selector, recipient));
        }
        return _callRecipient(messageId, message);
    }

    function _countExecution(bytes32 messageId, bytes32 payloadHash, Message memory message) private {
        LaneState storage lane = _lanes[message.sourceChain];
        lane.executed = lane.executed.plus(messageId);
        emit MessageExecuted(messageId, message.sourceChain, message.recipient.toAddress(), payloadHash);
    }

    // ---- messages addressed to the router itself

    /// @return reason Empty if the message was valid.
    function _executeRouterMessage(bytes32 messageId, Message memory message) private returns (bytes memory reason) {
        (Message memory original, bytes32 payloadHash, Execution outcome) = _decodeOriginal(message);
        bool fits = message.replaces == original.idOf(payloadHash) && message.quorum == original.quorum
            && original.kind < Kind.CANCELLATION && outcome != Execution.NONE;
        if (fits && message.kind == Kind.CANCELLATION && _isSameDirection(message, original)) {
            _applyCancellation(messageId, message.replaces, original.sourceChain);
        } else if (fits && message.kind == Kind.REPORT && _isOppositeDirection(message, original)) {
            _recordOutcome(message.replaces, original.destinationChain, outcome);
        } else {
            return abi.encodeWithSelector(IRouterMessages.InvalidRouterMessage.selector, messageId);
        }
    }

    /// @dev Returns the account whose policy applies to a message addressed to the router.
    function _affectedAccount(Message memory message) private pure returns (address) {
        (Message memory original,,) = _decodeOriginal(message);
        return (message.kind == Kind.CANCELLATION ? original.recipient : original.sender).toAddress();
    }

    /// @dev Decodes the message that a message to the router refers to: header, payload hash and reported outcome.
    function _decodeOriginal(Message memory message)
        private
        pure
        returns (Message memory original, bytes32 payloadHash, Execution outcome)
    {
        return abi.decode(message.payload, (Message, bytes32, Execution));
    }

    function _applyCancellation(bytes32 cancellationId, bytes32 messageId, uint64 sourceChain) private {
        Execution state = _receipts[messageId].execution();
        if (state != Execution.NONE) {
            emit IRouterMessages.CancellationRejected(messageId, sourceChain, cancellationId, state);
            return;
        }
        _receipts[messageId] = _receipts[messageId].withExecution(Execution.CANCELLED);
        emit IRouterMessages.MessageCancelled(messageId, sourceChain, cancellationId);
    }

    function _recordOutcome(bytes32 messageId, uint64 destinationChain, Execution outcome) private {
        Execution first = _outcomes[messageId];
        if (first == Execution.NONE) {
            // An honest destination reports the outcome of any message, even one that was never sent. Only a sender in the slot
            // proves that it was sent, because {cancel} sets its flag in the slot of any message of the caller.
            if (_sent[messageId].sender() != address(0)) _outcomes[messageId] = outcome;
            emit IRouterMessages.OutcomeReported(messageId, destinationChain, outcome);
        } else if (first != outcome) {
            emit IRouterMessages.OutcomeContradicted(messageId, destinationChain, first, outcome);
        }
    }

    function _isSameDirection(Message memory message, Message memory original) private pure returns (bool) {
        return message.sender == original.sender && message.sourceChain == original.sourceChain
            && message.sourceRouter == original.sourceRouter && message.destinationChain == original.destinationChain
            && message.destinationRouter == original.destinationRouter;
    }

    function _isOppositeDirection(Message memory message, Message memory original) private pure returns (bool) {
        return message.sender == message.sourceRouter && message.sourceChain == original.destinationChain
            && message.sourceRouter == original.destinationRouter && message.destinationChain == original.sourceChain
            && message.destinationRouter == original.sourceRouter;
    }
}
