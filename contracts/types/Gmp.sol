// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev A transport's stable number, 1…16. Never an address: receipts outlive the adapters that brought them.
type Gmp is uint8;

/// @dev A set of GMPs in which bit `n - 1` stands for GMP `n`.
type GmpSet is uint16;

using {equal as ==, different as !=} for Gmp global;
using {equalSets as ==, differentSets as !=} for GmpSet global;
using GmpSetLibrary for GmpSet global;

Gmp constant HIGHEST_GMP = Gmp.wrap(16);
Gmp constant NO_GMP = Gmp.wrap(0);
GmpSet constant NO_GMPS = GmpSet.wrap(0);
GmpSet constant ALL_GMPS = GmpSet.wrap(type(uint16).max);

/// @notice The number does not name a GMP.
error InvalidGmp(Gmp gmp);

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

library GmpSetLibrary {
    /// @dev The set that holds only `gmp`; reverts unless 1 ≤ gmp ≤ 16, so no other function has to check it.
    function only(Gmp gmp) internal pure returns (GmpSet) {
        uint8 number = Gmp.unwrap(gmp);
        if (number == 0 || number > Gmp.unwrap(HIGHEST_GMP)) revert InvalidGmp(gmp);
        return GmpSet.wrap(uint16(1 << (number - 1)));
    }

    function with(GmpSet set, Gmp gmp) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(set) | GmpSet.unwrap(only(gmp)));
    }

    function without(GmpSet set, Gmp gmp) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(set) & ~GmpSet.unwrap(only(gmp)));
    }

    function intersect(GmpSet a, GmpSet b) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(a) & GmpSet.unwrap(b));
    }

    function contains(GmpSet set, Gmp gmp) internal pure returns (bool) {
        return GmpSet.unwrap(set) & GmpSet.unwrap(only(gmp)) != 0;
    }

    function count(GmpSet set) internal pure returns (uint8 members) {
        uint16 rest = GmpSet.unwrap(set);
        // Kernighan: each step clears the lowest bit that is set.
        for (; rest != 0; ++members) {
            rest &= rest - 1;
        }
    }
}
