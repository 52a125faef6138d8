// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Locks that outlive every retry of the message that took them, and expire even if their holder never returns.
abstract contract ExpiringLocks {
    /// @dev The retries of messages that take locks, which a lock's duration must cover; times in seconds.
    struct RetryWindow {
        uint32 messageTtl;
        uint32 maxRetries;
        uint32 maxBackoff;
    }

    struct Lock {
        address holder;
        uint64 until;
        /// @dev Increases each time a lock is taken or renewed. An account that acts under an older fence no longer holds it.
        uint32 fence;
    }

    mapping(bytes32 subject => Lock) private _locks;
    RetryWindow private _window;

    event LockTaken(bytes32 indexed subject, address indexed holder, uint64 until, uint32 fence);
    event LockReleased(bytes32 indexed subject, address indexed holder, uint32 fence);
    event RetryWindowSet(uint32 messageTtl, uint32 maxRetries, uint32 maxBackoff);

    /// @notice The holder is the zero address.
    error ZeroHolder();

    /// @notice The lock would expire while the message that takes it may still be retried; both times in seconds.
    error LockTtlTooShort(uint64 lockTtl, uint64 least);

    /// @notice The lock would last longer than any lock may; both times in seconds.
    error LockTtlTooLong(uint64 lockTtl, uint64 most);

    /// @notice Another account holds the lock until `until`, Unix seconds.
    error LockHeld(bytes32 subject, address holder, uint64 until);
    /// @notice The caller does not hold the lock, or the lock has expired.
    error LockNotHeld(bytes32 subject, address caller);

    /// @notice The lock with that fence cannot be retaken: it is still held, was released, or another lock was taken since.
    error LockNotExpired(bytes32 subject, uint32 fence);

    /// @notice The maximum duration of a lock, in seconds.
    uint64 public constant MAX_LOCK_TTL = 30 days;

    /// @notice The lock on `subject`; an expired one counts as released, and has no holder.
    function lockOf(bytes32 subject) public view returns (address holder, uint64 until, uint32 fence) {
        Lock memory lock = _locks[subject];
        if (lock.until <= block.timestamp) return (address(0), 0, lock.fence);
        return (lock.holder, lock.until, lock.fence);
    }

    /// @notice The minimum duration for which a lock must be taken: lockTtl ≥ messageTtl + maxRetries × maxBackoff.
    function leastLockTtl() public view returns (uint64) {
        return uint64(_window.messageTtl) + uint64(_window.maxRetries) * _window.maxBackoff;
    }

    function _setRetryWindow(RetryWindow memory window) internal {
        _window = window;
        if (leastLockTtl() > MAX_LOCK_TTL) revert LockTtlTooLong(leastLockTtl(), MAX_LOCK_TTL);
        emit RetryWindowSet(window.messageTtl, window.maxRetries, window.maxBackoff);
    }

    /// @dev Takes a free lock, or renews the holder's own.
    function _takeLock(bytes32 subject, address holder, uint64 lockTtl) internal virtual {
        if (holder == address(0)) revert ZeroHolder();
        _requireLockTtl(lockTtl);
        _requireUnlocked(subject, holder);
        uint64 until = uint64(block.timestamp) + lockTtl;
        uint32 fence = _locks[subject].fence + 1;
        _locks[subject] = Lock(holder, until, fence);
        emit LockTaken(subject, holder, until, fence);
    }

    /// @dev Retakes an expired lock for its last holder (OIP-141). The fence stays the same: nobody held the lock in between, so
    ///      messages sent under it are not stale.
    function _retakeLock(bytes32 subject, uint32 fence, uint64 lockTtl) internal {
        _requireLockTtl(lockTtl);
        if (!_isExpired(subject, fence)) revert LockNotExpired(subject, fence);
        uint64 until = uint64(block.timestamp) + lockTtl;
        _locks[subject].until = until;
        emit LockTaken(subject, _locks[subject].holder, until, fence);
    }

    function _releaseLock(bytes32 subject, address holder) internal {
        (address present,, uint32 fence) = lockOf(subject);
        if (present != holder || holder == address(0)) revert LockNotHeld(subject, holder);
        _locks[subject].until = 0;
        emit LockReleased(subject, holder, fence);
    }

    /// @dev Whether the last lock had that fence and expired without being released.
    function _isExpired(bytes32 subject, uint32 fence) internal view returns (bool) {
        Lock memory lock = _locks[subject];
        return lock.fence == fence && lock.until != 0 && lock.until <= block.timestamp;
    }

    function _requireLockTtl(uint64 lockTtl) private view {
        if (lockTtl < leastLockTtl()) revert LockTtlTooShort(lockTtl, leastLockTtl());
        if (lockTtl > MAX_LOCK_TTL) revert LockTtlTooLong(lockTtl, MAX_LOCK_TTL);
    }

    /// @dev Reverts if an account other than `account` holds the lock.
    function _requireUnlocked(bytes32 subject, address account) internal view {
        (address holder, uint64 until,) = lockOf(subject);
        if (holder != address(0) && holder != account) revert LockHeld(subject, holder, until);
    }
}
