// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev How a message stands to the lock under which it acts.
enum MessageLock {
    /// @dev It acts under none.
    NONE,
    /// @dev Its lock holds.
    HELD,
    /// @dev Its lock has expired, and no other was taken since: it may be taken again.
    EXPIRED,
    /// @dev Its lock was released, or another was taken since: the message can't be applied any more.
    LOST
}

/// @notice A recipient whose messages act under a lock that may end before they arrive. A relayer asks it before it brings such a
///         message forward.
interface ILockedRecipient {
    /// @notice The caller may not take locks again.
    error NotLockRetaker(address account);

    /// @notice How a message with this payload stands to its lock. Reverts for a payload that the recipient can't read.
    /// @return lock How it stands.
    /// @return until When its lock ends if it holds, Unix seconds; else 0.
    function lockFor(bytes calldata payload) external view returns (MessageLock lock, uint64 until);

    /// @notice Takes the expired lock of a message with this payload again, so that the message can be applied. For accounts that
    ///         the recipient's owner trusts to retry.
    function retakeLock(bytes calldata payload) external;
}
