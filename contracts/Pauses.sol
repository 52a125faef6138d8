// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {LanePolicy} from "./LanePolicy.sol";
import {IGmpRegistry} from "./interfaces/IGmpRegistry.sol";
import {IPauses} from "./interfaces/IPauses.sol";
import {IRoles} from "./interfaces/IRoles.sol";
import {Gmp, GmpSet, HIGHEST_GMP} from "./types/Gmp.sol";

/// @dev Pauses, as {IPauses} specifies them.
abstract contract Pauses is IPauses, LanePolicy {
    uint48 public constant MAX_PAUSE = 7 days;
    uint48 public constant MAX_TRIPWIRE_PAUSE = 6 hours;
    /// @dev The tripwire's full allowance for pausing one GMP, over all its pauses.
    uint256 private constant TRIPWIRE_ALLOWANCE = 4 * uint256(MAX_TRIPWIRE_PAUSE);
    /// @dev Seconds after which the tripwire regains one second of its allowance.
    uint256 private constant TRIPWIRE_REST = 32;

    /// @inheritdoc IPauses
    function pauseLane(uint64 chain, uint48 until) external {
        LaneState storage lane = _lanes[chain];
        _setLanePause(chain, until, _authorizePause(lane.pausedUntil, lane.pausedByGuardian, until));
    }

    /// @inheritdoc IPauses
    function pauseGmp(Gmp gmp, uint48 until) external {
        AdapterSlot storage slot = _adapterSlots[gmp];
        bool byGuardian = _isOnlyTripwire(msg.sender)
            ? _spendTripwire(gmp, slot, until)
            : _authorizePause(slot.pausedUntil, slot.pausedByGuardian, until);
        if (slot.adapter == address(0)) revert IGmpRegistry.GmpHasNoAdapter(gmp);
        _setGmpPause(gmp, until, byGuardian);
    }

    /// @inheritdoc IPauses
    function endLanePause(uint64 chain) external {
        bool byGuardian = _lanes[chain].pausedByGuardian;
        _requireMayEnd(byGuardian);
        if (_lanes[chain].pausedUntil > block.timestamp) _setLanePause(chain, uint48(block.timestamp), byGuardian);
    }

    /// @inheritdoc IPauses
    function endGmpPause(Gmp gmp) external {
        bool byGuardian = _adapterSlots[gmp].pausedByGuardian;
        _requireMayEnd(byGuardian);
        if (_adapterSlots[gmp].pausedUntil > block.timestamp) _setGmpPause(gmp, uint48(block.timestamp), byGuardian);
    }

    /// @inheritdoc IPauses
    function lanePausedUntil(uint64 chain) external view returns (uint48) {
        return _lanes[chain].pausedUntil;
    }

    /// @inheritdoc IPauses
    function gmpPausedUntil(Gmp gmp) external view returns (uint48) {
        return _adapterSlots[gmp].pausedUntil;
    }

    /// @inheritdoc IPauses
    function tripwireAllowance(Gmp gmp) external view returns (uint256) {
        uint256 restedAt = _tripwireRestedAt[_tripwire][gmp];
        uint256 rest = restedAt > block.timestamp ? restedAt - block.timestamp : 0;
        return TRIPWIRE_ALLOWANCE - (rest + TRIPWIRE_REST - 1) / TRIPWIRE_REST;
    }

    /// @dev Reverts if the caller may not set a pause, and charges the guardian's period ({_useGuardianPeriod}).
    /// @param pausedUntil The end of the newest pause of the same target.
    /// @param isGuardians Whether the guardian began that pause.
    /// @return byGuardian Whether the guardian begins this pause.
    function _authorizePause(uint48 pausedUntil, bool isGuardians, uint48 until) private returns (bool byGuardian) {
        uint256 latest = block.timestamp + MAX_PAUSE;
        byGuardian = msg.sender != owner();
        if (byGuardian) {
            if (msg.sender != _guardian) revert IRoles.NotGuardian(msg.sender);
            // A pause by the owner lasts as long as the owner wants.
            if (block.timestamp < pausedUntil && !isGuardians) revert GuardianMustWait(pausedUntil);
            latest = _useGuardianPeriod(latest);
        }
        if (until <= block.timestamp || until > latest) revert InvalidPauseEnd(until, block.timestamp + 1, latest);
    }

    /// @dev The guardian's first pause starts its period, which sets the end of all its pauses; after it the guardian must wait for
    ///      the length of the longest pause. It can therefore stop nothing for more than half of the time, however it rotates.
    function _useGuardianPeriod(uint256 latest) private returns (uint256) {
        uint256 end = _guardianPausesEnd;
        if (block.timestamp < end) return end;
        if (end != 0 && block.timestamp < end + MAX_PAUSE) revert GuardianMustWait(end + MAX_PAUSE);
        _guardianPausesEnd = uint48(latest);
        return latest;
    }

    /// @dev An account with a stronger role pauses in that role.
    function _isOnlyTripwire(address account) private view returns (bool) {
        return account == _tripwire && account != _guardian && account != owner();
    }

    /// @dev The tripwire can only extend: a pause of another role lasts at least as long, and only that role may end it.
    /// @return byGuardian Whether the guardian may end the pause.
    function _spendTripwire(Gmp gmp, AdapterSlot storage slot, uint48 until) private returns (bool byGuardian) {
        (uint256 from, uint256 latest) = (slot.pausedUntil, block.timestamp + MAX_TRIPWIRE_PAUSE);
        byGuardian = from <= block.timestamp || slot.pausedByGuardian;
        if (from < block.timestamp) from = block.timestamp;
        if (until <= from || until > latest) revert InvalidPauseEnd(until, from + 1, latest);
        uint256 restedAt = _tripwireRestedAt[msg.sender][gmp];
        if (restedAt < block.timestamp) restedAt = block.timestamp;
        restedAt += (until - from) * TRIPWIRE_REST;
        uint256 mayFrom = restedAt - TRIPWIRE_ALLOWANCE * TRIPWIRE_REST;
        if (block.timestamp < mayFrom) revert TripwireMustWait(gmp, mayFrom);
        _tripwireRestedAt[msg.sender][gmp] = uint48(restedAt);
    }

    /// @dev The guardian may end a pause that it or the tripwire began, unless the owner has set it since.
    function _requireMayEnd(bool isGuardians) private view {
        if (!isGuardians || msg.sender != _guardian) _checkOwner();
    }

    function _setLanePause(uint64 chain, uint48 until, bool byGuardian) private {
        LaneState storage lane = _lanes[chain];
        (lane.pausedUntil, lane.pausedByGuardian) = (until, byGuardian);
        _setTable(_gmps.withLanesClosed(_dayOf(until)));
        emit LanePauseSet(chain, until);
    }

    /// @dev Pauses of several GMPs may overlap; the table records the day on which the last one ends.
    function _setGmpPause(Gmp gmp, uint48 until, bool byGuardian) private {
        (_adapterSlots[gmp].pausedUntil, _adapterSlots[gmp].pausedByGuardian) = (until, byGuardian);
        GmpSet paused;
        uint48 last = until;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            uint48 end = _adapterSlots[Gmp.wrap(number)].pausedUntil;
            if (end > block.timestamp) paused = paused.with(Gmp.wrap(number));
            if (end > last) last = end;
        }
        _setTable(_gmps.withPaused(paused, _dayOf(last)));
        emit GmpPauseSet(gmp, until);
    }

    /// @dev The day counter overflows in 2149.
    function _dayOf(uint48 time) private pure returns (uint16) {
        return uint16(time / 1 days);
    }
}
