// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Applies either a message or its re-issue, never both.
/// @dev A message that was given up may be sent again as a new message, with another id, that names the first one in `replaces`.
///      The router executes each id once; if the first message arrives after all, both would be applied. The router does not
///      check `replaces`: it is the sender's claim, so the guard only relates it to the same sender's messages. Every re-issue
///      must name the first message, as those of `waybill dlq decide ID retry` do. The guard also recognises a re-issue that
///      names another one, if that one was applied here. A re-issue that names one that never arrived looks like a new message.
abstract contract ReissueGuard {
    mapping(uint64 chain => mapping(address sender => mapping(bytes32 messageId => bytes32 appliedBy))) private
        _appliedBy;

    /// @notice The message, or one issued in its place, was already applied: `appliedBy`.
    error AlreadyApplied(bytes32 messageId, bytes32 appliedBy);

    /// @notice The message of that sender that was applied for `messageId`: the message itself, its re-issue, or 0.
    function appliedBy(uint64 chain, address sender, bytes32 messageId) public view returns (bytes32) {
        return _appliedBy[chain][sender][messageId];
    }

    /// @param replaces The message's `replaces` as {IMessageReceiver-executing} returns it; 0 if it replaces none.
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
