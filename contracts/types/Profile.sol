// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpSet} from "./Gmp.sol";
import {Kind} from "./Message.sol";

/// @dev How often a message is delivered. The destination's router executes it once in any case.
enum Semantics {
    AT_LEAST_ONCE
}

/// @dev What keeps a message from being applied twice. Beyond its id, the recipient's guards do.
enum Idempotency {
    MESSAGE_ID,
    MESSAGE_ID_PLUS_STATE_HASH,
    MESSAGE_ID_PLUS_NONCE
}

/// @dev What a sender asks of relayers in place of its messages' kind; one slot. Relayers bound it (docs/operate/relayer.md).
struct DeliveryChoice {
    /// @dev False in what nobody has chosen.
    bool chosen;
    Semantics semantics;
    Idempotency idempotency;
    uint32 maxRetries;
    uint32 baseBackoffMs;
    uint32 maxBackoffMs;
    bool deadLetter;
}

/// @dev How an ERC-7786 sender's messages travel when it does not say; one slot.
struct Profile {
    GmpSet gmps;
    uint8 quorum;
    uint64 gasLimit;
    uint32 ttl;
    Kind kind;
    bool retriable;
    /// @dev The most that each GMP may ask for a message, in gwei; 0 stands for the most that the router pays. A GMP that asks for
    ///      more is left out.
    uint40 maxFeeGwei;
}
