// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Lets each transaction of a foreign ledger count once, whichever message reports it.
/// @dev This check is separate from the message's id: the attack is to wrap one transaction in two messages, which have two ids.
///      Different ledgers may use equal transaction ids, so a transaction is identified by its ledger and its id.
abstract contract AttestationGuard {
    mapping(bytes32 ledger => mapping(bytes32 transactionId => bytes32 messageId)) private _firstMessage;

    event AttestationUsed(bytes32 indexed ledger, bytes32 indexed transactionId, bytes32 indexed messageId);

    /// @notice The ledger's name is zero.
    error ZeroLedger();
    /// @notice The transaction id is zero.
    error ZeroTransactionId();

    /// @notice `ATTESTATION_REPLAY_DETECTED`: the transaction was already counted, in the message `firstMessageId`.
    error AttestationReplayed(bytes32 ledger, bytes32 transactionId, bytes32 firstMessageId);

    /// @notice The message that reported a transaction, or 0.
    function messageOfTransaction(bytes32 ledger, bytes32 transactionId) public view returns (bytes32) {
        return _firstMessage[ledger][transactionId];
    }

    /// @param ledger The foreign ledger's name. It must come from a source that the dApp trusts, and a ledger must have only one
    ///        name.
    function _useAttestation(bytes32 ledger, bytes32 transactionId, bytes32 messageId) internal virtual {
        if (ledger == 0) revert ZeroLedger();
        if (transactionId == 0) revert ZeroTransactionId();
        bytes32 first = _firstMessage[ledger][transactionId];
        if (first != 0) revert AttestationReplayed(ledger, transactionId, first);
        _firstMessage[ledger][transactionId] = messageId;
        emit AttestationUsed(ledger, transactionId, messageId);
    }
}
