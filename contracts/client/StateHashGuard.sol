// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Applies a change only to the state for which it was made. A message that was overtaken finds another state and is
///         rejected.
/// @dev The hash is always computed from the state itself, so the two can't differ.
abstract contract StateHashGuard {
    /// @notice The message was made for a state other than the current one.
    error StateHashMismatch(bytes32 subject, bytes32 declared, bytes32 actual);

    /// @notice The hash that a message about `subject` must declare now.
    function currentStateHash(bytes32 subject) public view virtual returns (bytes32);

    function _requireState(bytes32 subject, bytes32 declared) internal view virtual {
        bytes32 actual = currentStateHash(subject);
        if (declared != actual) revert StateHashMismatch(subject, declared, actual);
    }
}
