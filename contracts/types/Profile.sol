// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpSet} from "./Gmp.sol";
import {Kind} from "./Message.sol";

/// @dev How an ERC-7786 sender's messages travel when it does not say; one slot.
struct Profile {
    GmpSet gmps;
    uint8 quorum;
    uint64 gasLimit;
    uint32 ttl;
    Kind kind;
    bool retriable;
}
