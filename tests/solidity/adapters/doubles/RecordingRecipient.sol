// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

/// @notice Keeps what it gets, and refuses when told to.
contract RecordingRecipient is IERC7786Recipient {
    uint256 public received;
    bytes public lastSender;
    bytes32 public lastPayloadHash;
    bool private _refusing;

    error Refused();

    function refuse(bool refusing) external {
        _refusing = refusing;
    }

    function receiveMessage(bytes32, bytes calldata sender, bytes calldata payload) external payable returns (bytes4) {
        if (_refusing) revert Refused();
        ++received;
        lastSender = sender;
        lastPayloadHash = keccak256(payload);
        return IERC7786Recipient.receiveMessage.selector;
    }
}

/// @notice Uses all the gas that a message asks for, and succeeds only if it gets that much.
contract GasHungryRecipient is IERC7786Recipient {
    uint256 public received;

    function receiveMessage(bytes32, bytes calldata, bytes calldata payload) external payable returns (bytes4) {
        uint256 hunger = abi.decode(payload, (uint256));
        uint256 atEntry = gasleft();
        ++received;
        while (atEntry - gasleft() < hunger) {}
        return IERC7786Recipient.receiveMessage.selector;
    }
}
