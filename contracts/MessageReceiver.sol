// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RecipientCall} from "./RecipientCall.sol";
import {Rules} from "./Rules.sol";
import {IMessageReceiver} from "./interfaces/IMessageReceiver.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Gmp, GmpSet, NO_GMP, NO_GMPS} from "./types/Gmp.sol";
import {GmpTable} from "./types/GmpTable.sol";
import {Kind, Message, MessageLibrary} from "./types/Message.sol";
import {Execution, Receipts} from "./types/Receipts.sol";

/// @dev The receiving half; {IMessageReceiver} says what it promises.
abstract contract MessageReceiver is IMessageReceiver, RecipientCall, Rules {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev Nothing is received while sending, either: whoever is paid back then could deliver a message whose recipient
    ///      answers, and the answer would be refused for ever.
    modifier receivingOnce() {
        if ((_receiving | _sending) != 0) revert ReceivingReentered();
        _receiving = 1;
        _;
        _receiving = 0;
    }

    /// @inheritdoc IMessageReceiver
    function receiveMessage(uint64 originChain, bytes calldata envelope) external receivingOnce {
        GmpTable table = _tables[msg.sender];
        if (table.gmp() == NO_GMP) revert NotAdapter(msg.sender);
        (bytes32 messageId, Message memory message) = MessageLibrary.decode(envelope);
        bytes32 payloadHash = keccak256(message.payload);
        _requireGenuine(message, messageId, message.idOf(payloadHash), originChain);
        (Receipts receipts, uint8 count, uint8 quorum) = _record(table, messageId, message);
        emit MessageReceived(messageId, message.sourceChain, table.gmp(), count, quorum, payloadHash);
        _settle(messageId, payloadHash, message, receipts, table.gmp(), count >= quorum);
    }

    /// @inheritdoc IMessageReceiver
    function execute(Message calldata request) external receivingOnce {
        Message memory message = MessageLibrary.load(request);
        bytes32 payloadHash = keccak256(message.payload);
        bytes32 messageId = message.idOf(payloadHash);
        uint8 floor = _requireArrival(message);
        Receipts receipts = _receipts[messageId];
        _requireUnended(messageId, receipts);
        if (_isExpired(message)) revert MessageHasExpired(messageId, message.sentAt, message.ttl);
        (uint8 count, uint8 quorum) = _progress(message, floor, receipts.valid(_gmps.epochs(), _openGmps(_gmps)));
        // `>=`, so that a message can't be stranded by a quorum that was lowered after more had delivered.
        if (count < quorum) revert QuorumNotReached(messageId, count, quorum);

        _receipts[messageId] = receipts.withExecution(Execution.EXECUTED);
        (Outcome outcome, bytes memory reason) = _run(messageId, message);
        if (outcome == Outcome.TOO_LITTLE_GAS) revert InsufficientGas(messageId, message.gasLimit);
        if (outcome == Outcome.REFUSED) revert ExecutionReverted(messageId, reason);
        _countExecution(messageId, payloadHash, message);
    }

    /// @inheritdoc IMessageReceiver
    function expire(Message calldata request) external receivingOnce {
        Message memory message = MessageLibrary.load(request);
        bytes32 messageId = message.id();
        _requireArrival(message);
        Receipts receipts = _receipts[messageId];
        _requireUnended(messageId, receipts);
        if (!_isExpired(message)) revert NotExpired(messageId, message.sentAt, message.ttl);
        _markExpired(messageId, message, receipts);
    }

    /// @dev Carries out a message that is for the router itself; {RouterMessageHandling} does.
    /// @return reason Empty if the message was as it must be.
    function _runForRouter(bytes32 messageId, Message memory message) internal virtual returns (bytes memory reason);

    /// @dev Whose demands a message for the router must meet: those of the account that it affects.
    function _affected(Message memory message) internal pure virtual returns (address);

    /// @dev Refuses a message that is not what its envelope says, or did not come from where it says.
    function _requireGenuine(Message memory message, bytes32 stated, bytes32 computed, uint64 originChain)
        private
        pure
    {
        if (stated != computed) revert WrongMessageId(stated, computed);
        if (message.sourceChain != originChain) revert WrongSourceChain(message.sourceChain, originChain);
    }

    /// @return floor The lane's least quorum for recipients without a policy.
    function _requireArrival(Message memory message) private view returns (uint8 floor) {
        if (message.destinationChain != block.chainid || message.destinationRouter != address(this).toBytes32()) {
            revert WrongDestination(message.destinationChain, message.destinationRouter);
        }
        if (message.quorum == 0) revert ZeroQuorum();
        message.sender.toAddress();
        message.recipient.toAddress();
        return _requireLane(message.sourceChain, message.sourceRouter);
    }

    /// @dev Adds the receipt of the adapter's GMP, unless it is there.
    /// @return receipts All that is known of the message then, not yet written.
    /// @return count How many receipts it has that count.
    /// @return quorum How many it needs.
    function _record(GmpTable table, bytes32 messageId, Message memory message)
        private
        view
        returns (Receipts receipts, uint8 count, uint8 quorum)
    {
        uint8 floor = _requireArrival(message);
        Gmp gmp = table.gmp();
        GmpSet own = gmp.alone();
        if (table.pausedAt(block.timestamp).intersect(own) != NO_GMPS) _requireOpen(gmp, _speakers[gmp].pausedUntil);
        receipts = _receipts[messageId];
        GmpSet known = receipts.valid(table.epochs(), table.enabled());
        if (known.intersect(own) != NO_GMPS) revert AlreadyReceived(messageId, gmp);
        receipts = receipts.record(gmp, table.epochs());
        (count, quorum) = _progress(message, floor, known.unite(own).intersect(_openGmps(table)));
    }

    /// @dev How many of the receipts count for the message, and how many it needs now. What the recipient demands is a slot of
    ///      its own, so it is read only once the message's own quorum is there; until then the lane's floor stands for it.
    function _progress(Message memory message, uint8 floor, GmpSet open)
        private
        view
        returns (uint8 count, uint8 quorum)
    {
        count = open.count();
        quorum = message.quorum;
        if (count < quorum) return (count, quorum > floor ? quorum : floor);
        GmpSet allowed;
        (quorum, allowed) = _demand(message, floor);
        return (open.intersect(allowed).count(), quorum);
    }

    function _requireUnended(bytes32 messageId, Receipts receipts) private pure {
        Execution state = receipts.execution();
        if (state == Execution.EXECUTED) revert AlreadyExecuted(messageId);
        if (state != Execution.NONE) revert AlreadyEnded(messageId, state);
    }

    /// @dev How many receipts the message needs now, and whose count.
    function _demand(Message memory message, uint8 floor) private view returns (uint8 quorum, GmpSet allowed) {
        address subject = message.kind < Kind.CANCELLATION ? message.recipient.toAddress() : _affected(message);
        (quorum, allowed) = _demandOf(subject, message.sourceChain, floor);
        if (message.quorum > quorum) quorum = message.quorum;
    }

    function _isExpired(Message memory message) private view returns (bool) {
        return _hasExpired(message.sourceChain, message.sentAt, message.ttl);
    }

    /// @dev What follows a receipt. Every path writes the receipts exactly once before anybody else is called.
    function _settle(
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
            if (state != Execution.EXECUTED) emit ArrivedAfterEnd(messageId, message.sourceChain, gmp, state);
        } else if (_isExpired(message)) {
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

    /// @dev Marks before the call and unmarks after a failure, so that nothing the recipient does can execute it twice.
    function _executeOnArrival(bytes32 messageId, bytes32 payloadHash, Message memory message, Receipts receipts)
        private
    {
        _receipts[messageId] = receipts.withExecution(Execution.EXECUTED);
        (Outcome outcome, bytes memory reason) = _run(messageId, message);
        if (outcome == Outcome.ACCEPTED) return _countExecution(messageId, payloadHash, message);
        _receipts[messageId] = receipts;
        if (outcome == Outcome.REFUSED) emit ExecutionFailed(messageId, message.sourceChain, reason);
        else emit ExecutionDeferred(messageId, message.sourceChain, message.gasLimit);
    }

    function _run(bytes32 messageId, Message memory message) private returns (Outcome outcome, bytes memory reason) {
        if (message.kind >= Kind.CANCELLATION) {
            reason = _runForRouter(messageId, message);
            return (reason.length == 0 ? Outcome.ACCEPTED : Outcome.REFUSED, reason);
        }
        address recipient = message.recipient.toAddress();
        if (recipient == address(this) || _tables[recipient].gmp() != NO_GMP) {
            return (Outcome.REFUSED, abi.encodeWithSelector(ForbiddenRecipient.selector, recipient));
        }
        return _callRecipient(messageId, message);
    }

    function _countExecution(bytes32 messageId, bytes32 payloadHash, Message memory message) private {
        Lane storage lane = _lanes[message.sourceChain];
        lane.executed = lane.executed.plus(messageId);
        emit MessageExecuted(messageId, message.sourceChain, message.recipient.toAddress(), payloadHash);
    }
}
