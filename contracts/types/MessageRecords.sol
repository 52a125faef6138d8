// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Epochs, Gmp, GmpSet} from "./Gmp.sol";

/// @dev The source's record of a message, in one slot; the id commits to everything else. From the lowest bit: 160 for the
///      sender, 32 for the number of retries, 16 for the GMPs that are still to be funded, three flags, and 40 for the maximum
///      fee of each of these GMPs, in gwei.
type SentMessage is uint256;

/// @dev The state of a message on its destination. All but NONE are final.
enum Execution {
    NONE,
    EXECUTED,
    EXPIRED,
    CANCELLED
}

/// @dev The destination's record of a message, in one slot. From the lowest bit: 16 for the GMPs that delivered, 128 for the
///      epochs in which they did, 8 for the {Execution}.
type Receipts is uint256;

/// @dev The number of messages executed from a lane (the lower 64 bits), and the sum of their ids mod 2^192 (the rest). An index
///      of the lane must have the same totals. The checksum detects loss; it is not a proof against an account that can choose
///      ids.
type LaneTotal is uint256;

/// @dev The same for messages sent: the count in the lower 40 bits, the sum mod 2^32 in the rest. It is small enough to fit in
///      the slot of the lane's rules, which a send reads anyway (docs/decisions/0004).
type SentTotal is uint72;

/// @dev The part of a lane that every send reads and writes, in one slot. From the lowest bit: 160 for the router to which new
///      messages go, or zero; 8 for the minimum quorum of recipients without a policy; 72 for the total of messages sent. A
///      single word instead of three struct members saves 200 gas per send: it is read once, and written without being read
///      again.
type LaneWord is uint256;

using SentMessageLibrary for SentMessage global;
using ReceiptsLibrary for Receipts global;
using LaneTotalLibrary for LaneTotal global;
using SentTotalLibrary for SentTotal global;
using LaneWordLibrary for LaneWord global;

library SentMessageLibrary {
    uint256 private constant ATTEMPTS_SHIFT = 160;
    uint256 private constant GMPS_SHIFT = 192;
    uint256 private constant RETRIABLE = 1 << 208;
    uint256 private constant UNFUNDED = 1 << 209;
    uint256 private constant CANCELLED = 1 << 210;
    uint256 private constant MAX_FEE_SHIFT = 211;

    function retriableBy(address account) internal pure returns (SentMessage) {
        return SentMessage.wrap(uint160(account) | RETRIABLE);
    }

    /// @param mostGwei The maximum fee of each GMP; 0 stands for the largest possible value.
    function unfundedOf(address account, GmpSet waiting, bool retriable, uint40 mostGwei)
        internal
        pure
        returns (SentMessage)
    {
        uint256 bits = uint160(account) | (uint256(GmpSet.unwrap(waiting)) << GMPS_SHIFT) | UNFUNDED;
        bits |= uint256(mostGwei) << MAX_FEE_SHIFT;
        return SentMessage.wrap(retriable ? bits | RETRIABLE : bits);
    }

    /// @dev The record after a payment with which all the GMPs except `left` accepted the message.
    function fundedBut(SentMessage sent, GmpSet left) internal pure returns (SentMessage) {
        uint256 others = SentMessage.unwrap(sent) & ~(uint256(type(uint16).max) << GMPS_SHIFT) & ~UNFUNDED;
        return SentMessage.wrap(others | (uint256(GmpSet.unwrap(left)) << GMPS_SHIFT));
    }

    /// @dev The maximum fee of each GMP when the message is funded, in wei.
    function maxFee(SentMessage sent) internal pure returns (uint256) {
        uint40 gwei_ = uint40(SentMessage.unwrap(sent) >> MAX_FEE_SHIFT);
        return uint256(gwei_ == 0 ? type(uint40).max : gwei_) * 1 gwei;
    }

    function sender(SentMessage sent) internal pure returns (address) {
        return address(uint160(SentMessage.unwrap(sent)));
    }

    function attempts(SentMessage sent) internal pure returns (uint32) {
        return uint32(SentMessage.unwrap(sent) >> ATTEMPTS_SHIFT);
    }

    /// @dev The GMPs over which the message is still to be sent once somebody pays.
    function gmps(SentMessage sent) internal pure returns (GmpSet) {
        return GmpSet.wrap(uint16(SentMessage.unwrap(sent) >> GMPS_SHIFT));
    }

    function isRetriable(SentMessage sent) internal pure returns (bool) {
        return SentMessage.unwrap(sent) & RETRIABLE != 0;
    }

    function isUnfunded(SentMessage sent) internal pure returns (bool) {
        return SentMessage.unwrap(sent) & UNFUNDED != 0;
    }

    function isCancelled(SentMessage sent) internal pure returns (bool) {
        return SentMessage.unwrap(sent) & CANCELLED != 0;
    }

    function withOneMoreAttempt(SentMessage sent) internal pure returns (SentMessage) {
        // The highest bits are unused.
        unchecked {
            return SentMessage.wrap(SentMessage.unwrap(sent) + (1 << ATTEMPTS_SHIFT));
        }
    }

    function cancelled(SentMessage sent) internal pure returns (SentMessage) {
        return SentMessage.wrap(SentMessage.unwrap(sent) | CANCELLED);
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

    /// @dev The GMPs whose receipts count: those in `eligible` that delivered in their current epoch.
    function valid(Receipts receipts, Epochs current, GmpSet eligible) internal pure returns (GmpSet) {
        uint16 counted = GmpSet.unwrap(delivered(receipts).intersect(eligible));
        uint128 differences = Epochs.unwrap(epochs(receipts)) ^ Epochs.unwrap(current);
        if (differences == 0 || counted == 0) return GmpSet.wrap(counted);
        for (uint256 index; index < 16; ++index) {
            if (uint8(differences >> (8 * index)) != 0) counted &= ~uint16(1 << index);
        }
        return GmpSet.wrap(counted);
    }

    /// @dev The record with the receipt of `gmp`, delivered in its current epoch.
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

library LaneTotalLibrary {
    function count(LaneTotal total) internal pure returns (uint64) {
        return uint64(LaneTotal.unwrap(total));
    }

    function sum(LaneTotal total) internal pure returns (uint192) {
        return uint192(LaneTotal.unwrap(total) >> 64);
    }

    /// @dev The total with one more id. The sum wraps around at 2^192; the count can never reach 2^64.
    function plus(LaneTotal total, bytes32 messageId) internal pure returns (LaneTotal) {
        unchecked {
            return LaneTotal.wrap(LaneTotal.unwrap(total) + (uint256(messageId) << 64) + 1);
        }
    }
}

library SentTotalLibrary {
    function count(SentTotal total) internal pure returns (uint64) {
        return uint40(SentTotal.unwrap(total));
    }

    /// @dev The nonce of the next message.
    function nextNonce(SentTotal total) internal pure returns (uint64) {
        unchecked {
            return count(total) + 1;
        }
    }

    function sum(SentTotal total) internal pure returns (uint32) {
        return uint32(SentTotal.unwrap(total) >> 40);
    }

    /// @dev The total with one more id. The sum wraps around at 2^32; even with a full block of messages every second, the count
    ///      takes decades to reach 2^40.
    function plus(SentTotal total, bytes32 messageId) internal pure returns (SentTotal) {
        unchecked {
            return SentTotal.wrap(SentTotal.unwrap(total) + (uint72(uint32(uint256(messageId))) << 40) + 1);
        }
    }
}

library LaneWordLibrary {
    uint256 private constant FLOOR_SHIFT = 160;
    uint256 private constant SENT_SHIFT = 168;

    function peer(LaneWord word) internal pure returns (address) {
        return address(uint160(LaneWord.unwrap(word)));
    }

    function floor(LaneWord word) internal pure returns (uint8) {
        return uint8(LaneWord.unwrap(word) >> FLOOR_SHIFT);
    }

    function sent(LaneWord word) internal pure returns (SentTotal) {
        return SentTotal.wrap(uint72(LaneWord.unwrap(word) >> SENT_SHIFT));
    }

    function withPeer(LaneWord word, address peer_) internal pure returns (LaneWord) {
        return LaneWord.wrap((LaneWord.unwrap(word) >> FLOOR_SHIFT << FLOOR_SHIFT) | uint160(peer_));
    }

    function withFloor(LaneWord word, uint8 floor_) internal pure returns (LaneWord) {
        uint256 others = LaneWord.unwrap(word) & ~(uint256(type(uint8).max) << FLOOR_SHIFT);
        return LaneWord.wrap(others | (uint256(floor_) << FLOOR_SHIFT));
    }

    function withSent(LaneWord word, SentTotal total) internal pure returns (LaneWord) {
        uint256 others = LaneWord.unwrap(word) & ((1 << SENT_SHIFT) - 1);
        return LaneWord.wrap(others | (uint256(SentTotal.unwrap(total)) << SENT_SHIFT));
    }
}
