// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {Kind, Message} from "../../../contracts/types/Message.sol";

/// @dev Messages with anything in them.
abstract contract AnyMessage is Test {
    /// @dev The fuzzer fills enums with any byte, so it fills this instead.
    struct RawMessage {
        bytes32[4] words;
        uint64[5] numbers;
        uint32 ttl;
        uint8 kind;
        uint8 quorum;
        bytes32 replaces;
        bytes payload;
    }

    function _cooked(RawMessage memory raw) internal pure returns (Message memory) {
        return Message({
            sourceChain: raw.numbers[0],
            sourceRouter: raw.words[0],
            sender: raw.words[1],
            nonce: raw.numbers[1],
            destinationChain: raw.numbers[2],
            destinationRouter: raw.words[2],
            recipient: raw.words[3],
            gasLimit: raw.numbers[3],
            sentAt: raw.numbers[4],
            ttl: raw.ttl,
            kind: Kind(raw.kind % (uint8(type(Kind).max) + 1)),
            quorum: raw.quorum,
            replaces: raw.replaces,
            payload: raw.payload
        });
    }
}
