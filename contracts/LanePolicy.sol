// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Create3} from "@openzeppelin/contracts/utils/Create3.sol";

import {RouterState} from "./RouterState.sol";
import {ILanePolicy} from "./interfaces/ILanePolicy.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {ALL_GMPS, Gmp, GmpSet, GmpTable, HIGHEST_GMP, NO_GMPS} from "./types/Gmp.sol";
import {LaneWord} from "./types/MessageRecords.sol";

/// @dev What the configuration means for a message: whom it may go to and come from, when, and what its recipient demands.
abstract contract LanePolicy is RouterState {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev Refuses a lane that is paused, or on whose other side that router is not known. The current peer costs no further
    ///      look.
    function _requireLane(GmpTable table, uint64 chain, bytes32 router) internal view returns (LaneWord word) {
        LaneState storage lane = _lanes[chain];
        word = lane.word;
        address peer = word.peer();
        bool isCurrent = peer.toBytes32() == router && peer != address(0);
        if (!isCurrent && !_isPeer(chain, router)) revert ILanePolicy.UnknownPeer(chain, router);
        _requireNotPaused(table, chain, lane);
    }

    /// @dev Up to the last day of any lane's pause, a lane's own costs a look.
    function _requireNotPaused(GmpTable table, uint64 chain, LaneState storage lane) internal view {
        if (!table.mayLanesBeClosedAt(block.timestamp)) return;
        uint48 pausedUntil = lane.pausedUntil;
        if (block.timestamp < pausedUntil) revert ILanePolicy.LanePaused(chain, pausedUntil);
    }

    function _requireNotPaused(Gmp gmp, uint48 pausedUntil) internal view {
        if (block.timestamp < pausedUntil) revert ILanePolicy.GmpPaused(gmp, pausedUntil);
    }

    /// @dev Where {IGmpRegistry-createAdapter} puts a GMP's adapter.
    function _createdAddress(Gmp gmp, uint8 number) internal view returns (address) {
        return Create3.computeAddress(_creationSalt(gmp, number));
    }

    function _creationSalt(Gmp gmp, uint8 number) internal pure returns (bytes32) {
        return bytes32((uint256(Gmp.unwrap(gmp)) << 8) | number);
    }

    /// @dev The table for sends: while any GMP may be paused, without the numbers of adapters, so that all slots are looked at.
    function _quickTable(GmpTable table) internal view returns (GmpTable) {
        return table.pausedAt(block.timestamp) == NO_GMPS ? table : table.withoutCreated();
    }

    /// @dev Who speaks for a GMP now, or zero. The address of an adapter that the router created follows from its number, without a
    ///      look at its slot: that saves 1,850 gas for each GMP of a send.
    /// @param table What {_quickTable} makes of the router's.
    function _activeAdapter(GmpTable table, Gmp gmp) internal view returns (address) {
        uint8 number = table.createdAs(gmp);
        if (number != 0) return _createdAddress(gmp, number);
        AdapterSlot storage slot = _adapterSlots[gmp];
        return block.timestamp < slot.pausedUntil ? address(0) : slot.adapter;
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
            if (adapter != address(0)) _tables[adapter] = table.copyFor(Gmp.wrap(number), _tables[adapter]);
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
        // Who may be called is asked of the same word, so that a recipient without a policy costs one look.
        if (_tables[recipient].hasPolicy()) {
            Policy storage policy = _policies[recipient][chain];
            (least, allowed) = (policy.quorum, policy.gmps);
        }
        if (least == 0) return (floor, ALL_GMPS);
    }

    function _isPaused(Gmp gmp, GmpSet paused) private view returns (bool) {
        return paused.contains(gmp) && block.timestamp < _adapterSlots[gmp].pausedUntil;
    }
}
