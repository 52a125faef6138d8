// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Applies a message or the one that was issued again in its place, and never both.
/// @dev A message that is given up may be sent again as a new one, which has another id and names the first in `replaces`. The
///      router executes each id once; if the first arrives late after all, both would be applied. The router does not check
///      `replaces`: it is what the sender says, so it counts among the messages of that sender alone.
///
///      Every re-issue names the first message, as those of `waybill dlq decide ID retry` do. The guard takes one that names a re-issue
///      which was applied here. One that names a re-issue that never arrived looks like a new message.
abstract contract ReissueGuard {
    mapping(uint64 chain => mapping(address sender => mapping(bytes32 messageId => bytes32 appliedBy))) private
        _appliedBy;

    /// @notice The message, or one that stands for it, was applied already: `appliedBy` is which.
    error AlreadyApplied(bytes32 messageId, bytes32 appliedBy);

    /// @notice The message of that sender that was applied for `messageId`: itself, the one issued in its place, or 0.
    function appliedBy(uint64 chain, address sender, bytes32 messageId) public view returns (bytes32) {
        return _appliedBy[chain][sender][messageId];
    }

    /// @param replaces What {IMessageReceiver-executing} says of the message; 0 if it stands for no other.
    function _applyOnce(uint64 chain, address sender, bytes32 messageId, bytes32 replaces) internal virtual {
        _note(chain, sender, messageId, messageId);
        if (replaces != 0) _note(chain, sender, replaces, messageId);
    }

    function _note(uint64 chain, address sender, bytes32 messageId, bytes32 by) private {
        bytes32 present = _appliedBy[chain][sender][messageId];
        if (present != 0) revert AlreadyApplied(messageId, present);
        _appliedBy[chain][sender][messageId] = by;
    }
}
