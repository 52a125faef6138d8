// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev A transport's stable number, 1…16. Never an address: receipts outlive the adapters that brought them.
type Gmp is uint8;

/// @dev A set of GMPs in which bit `n - 1` stands for GMP `n`.
type GmpSet is uint16;

/// @dev One epoch per GMP, eight bits each. A GMP's epoch grows when its adapter is revoked.
type Epochs is uint128;

/// @dev The state of all GMPs, in one slot. From the lowest bit:
///      16 bits: the GMPs that are enabled.
///      16 bits: the GMPs that may be paused; only for them the time has to be looked up.
///      128 bits: the epochs.
///      8 bits: in the copy that each adapter has, the adapter's own GMP.
///      48 bits: when the last of the pauses ends.
type GmpTable is uint256;

using {equal as ==, different as !=, toSet} for Gmp global;
using {equalSets as ==, differentSets as !=} for GmpSet global;
using GmpSetLibrary for GmpSet global;
using EpochsLibrary for Epochs global;
using GmpTableLibrary for GmpTable global;

Gmp constant HIGHEST_GMP = Gmp.wrap(16);
Gmp constant NO_GMP = Gmp.wrap(0);
GmpSet constant NO_GMPS = GmpSet.wrap(0);
GmpSet constant ALL_GMPS = GmpSet.wrap(type(uint16).max);

/// @dev What an address has that is no GMP's adapter.
GmpTable constant NO_TABLE = GmpTable.wrap(0);

/// @notice The number does not name a GMP.
error InvalidGmp(Gmp gmp);

/// @notice The GMP's adapters were revoked 255 times; it can't get another.
error EpochsExhausted(Gmp gmp);

function equal(Gmp a, Gmp b) pure returns (bool) {
    return Gmp.unwrap(a) == Gmp.unwrap(b);
}

function different(Gmp a, Gmp b) pure returns (bool) {
    return Gmp.unwrap(a) != Gmp.unwrap(b);
}

function equalSets(GmpSet a, GmpSet b) pure returns (bool) {
    return GmpSet.unwrap(a) == GmpSet.unwrap(b);
}

function differentSets(GmpSet a, GmpSet b) pure returns (bool) {
    return GmpSet.unwrap(a) != GmpSet.unwrap(b);
}

/// @dev The set that holds only `gmp`; reverts unless 1 ≤ gmp ≤ 16, so no other function has to check it.
function toSet(Gmp gmp) pure returns (GmpSet) {
    // Zero becomes the greatest number there is.
    unchecked {
        uint256 bit = uint256(Gmp.unwrap(gmp)) - 1;
        if (bit >= Gmp.unwrap(HIGHEST_GMP)) revert InvalidGmp(gmp);
        return GmpSet.wrap(uint16(1 << bit));
    }
}

library GmpSetLibrary {
    function with(GmpSet set, Gmp gmp) internal pure returns (GmpSet) {
        return set.unite(gmp.toSet());
    }

    function without(GmpSet set, Gmp gmp) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(set) & ~GmpSet.unwrap(gmp.toSet()));
    }

    function unite(GmpSet a, GmpSet b) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(a) | GmpSet.unwrap(b));
    }

    function intersect(GmpSet a, GmpSet b) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(a) & GmpSet.unwrap(b));
    }

    function contains(GmpSet set, Gmp gmp) internal pure returns (bool) {
        return set.intersect(gmp.toSet()) != NO_GMPS;
    }

    function count(GmpSet set) internal pure returns (uint8 members) {
        uint256 rest = GmpSet.unwrap(set);
        // Kernighan: each step clears the lowest bit that is set.
        unchecked {
            for (; rest != 0; ++members) {
                rest &= rest - 1;
            }
        }
    }
}

library EpochsLibrary {
    function epochOf(Epochs epochs, Gmp gmp) internal pure returns (uint8) {
        return uint8(Epochs.unwrap(epochs) >> _shift(gmp));
    }

    /// @dev Reverts unless the GMP has an epoch left to be revoked in: revoking itself must never fail.
    function requireRevocable(Epochs epochs, Gmp gmp) internal pure {
        if (epochOf(epochs, gmp) == type(uint8).max) revert EpochsExhausted(gmp);
    }

    /// @dev The epochs with `gmp`'s grown by one; {requireRevocable} held when the GMP got its adapter.
    function bump(Epochs epochs, Gmp gmp) internal pure returns (Epochs) {
        return Epochs.wrap(Epochs.unwrap(epochs) + (uint128(1) << _shift(gmp)));
    }

    /// @dev The epochs with `gmp`'s taken from `current`.
    function adopt(Epochs epochs, Epochs current, Gmp gmp) internal pure returns (Epochs) {
        uint128 mask = uint128(type(uint8).max) << _shift(gmp);
        return Epochs.wrap((Epochs.unwrap(epochs) & ~mask) | (Epochs.unwrap(current) & mask));
    }

    function _shift(Gmp gmp) private pure returns (uint128) {
        // Numbers begin at 1.
        unchecked {
            return 8 * (uint128(Gmp.unwrap(gmp)) - 1);
        }
    }
}

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

    /// @dev The GMP whose adapter has this copy; none in the original.
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

    /// @dev The copy for the adapter of `owner`; the table itself names none.
    function copyFor(GmpTable table, Gmp owner) internal pure returns (GmpTable) {
        return GmpTable.wrap(GmpTable.unwrap(table) | (uint256(Gmp.unwrap(owner)) << GMP_SHIFT));
    }
}
