// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {MessageReceiver} from "./MessageReceiver.sol";
import {IRouterMessages} from "./interfaces/IRouterMessages.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Kind, Message} from "./types/Message.sol";
import {Execution} from "./types/Receipts.sol";

/// @dev Cancellations and reports, as they are carried out; {IRouterMessages} says what it promises.
abstract contract RouterMessageHandling is MessageReceiver {
    using Addresses for bytes32;

    function _runForRouter(bytes32 messageId, Message memory message) internal override returns (bytes memory) {
        (Message memory original, bytes32 payloadHash, Execution outcome) = _about(message);
        bool fits = message.replaces == original.idOf(payloadHash) && message.quorum == original.quorum
            && original.kind < Kind.CANCELLATION && outcome != Execution.NONE;
        if (fits && message.kind == Kind.CANCELLATION && _isSameWay(message, original)) {
            _carryOutCancellation(messageId, message.replaces, original.sourceChain);
        } else if (fits && message.kind == Kind.REPORT && _isWayBack(message, original)) {
            _noteOutcome(message.replaces, original.destinationChain, outcome);
        } else {
            return abi.encodeWithSelector(IRouterMessages.InvalidRouterMessage.selector, messageId);
        }
        return "";
    }

    function _affected(Message memory message) internal pure override returns (address) {
        (Message memory original,,) = _about(message);
        return (message.kind == Kind.CANCELLATION ? original.recipient : original.sender).toAddress();
    }

    function _carryOutCancellation(bytes32 cancellationId, bytes32 messageId, uint64 sourceChain) private {
        Execution state = _receipts[messageId].execution();
        if (state != Execution.NONE) {
            emit IRouterMessages.CancellationCameTooLate(messageId, sourceChain, cancellationId, state);
            return;
        }
        _receipts[messageId] = _receipts[messageId].withExecution(Execution.CANCELLED);
        emit IRouterMessages.MessageCancelled(messageId, sourceChain, cancellationId);
    }

    function _noteOutcome(bytes32 messageId, uint64 destinationChain, Execution outcome) private {
        Execution first = _outcomes[messageId];
        if (first == Execution.NONE) {
            // An honest destination reports the end of any message, also of one that was never sent. Only a slot of its own
            // shows that it was; a cancelled flag alone does not, since nobody asked for a slot then.
            if (_sent[messageId].sender() != address(0)) _outcomes[messageId] = outcome;
            emit IRouterMessages.OutcomeReported(messageId, destinationChain, outcome);
        } else if (first != outcome) {
            emit IRouterMessages.OutcomeContradicted(messageId, destinationChain, first, outcome);
        }
    }

    /// @dev What a message for the router is about.
    function _about(Message memory message)
        private
        pure
        returns (Message memory original, bytes32 payloadHash, Execution outcome)
    {
        return abi.decode(message.payload, (Message, bytes32, Execution));
    }

    function _isSameWay(Message memory message, Message memory original) private pure returns (bool) {
        return message.sender == original.sender && message.sourceChain == original.sourceChain
            && message.sourceRouter == original.sourceRouter && message.destinationChain == original.destinationChain
            && message.destinationRouter == original.destinationRouter;
    }

    function _isWayBack(Message memory message, Message memory original) private pure returns (bool) {
        return message.sender == message.sourceRouter && message.sourceChain == original.destinationChain
            && message.sourceRouter == original.destinationRouter && message.destinationChain == original.sourceChain
            && message.destinationRouter == original.sourceRouter;
    }
}
