// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RouterState} from "./RouterState.sol";
import {ILanePolicy} from "./interfaces/ILanePolicy.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Gmp, GmpSet, GmpTable, HIGHEST_GMP, NO_GMPS} from "./types/Gmp.sol";
import {Message} from "./types/Message.sol";
import {LaneWord} from "./types/MessageRecords.sol";

/// @dev Checks whether a lane and its GMPs are open: peer, pauses and the message's expiry.
abstract contract LanePolicy is RouterState {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev Reverts if the lane is paused, or if its remote router was never a peer. The current peer costs no further storage
    ///      read.
    function _requireLane(GmpTable table, uint64 chain, bytes32 router) internal view returns (LaneWord word) {
        LaneState storage lane = _lanes[chain];
        word = lane.word;
        address peer = word.peer();
        bool isCurrent = peer.toBytes32() == router && peer != address(0);
        if (!isCurrent && !_isPeer(chain, router)) revert ILanePolicy.UnknownPeer(chain, router);
        _requireNotPaused(table, chain, lane);
    }

    /// @dev Reads a lane's own pause only until the last day on which any lane is paused.
    function _requireNotPaused(GmpTable table, uint64 chain, LaneState storage lane) internal view {
        if (table.mayLanesBeClosedAt(block.timestamp)) {
            uint48 pausedUntil = lane.pausedUntil;
            if (block.timestamp < pausedUntil) revert ILanePolicy.LanePaused(chain, pausedUntil);
        }
    }

    function _requireNotPaused(Gmp gmp, uint48 pausedUntil) internal view {
        if (block.timestamp < pausedUntil) revert ILanePolicy.GmpPaused(gmp, pausedUntil);
    }

    /// @dev Returns the GMPs that are enabled and not paused.
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

    /// @dev Returns whether a message has expired. A message without a TTL costs the same gas at any time, so that a gas estimate
    ///      holds in a later block.
    function _hasExpired(Message memory message) internal view returns (bool) {
        uint32 ttl = message.ttl;
        if (ttl == 0) return false;
        // The sum has at most 65 bits.
        unchecked {
            return block.timestamp > uint256(message.sentAt) + ttl;
        }
    }

    function _isPaused(Gmp gmp, GmpSet paused) private view returns (bool) {
        return paused.contains(gmp) && block.timestamp < _adapterSlots[gmp].pausedUntil;
    }
}
