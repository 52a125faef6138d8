// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev A transport's stable number, 1…16. Never an address: receipts outlive the adapters that brought them.
type Gmp is uint8;

/// @dev A set of GMPs in which bit `n - 1` stands for GMP `n`.
type GmpSet is uint16;

using {equal as ==, different as !=, alone} for Gmp global;
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

/// @dev The set that holds only `gmp`; reverts unless 1 ≤ gmp ≤ 16, so no other function has to check it.
function alone(Gmp gmp) pure returns (GmpSet) {
    // Zero becomes the greatest number there is.
    unchecked {
        uint256 bit = uint256(Gmp.unwrap(gmp)) - 1;
        if (bit >= Gmp.unwrap(HIGHEST_GMP)) revert InvalidGmp(gmp);
        return GmpSet.wrap(uint16(1 << bit));
    }
}

library GmpSetLibrary {
    function with(GmpSet set, Gmp gmp) internal pure returns (GmpSet) {
        return set.unite(gmp.alone());
    }

    function without(GmpSet set, Gmp gmp) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(set) & ~GmpSet.unwrap(gmp.alone()));
    }

    function unite(GmpSet a, GmpSet b) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(a) | GmpSet.unwrap(b));
    }

    function intersect(GmpSet a, GmpSet b) internal pure returns (GmpSet) {
        return GmpSet.wrap(GmpSet.unwrap(a) & GmpSet.unwrap(b));
    }

    function contains(GmpSet set, Gmp gmp) internal pure returns (bool) {
        return set.intersect(gmp.alone()) != NO_GMPS;
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
