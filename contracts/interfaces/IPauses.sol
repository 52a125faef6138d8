// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../types/Gmp.sol";

/// @notice Pauses of lanes and GMPs. Each ends at its time without a call. Messages expire at `sentAt + ttl` regardless.
/// @dev A paused lane or GMP rejects deliveries by reverting, so that they can be repeated afterwards ({ILanePolicy}).
interface IPauses {
    /// @notice Nothing is sent to or accepted from `chain` before `until`, Unix seconds; in the past, the pause is over.
    event LanePauseSet(uint64 indexed chain, uint48 until);

    /// @notice Nothing is sent or accepted over the GMP before `until`, and its receipts do not count meanwhile.
    event GmpPauseSet(Gmp indexed gmp, uint48 until);

    /// @notice A pause must end in the future and at most {MAX_PAUSE} from now. All of the guardian's pauses must end at most
    ///         {MAX_PAUSE} after the start of its first.
    error InvalidPauseEnd(uint48 until, uint256 earliest, uint256 latest);

    /// @notice The guardian must rest until then, or the owner has already paused the target. All pauses that the guardian begins
    ///         within {MAX_PAUSE} of its first end by then. For as long again it can pause no lane or GMP.
    error GuardianMustWait(uint256 until);

    /// @notice The tripwire's remaining allowance for this GMP is too small until then, Unix seconds.
    error TripwireMustWait(Gmp gmp, uint256 until);

    /// @notice Longest duration of a pause without an extension, in seconds.
    function MAX_PAUSE() external view returns (uint48);

    /// @notice Longest duration of a tripwire's pause, in seconds.
    function MAX_TRIPWIRE_PAUSE() external view returns (uint48);

    /// @notice Pauses a lane in both directions until `until`, or changes the end of a current pause. Applies to this chain only:
    ///         messages in flight still arrive on the other chain until the lane is paused there as well.
    function pauseLane(uint64 chain, uint48 until) external;

    /// @notice Pauses a GMP that has an adapter, in both directions, until `until`. The tripwire's pause is short and never
    ///         shortens another one. It uses the tripwire's allowance for that GMP ({tripwireAllowance}) only.
    function pauseGmp(Gmp gmp, uint48 until) external;

    /// @notice Ends a lane's pause now. The guardian may end its own pauses.
    function endLanePause(uint64 chain) external;

    /// @notice Ends a GMP's pause now. The guardian may end pauses of its own and of the tripwire.
    function endGmpPause(Gmp gmp) external;

    /// @notice The end of the lane's newest pause, Unix seconds.
    function lanePausedUntil(uint64 chain) external view returns (uint48);

    /// @notice The end of the GMP's newest pause, Unix seconds.
    function gmpPausedUntil(Gmp gmp) external view returns (uint48);

    /// @notice The number of seconds for which the tripwire may pause the GMP from now on. The full allowance is four of its
    ///         longest pauses. It recovers 32 times more slowly than it is used, so that a leaked key can pause a GMP for one
    ///         hour in 32.
    function tripwireAllowance(Gmp gmp) external view returns (uint256);
}
