// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {RouterState} from "./RouterState.sol";
import {IMessageReceiver} from "./interfaces/IMessageReceiver.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";
import {Kind, Message} from "./types/Message.sol";

/// @dev The single call into a recipient. It gets at least the gas that the message requests, and is reverted completely unless
///      the recipient accepts. A recipient cannot make it cost more than that gas.
abstract contract RecipientCall is IMessageReceiver, RouterState {
    using Addresses for bytes32;

    /// @dev The result of a call into the recipient.
    enum Outcome {
        ACCEPTED,
        REFUSED,
        TOO_LITTLE_GAS
    }

    /// @dev Maximum bytes that are copied from a recipient's return data.
    uint256 private constant MAX_REASON = 256;

    /// @dev Gas kept back from the call frame, to clear the mark and emit the reason.
    uint256 private constant BOOKKEEPING_GAS = 40_000;

    /// @dev Gas kept back from the recipient, to access its account and check its return value.
    uint256 private constant FRAME_GAS = 5_000;

    /// @dev Gas that the frame spends before it checks the remaining gas, and per word of the payload.
    uint256 private constant FRAME_ENTRY_GAS = 10_000;
    uint256 private constant FRAME_GAS_PER_WORD = 16;

    /// @notice Calls the recipient, and reverts all its effects unless it accepts. Only the router may call this.
    /// @return enough Whether there was enough gas for the call.
    function callFrame(address recipient, uint64 gasLimit, bytes calldata recipientCall)
        external
        returns (bool enough)
    {
        if (msg.sender != address(this)) revert OnlySelf();
        bytes memory data = recipientCall;
        uint256 available = gasleft();
        // The EVM forwards at most 63/64 of the remaining gas, so a delivery cannot give the recipient less than its limit.
        if (available <= FRAME_GAS) return false;
        unchecked {
            if ((available - FRAME_GAS) * 63 / 64 < gasLimit) return false;
        }
        bool success = BoundedCall.tryCall(recipient, 0, available - FRAME_GAS, data);
        bytes memory answer = BoundedCall.answer(MAX_REASON);
        if (!success) BoundedCall.bubble(answer);
        if (answer.length < 32 || bytes32(answer) != bytes32(IERC7786Recipient.receiveMessage.selector)) {
            revert WrongReturnValue(recipient);
        }
        return true;
    }

    /// @inheritdoc IMessageReceiver
    function executing() external view returns (bytes32 messageId, Kind kind, uint64 nonce, bytes32 replaces) {
        // Outside an execution, the slots still hold the values of the last one.
        if (_receiving == 0) return (0, Kind.PLAIN, 0, 0);
        return (_executingId, Kind(_executingKind), uint64(_executingNonce), _executingReplaces);
    }

    function _callRecipient(bytes32 messageId, Message memory message)
        internal
        returns (Outcome outcome, bytes memory reason)
    {
        bytes memory frame = _frameCall(messageId, message);
        // Checked before the frame is entered, so that a failing frame is always the recipient's fault.
        uint256 available = gasleft();
        if (available < BOOKKEEPING_GAS + _frameGas(message)) return (Outcome.TOO_LITTLE_GAS, "");
        _executingId = messageId;
        _executingKind = uint256(message.kind);
        _executingNonce = message.nonce;
        _executingReplaces = message.replaces;
        bool success = BoundedCall.tryCall(address(this), 0, available - BOOKKEEPING_GAS, frame);
        bytes memory answer = BoundedCall.answer(MAX_REASON);
        if (!success) return (Outcome.REFUSED, answer);
        return (abi.decode(answer, (bool)) ? Outcome.ACCEPTED : Outcome.TOO_LITTLE_GAS, "");
    }

    function _frameCall(bytes32 messageId, Message memory message) private view returns (bytes memory) {
        bytes memory sender = InteroperableAddress.formatEvmV1(message.sourceChain, message.sender.toAddress());
        bytes memory recipientCall =
            abi.encodeCall(IERC7786Recipient.receiveMessage, (messageId, sender, message.payload));
        return abi.encodeCall(this.callFrame, (message.recipient.toAddress(), message.gasLimit, recipientCall));
    }

    /// @dev Returns the least gas with which the frame passes its own check. Both nested calls forward 63/64 of the remaining gas.
    function _frameGas(Message memory message) private pure returns (uint256) {
        uint256 words = message.payload.length / 32;
        // A length and 64 bits cannot overflow.
        unchecked {
            uint256 copying = FRAME_GAS_PER_WORD * words + words * words / 256;
            return (FRAME_ENTRY_GAS + copying + FRAME_GAS + uint256(message.gasLimit) * 64 / 63) * 64 / 63;
        }
    }
}
