// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Rules} from "./Rules.sol";
import {IPauses} from "./interfaces/IPauses.sol";
import {IRoles} from "./interfaces/IRoles.sol";
import {Gmp, HIGHEST_GMP} from "./types/Gmp.sol";

/// @dev Pauses; {IPauses} says what it promises.
abstract contract Pauses is IPauses, Rules {
    uint48 public constant MAX_PAUSE = 7 days;

    /// @inheritdoc IPauses
    function pauseLane(uint64 chain, uint48 until) external {
        _requireMayPause(_lanes[chain].pausedUntil, until);
        _setLanePause(chain, until);
    }

    /// @inheritdoc IPauses
    function pauseGmp(Gmp gmp, uint48 until) external {
        _requireMayPause(_speakers[gmp].pausedUntil, until);
        _setTable(_gmps.withPaused(_gmps.paused().with(gmp)));
        _setGmpPause(gmp, until);
    }

    /// @inheritdoc IPauses
    function endLanePause(uint64 chain) external onlyOwner {
        if (_lanes[chain].pausedUntil > block.timestamp) _setLanePause(chain, uint48(block.timestamp));
    }

    /// @inheritdoc IPauses
    function endGmpPause(Gmp gmp) external onlyOwner {
        _setTable(_gmps.withPaused(_gmps.paused().without(gmp)));
        if (_speakers[gmp].pausedUntil > block.timestamp) _setGmpPause(gmp, uint48(block.timestamp));
    }

    /// @inheritdoc IPauses
    function lanePausedUntil(uint64 chain) external view returns (uint48) {
        return _lanes[chain].pausedUntil;
    }

    /// @inheritdoc IPauses
    function gmpPausedUntil(Gmp gmp) external view returns (uint48) {
        return _speakers[gmp].pausedUntil;
    }

    /// @inheritdoc IPauses
    function isExpired(uint64 chain, uint64 sentAt, uint32 ttl) external view returns (bool) {
        return _hasExpired(chain, sentAt, ttl);
    }

    /// @dev `last` is the end of the newest pause of the same thing.
    function _requireMayPause(uint48 last, uint48 until) private view {
        if (msg.sender != owner()) {
            if (msg.sender != _guardian) revert IRoles.NotGuardian(msg.sender);
            if (last != 0 && block.timestamp < uint256(last) + MAX_PAUSE) {
                revert GuardianMustWait(uint256(last) + MAX_PAUSE);
            }
        }
        if (until <= block.timestamp || until > block.timestamp + MAX_PAUSE) {
            revert InvalidPauseEnd(until, block.timestamp + 1, block.timestamp + MAX_PAUSE);
        }
    }

    function _setLanePause(uint64 chain, uint48 until) private {
        _lanes[chain].pausedUntil = until;
        _lanePauses[chain].set(until);
        emit LanePauseSet(chain, until);
    }

    /// @dev Pauses of several GMPs may overlap; the clock stands still until the last of them ends.
    function _setGmpPause(Gmp gmp, uint48 until) private {
        _speakers[gmp].pausedUntil = until;
        uint48 last = until;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            if (_speakers[Gmp.wrap(number)].pausedUntil > last) last = _speakers[Gmp.wrap(number)].pausedUntil;
        }
        _gmpPauses.set(last);
        emit GmpPauseSet(gmp, until);
    }
}
