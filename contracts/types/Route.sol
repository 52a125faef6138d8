// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "./Gmp.sol";
import {Kind, Message} from "./Message.sol";

/// @dev A GMP to send over, and the fee in wei that its adapter gets.
struct GmpFee {
    Gmp gmp;
    uint256 fee;
}

/// @dev Why a GMP did not take a message: what its adapter reverted with, cut at 256 bytes.
struct DispatchFailure {
    Gmp gmp;
    bytes reason;
}

/// @dev A new message, and how to send it. The sum of the fees is the call's value.
struct Route {
    uint64 destinationChain;
    bytes32 recipient;
    bytes payload;
    uint64 gasLimit;
    uint32 ttl;
    Kind kind;
    uint8 quorum;
    bytes32 replaces;
    /// @dev Whether {retryRoute} may send it again; costs one storage slot.
    bool retriable;
    /// @dev How many GMPs must take it for the call to succeed; 0 stands for all of them. What is not retriable needs its
    ///      quorum at least.
    uint8 minDispatched;
    GmpFee[] gmps;
    /// @dev Who gets back the fee of a GMP that did not take the message.
    address refundTo;
}

/// @dev The same message again, over any set of GMPs.
struct Retry {
    bytes32 messageId;
    Message message;
    /// @dev How many GMPs must take it for the call to succeed; 0 stands for all of them.
    uint8 minDispatched;
    GmpFee[] gmps;
    address refundTo;
}
