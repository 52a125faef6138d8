// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Applies the messages about one subject in the order their sender numbered them, 1, 2, 3, …, whatever the order in which
///         they arrive.
/// @dev A message that comes too early reverts and waits at the router: anyone may execute it when its turn has come. A
///      number that was applied is refused for ever, also in a message that was issued again.
abstract contract OrderedGuard {
    mapping(bytes32 subject => uint64 sequence) private _lastSequence;

    event SequenceSkipped(bytes32 indexed subject, uint64 sequence);

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

    /// @dev Gives up a message that will never come, so that those behind it can be applied.
    function _skip(bytes32 subject, uint64 sequence) internal {
        _takeInOrder(subject, sequence);
        emit SequenceSkipped(subject, sequence);
    }
}
