// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev From `start` on and before `end`, Unix seconds.
struct Pause {
    uint48 start;
    uint48 end;
}

/// @dev The pauses of one thing in the order of their starts, none overlapping.
struct PauseLog {
    Pause[] pauses;
}

using PauseLogLibrary for PauseLog global;

library PauseLogLibrary {
    /// @dev Notes a pause from now to `end`, or makes the one that is under way end at `end`, sooner or later than it would.
    function set(PauseLog storage log, uint48 end) internal {
        uint48 start = uint48(block.timestamp);
        uint256 length = log.pauses.length;
        if (length != 0 && log.pauses[length - 1].end >= start) log.pauses[length - 1].end = end;
        else log.pauses.push(Pause({start: start, end: end}));
    }

    /// @dev Seconds of [from, to] that lie in a pause of the one log or of the other; what lies in both counts once. Walks
    ///      back from the newest pause and ends at the first that is older than `from`.
    function pausedBetween(PauseLog storage log, PauseLog storage other, uint256 from, uint256 to)
        internal
        view
        returns (uint256 total)
    {
        uint256 index = log.pauses.length;
        uint256 otherIndex = other.pauses.length;
        // Everything from `to` on has been counted; `to` moves down as pauses are.
        while (index != 0 || otherIndex != 0) {
            Pause memory pause;
            if (otherIndex == 0 || (index != 0 && log.pauses[index - 1].end >= other.pauses[otherIndex - 1].end)) {
                pause = log.pauses[--index];
            } else {
                pause = other.pauses[--otherIndex];
            }
            if (pause.end <= from) break;
            uint256 start = pause.start > from ? pause.start : from;
            uint256 end = pause.end < to ? pause.end : to;
            if (end > start) {
                total += end - start;
                to = start;
            }
        }
    }
}
