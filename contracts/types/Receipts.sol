// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet} from "./Gmp.sol";

/// @dev How far a message has come on its destination. All but NONE are final.
enum Execution {
    NONE,
    EXECUTED,
    EXPIRED,
    CANCELLED
}

/// @dev One epoch per GMP, eight bits each. A GMP's epoch grows when its adapter is revoked.
type Epochs is uint128;

/// @dev Everything the destination remembers of a message, in one slot. From the lowest bit: 16 the GMPs that delivered,
///      128 the epochs in which they did, 8 the {Execution}.
type Receipts is uint256;

using EpochsLibrary for Epochs global;
using ReceiptsLibrary for Receipts global;

/// @notice The GMP's adapters were revoked 255 times; it can't get another.
error EpochsExhausted(Gmp gmp);

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

library ReceiptsLibrary {
    uint256 private constant EPOCHS_SHIFT = 16;
    uint256 private constant EXECUTION_SHIFT = 144;

    function delivered(Receipts receipts) internal pure returns (GmpSet) {
        return GmpSet.wrap(uint16(Receipts.unwrap(receipts)));
    }

    function epochs(Receipts receipts) internal pure returns (Epochs) {
        return Epochs.wrap(uint128(Receipts.unwrap(receipts) >> EPOCHS_SHIFT));
    }

    function execution(Receipts receipts) internal pure returns (Execution) {
        return Execution(uint8(Receipts.unwrap(receipts) >> EXECUTION_SHIFT));
    }

    /// @dev The GMPs whose receipts count: those of `eligible` that delivered in the epoch that is theirs now.
    function valid(Receipts receipts, Epochs current, GmpSet eligible) internal pure returns (GmpSet) {
        uint16 counted = GmpSet.unwrap(delivered(receipts).intersect(eligible));
        uint128 differences = Epochs.unwrap(epochs(receipts)) ^ Epochs.unwrap(current);
        if (differences == 0 || counted == 0) return GmpSet.wrap(counted);
        for (uint256 index; index < 16; ++index) {
            if (uint8(differences >> (8 * index)) != 0) counted &= ~uint16(1 << index);
        }
        return GmpSet.wrap(counted);
    }

    /// @dev With the receipt of `gmp`, delivered in its current epoch.
    function record(Receipts receipts, Gmp gmp, Epochs current) internal pure returns (Receipts) {
        uint256 bits = Receipts.unwrap(receipts) & ~(uint256(type(uint128).max) << EPOCHS_SHIFT);
        bits |= GmpSet.unwrap(delivered(receipts).with(gmp));
        return Receipts.wrap(bits | (uint256(Epochs.unwrap(epochs(receipts).adopt(current, gmp))) << EPOCHS_SHIFT));
    }

    function withExecution(Receipts receipts, Execution state) internal pure returns (Receipts) {
        uint256 others = Receipts.unwrap(receipts) & ~(uint256(type(uint8).max) << EXECUTION_SHIFT);
        return Receipts.wrap(others | (uint256(state) << EXECUTION_SHIFT));
    }
}
