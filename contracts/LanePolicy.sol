// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RouterState} from "./RouterState.sol";
import {ILanePolicy} from "./interfaces/ILanePolicy.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Gmp, GmpSet, GmpTable, HIGHEST_GMP, NO_GMPS} from "./types/Gmp.sol";
import {Message} from "./types/Message.sol";
import {LaneWord} from "./types/MessageRecords.sol";

/// @dev Whether a lane and its GMPs are open: who is on the other side, what is paused, and whether a message's time is over.
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
        if (table.mayLanesBeClosedAt(block.timestamp)) {
            uint48 pausedUntil = lane.pausedUntil;
            if (block.timestamp < pausedUntil) revert ILanePolicy.LanePaused(chain, pausedUntil);
        }
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

    function _isPeer(uint64 chain, bytes32 router) internal view returns (bool) {
        return uint256(router) >> 160 == 0 && _knownPeers[chain][router.toAddress()];
    }

    /// @dev Whether the time of a message has run out. A message without a time to live costs the same at any time, so that an
    ///      estimate of gas holds in a later block.
    function _hasExpired(Message memory message) internal view returns (bool) {
        uint32 ttl = message.ttl;
        if (ttl == 0) return false;
        // Of 65 bits at most.
        unchecked {
            return block.timestamp > uint256(message.sentAt) + ttl;
        }
    }

    function _isPaused(Gmp gmp, GmpSet paused) private view returns (bool) {
        return paused.contains(gmp) && block.timestamp < _adapterSlots[gmp].pausedUntil;
    }
}
