// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Applies a change only to the state it was made for: a message that was overtaken finds another state and is refused.
/// @dev The hash is always taken from the state itself, so it can't get out of step with it.
abstract contract StateHashGuard {
    /// @notice The message was made for a state that is not the present one.
    error StateHashMismatch(bytes32 subject, bytes32 declared, bytes32 actual);

    /// @notice The hash that a message about `subject` has to declare now.
    function currentStateHash(bytes32 subject) public view virtual returns (bytes32);

    function _requireState(bytes32 subject, bytes32 declared) internal view virtual {
        bytes32 actual = currentStateHash(subject);
        if (declared != actual) revert StateHashMismatch(subject, declared, actual);
    }
}
