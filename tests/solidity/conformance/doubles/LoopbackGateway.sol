// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource, IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

/// @dev One for each test of {GatewayConformance}.
enum Fault {
    NONE,
    NAMES_ANOTHER_SENDER,
    REUSES_SEND_IDS,
    IGNORES_UNKNOWN_ATTRIBUTES,
    READS_ONE_ATTRIBUTE,
    REFUSES_WHAT_IT_SUPPORTS,
    KEEPS_VALUE,
    TAKES_ANY_RECIPIENT,
    TAKES_ANY_SPELLING,
    CUTS_PAYLOADS,
    DELIVERS_TWICE,
    REUSES_RECEIVE_IDS,
    IGNORES_THE_ANSWER
}

/// @notice A gateway from a chain to itself, with one fault at most.
contract LoopbackGateway is IERC7786GatewaySource {
    struct Waiting {
        bytes sender;
        address target;
        bytes payload;
        bool isDelivered;
    }

    bytes4 public constant URGENT = bytes4(keccak256("urgent(bool)"));

    Fault private immutable _fault;
    uint256 private _count;
    mapping(bytes32 sendId => Waiting) private _waiting;

    error NoValue(uint256 value);
    error InvalidRecipient(bytes recipient);
    error AlreadyDelivered(bytes32 sendId);
    error WrongAnswer(bytes4 answer);

    constructor(Fault fault) {
        _fault = fault;
    }

    function supportsAttribute(bytes4 selector) external pure returns (bool) {
        return selector == URGENT;
    }

    function sendMessage(bytes calldata recipient, bytes calldata payload, bytes[] calldata attributes)
        external
        payable
        returns (bytes32 sendId)
    {
        if (msg.value != 0 && _fault != Fault.KEEPS_VALUE) revert NoValue(msg.value);
        _checkAttributes(attributes);
        bool countsOn = _fault != Fault.REUSES_SEND_IDS;
        sendId = bytes32(countsOn ? ++_count : 1);
        address from = _fault == Fault.NAMES_ANOTHER_SENDER ? address(this) : msg.sender;
        bytes memory sender = InteroperableAddress.formatEvmV1(block.chainid, from);
        _waiting[sendId] =
            Waiting(InteroperableAddress.formatEvmV1(block.chainid, msg.sender), _parse(recipient), payload, false);
        emit MessageSent(sendId, sender, recipient, payload, msg.value, attributes);
    }

    /// @notice Anyone may deliver.
    function deliver(bytes32 sendId) external {
        Waiting storage message = _waiting[sendId];
        if (message.isDelivered && _fault != Fault.DELIVERS_TWICE) revert AlreadyDelivered(sendId);
        message.isDelivered = true;
        bytes32 receiveId = _fault == Fault.REUSES_RECEIVE_IDS ? bytes32(uint256(1)) : sendId;
        bytes memory payload = _fault == Fault.CUTS_PAYLOADS ? bytes("cut") : message.payload;
        bytes4 answer = IERC7786Recipient(message.target).receiveMessage(receiveId, message.sender, payload);
        bool isRight = answer == IERC7786Recipient.receiveMessage.selector;
        if (!isRight && _fault != Fault.IGNORES_THE_ANSWER) revert WrongAnswer(answer);
    }

    function _checkAttributes(bytes[] calldata attributes) private view {
        for (uint256 index; index < attributes.length; ++index) {
            bytes4 selector = bytes4(attributes[index]);
            bool isRefused = selector != URGENT || _fault == Fault.REFUSES_WHAT_IT_SUPPORTS;
            if (isRefused && _fault != Fault.IGNORES_UNKNOWN_ATTRIBUTES) revert UnsupportedAttribute(selector);
            if (_fault == Fault.READS_ONE_ATTRIBUTE) return;
        }
    }

    function _parse(bytes calldata recipient) private view returns (address target) {
        bool success;
        uint256 chain;
        (success, chain, target) = InteroperableAddress.tryParseEvmV1Calldata(recipient);
        if (_fault == Fault.TAKES_ANY_RECIPIENT) return target;
        if (!success) revert InvalidRecipient(recipient);
        if (_fault == Fault.TAKES_ANY_SPELLING) return target;
        bytes memory canonical = InteroperableAddress.formatEvmV1(chain, target);
        if (keccak256(recipient) != keccak256(canonical)) revert InvalidRecipient(recipient);
    }
}
