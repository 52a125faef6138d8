// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Lets each transaction of a foreign ledger count once, whichever message brings it.
/// @dev Checked apart from the message's id: the same transaction wrapped in two messages has two ids, and that is the attack.
///      Two ledgers may have transactions with one id, so a transaction is known by its ledger and its id.
abstract contract AttestationGuard {
    mapping(bytes32 ledger => mapping(bytes32 transactionId => bytes32 messageId)) private _firstMessage;

    event AttestationUsed(bytes32 indexed ledger, bytes32 indexed transactionId, bytes32 indexed messageId);

    error ZeroLedger();
    error ZeroTransactionId();

    /// @notice `ATTESTATION_REPLAY_DETECTED`: the transaction has counted already, by `firstMessageId`.
    error AttestationReplayed(bytes32 ledger, bytes32 transactionId, bytes32 firstMessageId);

    /// @notice The message that brought a transaction, or 0.
    function messageOfTransaction(bytes32 ledger, bytes32 transactionId) public view returns (bytes32) {
        return _firstMessage[ledger][transactionId];
    }

    /// @param ledger The foreign ledger's name. It must come from what the dApp trusts, never two names for one ledger.
    function _useAttestation(bytes32 ledger, bytes32 transactionId, bytes32 messageId) internal virtual {
        if (ledger == 0) revert ZeroLedger();
        if (transactionId == 0) revert ZeroTransactionId();
        bytes32 first = _firstMessage[ledger][transactionId];
        if (first != 0) revert AttestationReplayed(ledger, transactionId, first);
        _firstMessage[ledger][transactionId] = messageId;
        emit AttestationUsed(ledger, transactionId, messageId);
    }
}
