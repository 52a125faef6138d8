// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Applies the messages about one subject in the order in which their sender numbered them (1, 2, 3, …), regardless of
///         the order in which they arrive.
/// @dev A message that arrives too early reverts and waits at the router; anyone may execute it once its turn has come. A number
///      that was applied is rejected for ever, also in a re-issued message.
abstract contract OrderedGuard {
    mapping(bytes32 subject => uint64 sequence) private _lastSequence;

    event SequenceSkipped(bytes32 indexed subject, uint64 sequence);

    /// @notice The message's number is not the next one for the subject.
    error OutOfOrder(bytes32 subject, uint64 expected, uint64 sequence);

    /// @notice The number of the last message that was applied to `subject`; 0 before the first.
    function lastSequence(bytes32 subject) public view returns (uint64) {
        return _lastSequence[subject];
    }

    function _takeInOrder(bytes32 subject, uint64 sequence) internal virtual {
        uint64 expected = _lastSequence[subject] + 1;
        if (sequence != expected) revert OutOfOrder(subject, expected, sequence);
        _lastSequence[subject] = sequence;
    }

    /// @dev Skips a message that will never arrive, so that later ones can be applied.
    function _skip(bytes32 subject, uint64 sequence) internal {
        _takeInOrder(subject, sequence);
        emit SequenceSkipped(subject, sequence);
    }
}
