// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpSet} from "./Gmp.sol";
import {Kind} from "./Message.sol";

/// @dev The delivery semantics of a message. The destination's router executes it once in any case.
enum Semantics {
    AT_LEAST_ONCE
}

/// @dev The mechanism that keeps a message from being applied twice. All but its id are guards of the recipient.
enum Idempotency {
    MESSAGE_ID,
    MESSAGE_ID_PLUS_STATE_HASH,
    MESSAGE_ID_PLUS_NONCE
}

/// @dev A sender's request to relayers, which replaces the policy of its messages' kind; one slot. Relayers bound it
///      (docs/operate/relayer.md).
struct DeliveryChoice {
    /// @dev False if no choice was made.
    bool chosen;
    Semantics semantics;
    Idempotency idempotency;
    uint32 maxRetries;
    uint32 baseBackoffMs;
    uint32 maxBackoffMs;
    bool deadLetter;
}

/// @dev The options of an ERC-7786 sender's messages without attributes; one slot.
struct Profile {
    GmpSet gmps;
    uint8 quorum;
    uint64 gasLimit;
    uint32 ttl;
    Kind kind;
    bool retriable;
    /// @dev The maximum fee of each GMP per message, in gwei; 0 stands for the router's own maximum. A GMP that charges more is
    ///      skipped.
    uint40 maxFeeGwei;
}
