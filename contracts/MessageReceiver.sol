// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RecipientCall} from "./RecipientCall.sol";
import {Rules} from "./Rules.sol";
import {IMessageReceiver} from "./interfaces/IMessageReceiver.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Gmp, GmpSet, NO_GMP, NO_GMPS} from "./types/Gmp.sol";
import {Kind, Message, MessageLibrary} from "./types/Message.sol";
import {Execution, Receipts} from "./types/Receipts.sol";

/// @dev The receiving half; {IMessageReceiver} says what it promises.
abstract contract MessageReceiver is IMessageReceiver, RecipientCall, Rules {
    using Addresses for address;
    using Addresses for bytes32;

    modifier receivingOnce() {
        if (_receiving) revert ReceivingReentered();
        _receiving = true;
        _;
        _receiving = false;
    }

    /// @inheritdoc IMessageReceiver
    function receiveMessage(uint64 originChain, bytes calldata envelope) external receivingOnce {
        Gmp gmp = _gmpOfAdapter[msg.sender];
        if (gmp == NO_GMP) revert NotAdapter(msg.sender);
        (bytes32 messageId, Message memory message) = _open(originChain, envelope);
        Lane memory lane = _requireArrival(message);
        Gmps memory gmps = _gmps;
        if (gmps.paused.contains(gmp)) _requireOpen(gmp, _speakers[gmp].pausedUntil);
        Receipts receipts = _receipts[messageId];
        GmpSet known = receipts.valid(gmps.epochs, gmps.enabled);
        if (known.contains(gmp)) revert AlreadyReceived(messageId, gmp);

        (uint8 demanded, GmpSet allowed) = _demand(message, lane);
        // With the first receipt that counts, the quorum is written down: a raise applies to later messages only.
        if (known == NO_GMPS) receipts = receipts.withQuorum(demanded);
        receipts = receipts.record(gmp, gmps.epochs);
        uint8 quorum = _quorumOf(receipts, demanded);
        uint8 count = receipts.valid(gmps.epochs, _openGmps(gmps)).intersect(allowed).count();
        emit MessageReceived(messageId, message.sourceChain, gmp, count, quorum, keccak256(message.payload));
        _settle(messageId, message, receipts, gmp, count >= quorum);
    }

    /// @inheritdoc IMessageReceiver
    function execute(Message calldata request) external receivingOnce {
        Message memory message = request;
        bytes32 messageId = message.id();
        Lane memory lane = _requireArrival(message);
        Receipts receipts = _receipts[messageId];
        _requireUnended(messageId, receipts);
        if (_isExpired(message)) revert MessageHasExpired(messageId, message.sentAt, message.ttl);
        (uint8 demanded, GmpSet allowed) = _demand(message, lane);
        uint8 quorum = _quorumOf(receipts, demanded);
        uint8 count = receipts.valid(_gmps.epochs, _openGmps(_gmps)).intersect(allowed).count();
        // `>=`, so that a message can't be stranded by a quorum that was lowered after more had delivered.
        if (count < quorum) revert QuorumNotReached(messageId, count, quorum);

        _receipts[messageId] = receipts.withExecution(Execution.EXECUTED);
        (Outcome outcome, bytes memory reason) = _run(messageId, message);
        if (outcome == Outcome.TOO_LITTLE_GAS) revert InsufficientGas(messageId, message.gasLimit);
        if (outcome == Outcome.REFUSED) revert ExecutionReverted(messageId, reason);
        _countExecution(messageId, message);
    }

    /// @inheritdoc IMessageReceiver
    function expire(Message calldata request) external receivingOnce {
        Message memory message = request;
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

    /// @dev Decodes an envelope and refuses it unless it is what it says, and came from where it says.
    function _open(uint64 originChain, bytes calldata envelope)
        private
        pure
        returns (bytes32 messageId, Message memory message)
    {
        bytes32 stated;
        (stated, message) = MessageLibrary.decode(envelope);
        messageId = message.id();
        if (stated != messageId) revert WrongMessageId(stated, messageId);
        if (message.sourceChain != originChain) revert WrongSourceChain(message.sourceChain, originChain);
    }

    function _requireArrival(Message memory message) private view returns (Lane memory lane) {
        if (message.destinationChain != block.chainid || message.destinationRouter != address(this).toBytes32()) {
            revert WrongDestination(message.destinationChain, message.destinationRouter);
        }
        if (message.quorum == 0) revert ZeroQuorum();
        message.sender.toAddress();
        message.recipient.toAddress();
        lane = _requireLane(message.sourceChain, message.sourceRouter);
    }

    function _requireUnended(bytes32 messageId, Receipts receipts) private pure {
        Execution state = receipts.execution();
        if (state == Execution.EXECUTED) revert AlreadyExecuted(messageId);
        if (state != Execution.NONE) revert AlreadyEnded(messageId, state);
    }

    /// @dev How many receipts the message needs now, and whose count.
    function _demand(Message memory message, Lane memory lane) private view returns (uint8 quorum, GmpSet allowed) {
        address subject = message.kind < Kind.CANCELLATION ? message.recipient.toAddress() : _affected(message);
        (quorum, allowed) = _demandOf(subject, message.sourceChain, lane);
        if (message.quorum > quorum) quorum = message.quorum;
    }

    /// @dev What is demanded now, or what was when the first receipt came, if that was less.
    function _quorumOf(Receipts receipts, uint8 demanded) private pure returns (uint8) {
        uint8 recorded = receipts.quorum();
        return recorded != 0 && recorded < demanded ? recorded : demanded;
    }

    function _isExpired(Message memory message) private view returns (bool) {
        return _hasExpired(message.sourceChain, message.sentAt, message.ttl);
    }

    /// @dev What follows a receipt. Every path writes the receipts exactly once before anybody else is called.
    function _settle(bytes32 messageId, Message memory message, Receipts receipts, Gmp gmp, bool reached) private {
        Execution state = receipts.execution();
        if (state != Execution.NONE) {
            _receipts[messageId] = receipts;
            if (state != Execution.EXECUTED) emit ArrivedAfterEnd(messageId, message.sourceChain, gmp, state);
        } else if (_isExpired(message)) {
            _markExpired(messageId, message, receipts);
        } else if (reached) {
            _executeOnArrival(messageId, message, receipts);
        } else {
            _receipts[messageId] = receipts;
        }
    }

    function _markExpired(bytes32 messageId, Message memory message, Receipts receipts) private {
        _receipts[messageId] = receipts.withExecution(Execution.EXPIRED);
        emit MessageExpired(messageId, message.sourceChain);
    }

    /// @dev Marks before the call and unmarks after a failure, so that nothing the recipient does can execute it twice.
    function _executeOnArrival(bytes32 messageId, Message memory message, Receipts receipts) private {
        _receipts[messageId] = receipts.withExecution(Execution.EXECUTED);
        (Outcome outcome, bytes memory reason) = _run(messageId, message);
        if (outcome == Outcome.ACCEPTED) return _countExecution(messageId, message);
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
        if (recipient == address(this) || _gmpOfAdapter[recipient] != NO_GMP) {
            return (Outcome.REFUSED, abi.encodeWithSelector(ForbiddenRecipient.selector, recipient));
        }
        return _callRecipient(messageId, message);
    }

    function _countExecution(bytes32 messageId, Message memory message) private {
        _executedFrom[message.sourceChain] = _executedFrom[message.sourceChain].plus(messageId);
        emit MessageExecuted(messageId, message.sourceChain, message.recipient.toAddress(), keccak256(message.payload));
    }
}
