// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet, NO_GMPS} from "./Gmp.sol";
import {Epochs} from "./Receipts.sol";

/// @dev How all GMPs stand, in one slot. From the lowest bit: 16 the GMPs that are enabled, 16 those that may be paused (only
///      for them the time has to be looked up), 128 the epochs, 8 that say, in the copy that each adapter has, which GMP
///      the adapter speaks for, and 48 when the last of the pauses ends.
type GmpTable is uint256;

using GmpTableLibrary for GmpTable global;

/// @dev What an address has that speaks for no GMP.
GmpTable constant NO_TABLE = GmpTable.wrap(0);

library GmpTableLibrary {
    uint256 private constant PAUSED_SHIFT = 16;
    uint256 private constant EPOCHS_SHIFT = 32;
    uint256 private constant GMP_SHIFT = 160;
    uint256 private constant PAUSES_END_SHIFT = 168;

    function enabled(GmpTable table) internal pure returns (GmpSet) {
        return GmpSet.wrap(uint16(GmpTable.unwrap(table)));
    }

    /// @dev The GMPs that may be paused at `time`; once the last pause is over, none: pauses that were cost nothing.
    function pausedAt(GmpTable table, uint256 time) internal pure returns (GmpSet) {
        return time < pausesEnd(table) ? paused(table) : NO_GMPS;
    }

    function paused(GmpTable table) internal pure returns (GmpSet) {
        return GmpSet.wrap(uint16(GmpTable.unwrap(table) >> PAUSED_SHIFT));
    }

    /// @dev When the last of the pauses ends, Unix seconds.
    function pausesEnd(GmpTable table) internal pure returns (uint48) {
        return uint48(GmpTable.unwrap(table) >> PAUSES_END_SHIFT);
    }

    function epochs(GmpTable table) internal pure returns (Epochs) {
        return Epochs.wrap(uint128(GmpTable.unwrap(table) >> EPOCHS_SHIFT));
    }

    /// @dev The GMP that the owner of this copy speaks for; none in the original.
    function gmp(GmpTable table) internal pure returns (Gmp) {
        return Gmp.wrap(uint8(GmpTable.unwrap(table) >> GMP_SHIFT));
    }

    function withEnabled(GmpTable table, GmpSet gmps) internal pure returns (GmpTable) {
        return GmpTable.wrap((GmpTable.unwrap(table) & ~uint256(type(uint16).max)) | GmpSet.unwrap(gmps));
    }

    function withPaused(GmpTable table, GmpSet gmps, uint48 end) internal pure returns (GmpTable) {
        uint256 others = GmpTable.unwrap(table) & ~(uint256(type(uint16).max) << PAUSED_SHIFT);
        others &= ~(uint256(type(uint48).max) << PAUSES_END_SHIFT);
        return
            GmpTable.wrap(others | (uint256(GmpSet.unwrap(gmps)) << PAUSED_SHIFT) | (uint256(end) << PAUSES_END_SHIFT));
    }

    function withEpochs(GmpTable table, Epochs current) internal pure returns (GmpTable) {
        uint256 others = GmpTable.unwrap(table) & ~(uint256(type(uint128).max) << EPOCHS_SHIFT);
        return GmpTable.wrap(others | (uint256(Epochs.unwrap(current)) << EPOCHS_SHIFT));
    }

    /// @dev The copy for an adapter that speaks for `speaker`; the table itself names none.
    function copyFor(GmpTable table, Gmp speaker) internal pure returns (GmpTable) {
        return GmpTable.wrap(GmpTable.unwrap(table) | (uint256(Gmp.unwrap(speaker)) << GMP_SHIFT));
    }
}
