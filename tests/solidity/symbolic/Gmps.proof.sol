// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet, NO_GMPS} from "../../../contracts/types/Gmp.sol";
import {Symbolic} from "./Symbolic.sol";

/// @dev Sets of GMPs: what a quorum is counted with.
contract GmpProofs is Symbolic {
    function check_CountIsTheNumberOfDistinctGmps(Gmp a, Gmp b, Gmp c) public pure {
        _assertCountsDistinct(_count, a, b, c);
    }

    function control_CountIsTheNumberOfDistinctGmps(Gmp a, Gmp b, Gmp c) public pure {
        _assertCountsDistinct(_countOnceTooOften, a, b, c);
    }

    function check_CountIsTheNumberOfBits(GmpSet set) public pure {
        assert(_count(set) == _bits(set));
    }

    function control_CountIsTheNumberOfBits(GmpSet set) public pure {
        assert(_countLowBits(set) == _bits(set));
    }

    function check_OnlyTheNamedGmpEntersAndLeavesASet(GmpSet set, Gmp gmp, Gmp other) public pure {
        assert(set.with(gmp).contains(other) == (gmp == other || set.contains(other)));
        assert(set.without(gmp).contains(other) == (gmp != other && set.contains(other)));
    }

    function control_OnlyTheNamedGmpEntersAndLeavesASet(GmpSet set, Gmp gmp, Gmp other) public pure {
        GmpSet toggled = GmpSet.wrap(GmpSet.unwrap(set) ^ GmpSet.unwrap(NO_GMPS.with(gmp)));
        assert(toggled.contains(other) == (gmp == other || set.contains(other)));
    }

    function check_NumbersThatNameNoGmpAreRefused(Gmp gmp) public view {
        (bool accepted,) = address(this).staticcall(abi.encodeCall(this.setOf, (gmp)));
        assert(accepted == (Gmp.unwrap(gmp) >= 1 && Gmp.unwrap(gmp) <= 16));
    }

    function control_NumbersThatNameNoGmpAreRefused(Gmp gmp) public view {
        (bool accepted,) = address(this).staticcall(abi.encodeCall(this.setWithoutCheck, (gmp)));
        assert(accepted == (Gmp.unwrap(gmp) >= 1 && Gmp.unwrap(gmp) <= 16));
    }

    function setOf(Gmp gmp) external pure returns (GmpSet) {
        return NO_GMPS.with(gmp);
    }

    function setWithoutCheck(Gmp gmp) external pure returns (GmpSet) {
        unchecked {
            return GmpSet.wrap(uint16(1 << (Gmp.unwrap(gmp) - 1)));
        }
    }

    function _assertCountsDistinct(function(GmpSet) internal pure returns (uint8) countOf, Gmp a, Gmp b, Gmp c)
        private
        pure
    {
        uint8 distinct = a == b ? (b == c ? 1 : 2) : (c == a || c == b ? 2 : 3);
        assert(countOf(NO_GMPS.with(a).with(b).with(c)) == distinct);
    }

    function _count(GmpSet set) private pure returns (uint8) {
        return set.count();
    }

    /// @dev As if a GMP that delivered twice counted twice.
    function _countOnceTooOften(GmpSet set) private pure returns (uint8) {
        return set.count() < 3 ? set.count() + 1 : 3;
    }

    function _countLowBits(GmpSet set) private pure returns (uint8) {
        return GmpSet.wrap(GmpSet.unwrap(set) & 0x7fff).count();
    }

    function _bits(GmpSet set) private pure returns (uint8 bits) {
        for (uint256 index; index < 16; ++index) {
            bits += uint8((GmpSet.unwrap(set) >> index) & 1);
        }
    }
}
