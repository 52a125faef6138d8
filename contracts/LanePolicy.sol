// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RouterState} from "./RouterState.sol";
import {ILanePolicy} from "./interfaces/ILanePolicy.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {ALL_GMPS, Gmp, GmpSet, GmpTable, HIGHEST_GMP, NO_GMPS} from "./types/Gmp.sol";

/// @dev What the configuration means for a message: whom it may go to and come from, when, and what its recipient demands.
abstract contract LanePolicy is RouterState {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev Refuses a lane that is paused, or on whose other side that router is not known. The current peer costs no further
    ///      look.
    /// @return floor The lane's least quorum for recipients without a policy.
    function _requireLane(uint64 chain, bytes32 router) internal view returns (uint8 floor) {
        LaneState storage lane = _lanes[chain];
        address peer;
        uint16 pausedDay;
        (peer, floor, pausedDay) = (lane.peer, lane.floor, lane.pausedDay);
        bool isCurrent = peer.toBytes32() == router && peer != address(0);
        if (!isCurrent && !_isPeer(chain, router)) revert ILanePolicy.UnknownPeer(chain, router);
        _requireNotPaused(chain, lane, pausedDay);
    }

    /// @dev Only on the last day of a pause, or before, its end costs a look.
    function _requireNotPaused(uint64 chain, LaneState storage lane, uint16 pausedDay) internal view {
        if (block.timestamp / 1 days > pausedDay) return;
        uint48 pausedUntil = lane.pausedUntil;
        if (block.timestamp < pausedUntil) revert ILanePolicy.LanePaused(chain, pausedUntil);
    }

    function _requireNotPaused(Gmp gmp, uint48 pausedUntil) internal view {
        if (block.timestamp < pausedUntil) revert ILanePolicy.GmpPaused(gmp, pausedUntil);
    }

    /// @dev The GMPs that are enabled and not paused now.
    function _activeGmps(GmpTable table) internal view returns (GmpSet active) {
        active = table.enabled();
        GmpSet paused = table.pausedAt(block.timestamp);
        if (paused == NO_GMPS) return active;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            if (_isPaused(Gmp.wrap(number), paused)) active = active.without(Gmp.wrap(number));
        }
    }

    /// @dev The only way to change the table: gives every adapter in use its copy.
    function _setTable(GmpTable table) internal {
        _gmps = table;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            address adapter = _adapterSlots[Gmp.wrap(number)].adapter;
            if (adapter != address(0)) _tables[adapter] = table.copyFor(Gmp.wrap(number));
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
    function _recipientPolicy(address recipient, uint64 chain, uint8 floor)
        internal
        view
        returns (uint8 least, GmpSet allowed)
    {
        Policy storage policy = _policies[recipient][chain];
        (least, allowed) = (policy.quorum, policy.gmps);
        if (least == 0) return (floor, ALL_GMPS);
    }

    function _isPaused(Gmp gmp, GmpSet paused) private view returns (bool) {
        return paused.contains(gmp) && block.timestamp < _adapterSlots[gmp].pausedUntil;
    }
}
