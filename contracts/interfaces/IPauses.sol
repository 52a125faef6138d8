// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../types/Gmp.sol";

/// @notice Pauses of lanes and GMPs. Each ends at its time without a call. Messages expire at `sentAt + ttl` all the same.
/// @dev A paused lane or GMP refuses deliveries by reverting, so that they can be made again afterwards ({ILanePolicy}).
interface IPauses {
    /// @notice Nothing is sent to or taken from `chain` before `until`, Unix seconds; in the past: the pause is over.
    event LanePauseSet(uint64 indexed chain, uint48 until);

    /// @notice Nothing is sent or taken over the GMP before `until`, and its receipts do not count meanwhile.
    event GmpPauseSet(Gmp indexed gmp, uint48 until);

    /// @notice A pause must end in the future, and at most {MAX_PAUSE} from now; the guardian's all at most {MAX_PAUSE} after its
    ///         first.
    error InvalidPauseEnd(uint48 until, uint256 earliest, uint256 latest);

    /// @notice The guardian has to rest, or the owner has paused this already. All pauses that the guardian begins within
    ///         {MAX_PAUSE} of its first end by then. For as long again it can begin no pause of any lane or GMP.
    error GuardianMustWait(uint256 until);

    /// @notice The tripwire has paused this GMP so much that its allowance is too small until then, Unix seconds.
    error TripwireMustWait(Gmp gmp, uint256 until);

    /// @notice How long a pause can be at most without being extended, in seconds.
    function MAX_PAUSE() external view returns (uint48);

    /// @notice The same for the tripwire's pauses.
    function MAX_TRIPWIRE_PAUSE() external view returns (uint48);

    /// @notice Pauses a lane in both directions until `until`, or makes a pause under way end then. On this chain alone: messages
    ///         that are underway still arrive on the other chain until the lane is paused there as well.
    function pauseLane(uint64 chain, uint48 until) external;

    /// @notice Pauses a GMP that has an adapter, in both directions, until `until`. The tripwire's pause is short, and never ends
    ///         another one sooner. It costs its allowance for that GMP ({tripwireAllowance}) and nobody else's.
    function pauseGmp(Gmp gmp, uint48 until) external;

    /// @notice Ends a lane's pause now. The guardian may end what it began itself.
    function endLanePause(uint64 chain) external;

    /// @notice Ends a GMP's pause now. The guardian may end what it or the tripwire began.
    function endGmpPause(Gmp gmp) external;

    /// @notice When the newest pause of the lane ends or ended, Unix seconds.
    function lanePausedUntil(uint64 chain) external view returns (uint48);

    /// @notice When the newest pause of the GMP ends or ended, Unix seconds.
    function gmpPausedUntil(Gmp gmp) external view returns (uint48);

    /// @notice For how many seconds altogether the tripwire may pause the GMP if it begins now. Four of its longest pauses are a
    ///         whole allowance. What is spent comes back 32 times slower, so that a leaked key pauses a GMP for an hour in 32.
    function tripwireAllowance(Gmp gmp) external view returns (uint256);
}
