// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RouterState} from "./RouterState.sol";
import {IGmpRegistry} from "./interfaces/IGmpRegistry.sol";
import {IPauses} from "./interfaces/IPauses.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {ALL_GMPS, Gmp, GmpSet, HIGHEST_GMP, NO_GMPS} from "./types/Gmp.sol";

/// @dev What the configuration means for a message: whom it may go to and come from, when, and what its recipient demands.
abstract contract Rules is RouterState {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev The lane, if that router is known on the other side and the lane is open. The current peer costs no further look.
    function _requireLane(uint64 chain, bytes32 router) internal view returns (Lane memory lane) {
        lane = _lanes[chain];
        bool isCurrent = lane.peer != address(0) && lane.peer.toBytes32() == router;
        if (!isCurrent && !_isPeer(chain, router)) revert IGmpRegistry.UnknownPeer(chain, router);
        _requireOpen(chain, lane);
    }

    function _requireOpen(uint64 chain, Lane memory lane) internal view {
        if (block.timestamp < lane.pausedUntil) revert IPauses.LanePaused(chain, lane.pausedUntil);
    }

    function _requireOpen(Gmp gmp, uint48 pausedUntil) internal view {
        if (block.timestamp < pausedUntil) revert IPauses.GmpPaused(gmp, pausedUntil);
    }

    /// @dev The GMPs that are enabled and not paused now.
    function _openGmps(Gmps memory gmps) internal view returns (GmpSet open) {
        open = gmps.enabled;
        if (gmps.paused == NO_GMPS) return open;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            if (_isPaused(Gmp.wrap(number), gmps.paused)) open = open.without(Gmp.wrap(number));
        }
    }

    function _isPeer(uint64 chain, bytes32 router) internal view returns (bool) {
        return uint256(router) >> 160 == 0 && _knownPeers[chain][router.toAddress()];
    }

    /// @dev Whether the time of a message over the lane to or from `chain` has run out. Pauses stop the clock.
    function _hasExpired(uint64 chain, uint64 sentAt, uint32 ttl) internal view returns (bool) {
        uint256 deadline = uint256(sentAt) + ttl;
        if (ttl == 0 || block.timestamp <= deadline) return false;
        // Only what seems to have expired pays for looking at the pauses.
        return block.timestamp > deadline + _lanePauses[chain].pausedBetween(_gmpPauses, sentAt, block.timestamp);
    }

    /// @return least The quorum that a message over the lane must reach at least to touch `recipient`.
    /// @return allowed The GMPs whose receipts count for it.
    function _demandOf(address recipient, uint64 chain, Lane memory lane)
        internal
        view
        returns (uint8 least, GmpSet allowed)
    {
        Policy memory policy = _policies[recipient][chain];
        if (policy.quorum != 0) return (policy.quorum, policy.gmps);
        return (lane.floor, ALL_GMPS);
    }

    function _isPaused(Gmp gmp, GmpSet paused) private view returns (bool) {
        return paused.contains(gmp) && block.timestamp < _speakers[gmp].pausedUntil;
    }
}
