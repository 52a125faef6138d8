// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev A transport's permanent number, 1…16. Never an address, because receipts outlive the adapters that delivered them.
type Gmp is uint8;

/// @dev A set of GMPs in which bit `n - 1` stands for GMP `n`.
type GmpSet is uint16;

/// @dev One epoch per GMP, eight bits each. Revoking a GMP's adapter increments its epoch.
type Epochs is uint128;

/// @dev The word that every send and every delivery reads first, in one slot. Days are counted since 1970. From the lowest bit:
///      16 bits for the enabled GMPs; 16 bits for the GMPs that may be paused, whose pauses must be read; 128 bits for the
///      epochs; 8 bits for the adapter's own GMP, in each adapter's copy; 16 bits for the day on which the last GMP pause ends;
///      16 bits for the last day on which a lane may be closed, by a pause or a revoked router; 48 bits, three per GMP, for the
///      number under which the router created its adapter, or 0; and in an account's word, the highest bit tells whether the
///      account ever set a policy.
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

/// @notice The number does not name a GMP.
error InvalidGmp(Gmp gmp);

/// @notice The GMP's adapters were revoked 255 times, so it can't get another one.
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

/// @dev The set that holds only `gmp`. Reverts unless 1 ≤ gmp ≤ 16, so that no other function has to check that.
function toSet(Gmp gmp) pure returns (GmpSet) {
    // A number above sixteen exceeds the sixteen bits, and so does zero, which underflows to the largest shift.
    unchecked {
        uint16 member = uint16(1 << (uint256(Gmp.unwrap(gmp)) - 1));
        if (member == 0) revert InvalidGmp(gmp);
        return GmpSet.wrap(member);
    }
}

library GmpSetLibrary {
    function with(GmpSet set, Gmp gmp) internal pure returns (GmpSet) {
        return set.unite(gmp.toSet());
    }

    function without(GmpSet set, Gmp gmp) internal pure returns (GmpSet) {
        return set.minus(gmp.toSet());
    }

    function minus(GmpSet set, GmpSet others) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(set) & ~GmpSet.unwrap(others));
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
        // Kernighan's method: each step clears the lowest set bit.
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

    /// @dev Reverts unless the GMP has an epoch left, so that revoking an adapter can never fail.
    function requireRevocable(Epochs epochs, Gmp gmp) internal pure {
        if (epochOf(epochs, gmp) == type(uint8).max) revert EpochsExhausted(gmp);
    }

    /// @dev The epochs with `gmp`'s incremented; {requireRevocable} was checked when the GMP got its adapter.
    function bump(Epochs epochs, Gmp gmp) internal pure returns (Epochs) {
        return Epochs.wrap(Epochs.unwrap(epochs) + (uint128(1) << _shift(gmp)));
    }

    /// @dev The epochs with `gmp`'s replaced by the one in `current`.
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
    uint256 private constant PAUSES_DAY_SHIFT = 168;
    uint256 private constant LANES_DAY_SHIFT = 184;
    uint256 private constant CREATED_SHIFT = 200;
    uint256 private constant CREATED_MASK = 7;
    uint256 private constant HAS_POLICY = 1 << 255;

    function enabled(GmpTable table) internal pure returns (GmpSet) {
        return GmpSet.wrap(uint16(GmpTable.unwrap(table)));
    }

    /// @dev The GMPs that may be paused at `time`. After the day of the last pause there are none, so past pauses cost nothing.
    function pausedAt(GmpTable table, uint256 time) internal pure returns (GmpSet) {
        return time / 1 days <= pausesDay(table) ? paused(table) : NO_GMPS;
    }

    function paused(GmpTable table) internal pure returns (GmpSet) {
        return GmpSet.wrap(uint16(GmpTable.unwrap(table) >> PAUSED_SHIFT));
    }

    /// @dev The day on which the last GMP pause ends.
    function pausesDay(GmpTable table) internal pure returns (uint16) {
        return uint16(GmpTable.unwrap(table) >> PAUSES_DAY_SHIFT);
    }

    /// @dev Whether any lane may be paused at `time`, or any router was ever revoked. Otherwise no lane has to be read.
    function mayLanesBeClosedAt(GmpTable table, uint256 time) internal pure returns (bool) {
        return time / 1 days <= lanesDay(table);
    }

    function lanesDay(GmpTable table) internal pure returns (uint16) {
        return uint16(GmpTable.unwrap(table) >> LANES_DAY_SHIFT);
    }

    /// @dev The number under which the router created the GMP's adapter, 1…7; 0 if it did not create it, or if there is none.
    function createdAs(GmpTable table, Gmp member) internal pure returns (uint8) {
        return uint8((GmpTable.unwrap(table) >> _createdShift(member)) & CREATED_MASK);
    }

    /// @dev The table as if the router had created no adapter.
    function withoutCreated(GmpTable table) internal pure returns (GmpTable) {
        return GmpTable.wrap(GmpTable.unwrap(table) & ~(((1 << 48) - 1) << CREATED_SHIFT));
    }

    function epochs(GmpTable table) internal pure returns (Epochs) {
        return Epochs.wrap(uint128(GmpTable.unwrap(table) >> EPOCHS_SHIFT));
    }

    /// @dev The GMP whose adapter has this copy; none in the original, and none in the word of an account that is not an adapter.
    function gmp(GmpTable table) internal pure returns (Gmp) {
        return Gmp.wrap(uint8(GmpTable.unwrap(table) >> GMP_SHIFT));
    }

    /// @dev Whether the account with this word ever set a policy. Only then do its policies have to be read.
    function hasPolicy(GmpTable table) internal pure returns (bool) {
        return GmpTable.unwrap(table) & HAS_POLICY != 0;
    }

    function withEnabled(GmpTable table, GmpSet gmps) internal pure returns (GmpTable) {
        return GmpTable.wrap((GmpTable.unwrap(table) & ~uint256(type(uint16).max)) | GmpSet.unwrap(gmps));
    }

    function withPaused(GmpTable table, GmpSet gmps, uint16 day) internal pure returns (GmpTable) {
        uint256 others = GmpTable.unwrap(table) & ~(uint256(type(uint16).max) << PAUSED_SHIFT);
        others &= ~(uint256(type(uint16).max) << PAUSES_DAY_SHIFT);
        return
            GmpTable.wrap(others | (uint256(GmpSet.unwrap(gmps)) << PAUSED_SHIFT) | (uint256(day) << PAUSES_DAY_SHIFT));
    }

    /// @dev The table in which lanes may be closed up to that day, or up to its current day if that is later.
    function withLanesClosed(GmpTable table, uint16 day) internal pure returns (GmpTable) {
        if (day <= lanesDay(table)) return table;
        uint256 others = GmpTable.unwrap(table) & ~(uint256(type(uint16).max) << LANES_DAY_SHIFT);
        return GmpTable.wrap(others | (uint256(day) << LANES_DAY_SHIFT));
    }

    function withEpochs(GmpTable table, Epochs current) internal pure returns (GmpTable) {
        uint256 others = GmpTable.unwrap(table) & ~(uint256(type(uint128).max) << EPOCHS_SHIFT);
        return GmpTable.wrap(others | (uint256(Epochs.unwrap(current)) << EPOCHS_SHIFT));
    }

    function withCreatedAs(GmpTable table, Gmp member, uint8 number) internal pure returns (GmpTable) {
        uint256 others = GmpTable.unwrap(table) & ~(CREATED_MASK << _createdShift(member));
        return GmpTable.wrap(others | (uint256(number) << _createdShift(member)));
    }

    /// @dev The copy for the adapter of `owner`, whose current word is `word`; the table itself names no owner.
    function copyFor(GmpTable table, Gmp owner, GmpTable word) internal pure returns (GmpTable) {
        uint256 kept = GmpTable.unwrap(word.withoutCopy());
        return GmpTable.wrap(GmpTable.unwrap(table) | (uint256(Gmp.unwrap(owner)) << GMP_SHIFT) | kept);
    }

    /// @dev The word of an account that is not an adapter.
    function withoutCopy(GmpTable word) internal pure returns (GmpTable) {
        return GmpTable.wrap(GmpTable.unwrap(word) & HAS_POLICY);
    }

    function withPolicy(GmpTable word) internal pure returns (GmpTable) {
        return GmpTable.wrap(GmpTable.unwrap(word) | HAS_POLICY);
    }

    function _createdShift(Gmp member) private pure returns (uint256) {
        // Numbers begin at 1. Sixteen times three bits are far from an overflow.
        unchecked {
            return CREATED_SHIFT - 3 + 3 * uint256(Gmp.unwrap(member));
        }
    }
}
