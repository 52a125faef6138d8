// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev The state of the lock under which a message acts.
enum MessageLock {
    /// @dev The message has no lock.
    NONE,
    /// @dev The lock is held.
    HELD,
    /// @dev The lock has expired and no other was taken since, so it may be retaken.
    EXPIRED,
    /// @dev The lock was released, or another was taken since, so the message can no longer be applied.
    LOST
}

/// @notice A recipient whose messages act under a lock that may expire before they arrive. A relayer reads the lock before it
///         forces a delayed message.
interface ILockedRecipient {
    /// @notice The caller may not retake locks.
    error NotLockRetaker(address account);

    /// @notice The lock of a message with this payload. Reverts if the recipient cannot decode the payload.
    /// @return lock The lock's state.
    /// @return until The end of a held lock in Unix seconds; else 0.
    function lockFor(bytes calldata payload) external view returns (MessageLock lock, uint64 until);

    /// @notice Retakes the expired lock of a message with this payload, so that the message can be applied. For accounts that
    ///         the recipient's owner trusts with retries.
    function retakeLock(bytes calldata payload) external;
}
