// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Lets each transaction of a foreign ledger count once, whichever message brings it.
/// @dev Checked apart from the message's id: the same transaction wrapped in two messages has two ids, and that is the attack.
abstract contract AttestationGuard {
    mapping(bytes32 transactionId => bytes32 messageId) private _firstMessage;

    event AttestationUsed(bytes32 indexed transactionId, bytes32 indexed messageId);

    error ZeroTransactionId();

    /// @notice `ATTESTATION_REPLAY_DETECTED`: the transaction has counted already, by `firstMessageId`.
    error AttestationReplayed(bytes32 transactionId, bytes32 firstMessageId);

    /// @notice The message that brought a transaction, or 0.
    function messageOfTransaction(bytes32 transactionId) public view returns (bytes32) {
        return _firstMessage[transactionId];
    }

    function _useAttestation(bytes32 transactionId, bytes32 messageId) internal virtual {
        if (transactionId == 0) revert ZeroTransactionId();
        bytes32 first = _firstMessage[transactionId];
        if (first != 0) revert AttestationReplayed(transactionId, first);
        _firstMessage[transactionId] = messageId;
        emit AttestationUsed(transactionId, messageId);
    }
}
