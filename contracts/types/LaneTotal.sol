// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev How many messages went one way over a lane (the lower 64 bits), and the sum of their ids mod 2^192 (the rest): what
///      an index of the lane must add up to. A checksum against loss, not a proof against somebody who can choose ids.
type LaneTotal is uint256;

using LaneTotalLibrary for LaneTotal global;

library LaneTotalLibrary {
    function count(LaneTotal total) internal pure returns (uint64) {
        return uint64(LaneTotal.unwrap(total));
    }

    /// @dev The nonce of the message that is created next.
    function nextNonce(LaneTotal total) internal pure returns (uint64) {
        unchecked {
            return count(total) + 1;
        }
    }

    function sum(LaneTotal total) internal pure returns (uint192) {
        return uint192(LaneTotal.unwrap(total) >> 64);
    }

    /// @dev The total with one more id. The sum wraps around at 2^192; the count does not live to see 2^64.
    function plus(LaneTotal total, bytes32 messageId) internal pure returns (LaneTotal) {
        unchecked {
            return LaneTotal.wrap(LaneTotal.unwrap(total) + (uint256(messageId) << 64) + 1);
        }
    }
}
