// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

/// @dev One for each test of {RecipientConformance}.
enum RecipientFault {
    NONE,
    RETURNS_NOTHING_OF_USE,
    TRUSTS_EVERYBODY,
    GOES_BY_IDS
}

/// @notice A recipient with one fault at most.
contract FaultyRecipient is IERC7786Recipient {
    RecipientFault private immutable _fault;
    address private immutable _gateway;
    mapping(bytes32 receiveId => bool) private _isKnown;

    error Stranger(address caller);
    error KnownId(bytes32 receiveId);

    constructor(RecipientFault fault, address gateway) {
        (_fault, _gateway) = (fault, gateway);
    }

    function receiveMessage(bytes32 receiveId, bytes calldata, bytes calldata) external payable returns (bytes4) {
        if (msg.sender != _gateway && _fault != RecipientFault.TRUSTS_EVERYBODY) revert Stranger(msg.sender);
        if (_isKnown[receiveId] && _fault == RecipientFault.GOES_BY_IDS) revert KnownId(receiveId);
        _isKnown[receiveId] = true;
        if (_fault == RecipientFault.RETURNS_NOTHING_OF_USE) return bytes4(0);
        return IERC7786Recipient.receiveMessage.selector;
    }
}
