// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpSet} from "./Gmp.sol";

/// @dev What the source keeps of a message, in one slot; the id binds all the rest. From the lowest bit: 160 the sender,
///      32 the number of retries, 16 the GMPs that an unfunded message waits for, and three flags.
type SentMessage is uint256;

using SentMessageLibrary for SentMessage global;

library SentMessageLibrary {
    uint256 private constant ATTEMPTS_SHIFT = 160;
    uint256 private constant GMPS_SHIFT = 192;
    uint256 private constant RETRIABLE = 1 << 208;
    uint256 private constant UNFUNDED = 1 << 209;
    uint256 private constant CANCELLED = 1 << 210;

    function retriableBy(address account) internal pure returns (SentMessage) {
        return SentMessage.wrap(uint160(account) | RETRIABLE);
    }

    function unfundedOf(address account, GmpSet waiting, bool retriable) internal pure returns (SentMessage) {
        uint256 bits = uint160(account) | (uint256(GmpSet.unwrap(waiting)) << GMPS_SHIFT) | UNFUNDED;
        return SentMessage.wrap(retriable ? bits | RETRIABLE : bits);
    }

    function sender(SentMessage sent) internal pure returns (address) {
        return address(uint160(SentMessage.unwrap(sent)));
    }

    function attempts(SentMessage sent) internal pure returns (uint32) {
        return uint32(SentMessage.unwrap(sent) >> ATTEMPTS_SHIFT);
    }

    /// @dev The GMPs that an unfunded message is to be sent over.
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
        return SentMessage.wrap(SentMessage.unwrap(sent) + (1 << ATTEMPTS_SHIFT));
    }

    function cancelled(SentMessage sent) internal pure returns (SentMessage) {
        return SentMessage.wrap(SentMessage.unwrap(sent) | CANCELLED);
    }
}
