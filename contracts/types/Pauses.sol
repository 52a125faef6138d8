// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev From `start` on and before `end`, Unix seconds, and what came before it, in seconds; one slot.
struct Pause {
    uint48 start;
    uint48 end;
    /// @dev How long the pauses before this one lasted together, without the time in which another log was paused as well.
    uint48 before;
    /// @dev How long that other log was paused until `start`.
    uint48 otherBefore;
}

/// @dev The pauses of one thing in the order of their starts, none overlapping. Each knows the sum of those before it, so that
///      a time is looked up by halving. The cost hardly grows with the number of pauses.
struct PauseLog {
    Pause[] pauses;
}

using PauseLogLibrary for PauseLog global;

library PauseLogLibrary {
    /// @dev Notes a pause from now to `end`, or makes the one that is under way end at `end`, sooner or later than it would.
    function set(PauseLog storage log, uint48 end) internal {
        if (!_changeEnd(log, end)) _begin(log, end, pausedUntil(log, block.timestamp), 0);
    }

    /// @dev The same for a log whose time does not count while `other` is paused.
    function setExcluding(PauseLog storage log, PauseLog storage other, uint48 end) internal {
        if (_changeEnd(log, end)) return;
        _begin(log, end, pausedAloneUntil(log, other, block.timestamp), pausedUntil(other, block.timestamp));
    }

    /// @dev Seconds of [from, to] that lie in a pause of the one log or of the other; what lies in both counts once. `log` was
    ///      written by {setExcluding} `other`, and `to` is not in the future.
    function pausedBetween(PauseLog storage log, PauseLog storage other, uint256 from, uint256 to)
        internal
        view
        returns (uint256)
    {
        uint256 atEnd = pausedUntil(other, to) + pausedAloneUntil(log, other, to);
        return atEnd - pausedUntil(other, from) - pausedAloneUntil(log, other, from);
    }

    /// @dev Seconds before `time` in which the log was paused.
    function pausedUntil(PauseLog storage log, uint256 time) internal view returns (uint256) {
        Pause memory pause = _newestAt(log, time);
        return pause.before + _endAt(pause, time) - pause.start;
    }

    /// @dev Seconds before `time` in which the log was paused and `other` was not.
    function pausedAloneUntil(PauseLog storage log, PauseLog storage other, uint256 time)
        internal
        view
        returns (uint256)
    {
        Pause memory pause = _newestAt(log, time);
        uint256 end = _endAt(pause, time);
        return pause.before + (end - pause.start) - (pausedUntil(other, end) - pause.otherBefore);
    }

    /// @return moved Whether a pause is under way, which ends at `end` now.
    function _changeEnd(PauseLog storage log, uint48 end) private returns (bool moved) {
        uint256 length = log.pauses.length;
        moved = length != 0 && log.pauses[length - 1].end >= block.timestamp;
        if (moved) log.pauses[length - 1].end = end;
    }

    function _begin(PauseLog storage log, uint48 end, uint256 before, uint256 otherBefore) private {
        log.pauses.push(Pause(uint48(block.timestamp), end, uint48(before), uint48(otherBefore)));
    }

    function _endAt(Pause memory pause, uint256 time) private pure returns (uint256) {
        return pause.end < time ? pause.end : time;
    }

    /// @return pause The newest one that had begun by `time`; none is all zeros.
    function _newestAt(PauseLog storage log, uint256 time) private view returns (Pause memory pause) {
        uint256 high = log.pauses.length;
        if (high == 0) return pause;
        // Mostly it is the last.
        pause = log.pauses[high - 1];
        if (pause.start <= time) return pause;
        uint256 low;
        // Those before `low` have begun, those from `high` on have not.
        while (low < high) {
            uint256 middle = (low + high) / 2;
            if (log.pauses[middle].start <= time) low = middle + 1;
            else high = middle;
        }
        if (low == 0) return Pause(0, 0, 0, 0);
        return log.pauses[low - 1];
    }
}
