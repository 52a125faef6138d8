// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Kind, Message} from "../types/Message.sol";
import {Route} from "../types/Route.sol";

/// @notice Words as they lie in calldata and in memory. Each function does what the compiler's own code would do, for less gas
///         (docs/decisions/0016); that it does is proven in tests/solidity/symbolic/Packing.proof.sol.
library Words {
    /// @dev The 32 bytes of `data` that begin at `offset`. The caller has made sure that they are there: a slice would check
    ///      that anew for each of a header's fields, and reading one would cost ten times as much.
    function wordAt(bytes calldata data, uint256 offset) internal pure returns (bytes32 word) {
        assembly ("memory-safe") {
            word := calldataload(add(data.offset, offset))
        }
    }

    /// @dev `message = source`, but for the payload, at a fifth of the cost: the compiler reads and checks member after member.
    function copyHeader(Message calldata source, Message memory message) internal pure {
        assembly ("memory-safe") {
            calldatacopy(message, source, 0x1a0)
            // Alone, the payload could be read from before the message or, as nothing, from far beyond the calldata's end.
            if shr(64, calldataload(add(source, 0x1a0))) { revert(0, 0) }
        }
        requireClean(message);
    }

    /// @dev Copies to a message what a request says of it, but for the payload.
    function copyRequest(Route calldata request, Message memory message) internal pure {
        assembly ("memory-safe") {
            calldatacopy(add(message, 0x80), request, 0x20) // destinationChain
            calldatacopy(add(message, 0xc0), add(request, 0x20), 0x20) // recipient
            calldatacopy(add(message, 0xe0), add(request, 0x60), 0x20) // gasLimit
            calldatacopy(add(message, 0x120), add(request, 0x80), 0x80) // ttl, kind, quorum, replaces
        }
        requireClean(message);
    }

    /// @dev Reverts, as the compiler's own code does, unless each member that is shorter than a word is a word padded with zeros.
    function requireClean(Message memory message) internal pure {
        uint256 lastKind = uint256(type(Kind).max);
        assembly ("memory-safe") {
            let numbers := or(mload(message), mload(add(message, 0x60))) // sourceChain, nonce
            numbers := or(numbers, mload(add(message, 0x80))) // destinationChain
            numbers := or(numbers, or(mload(add(message, 0xe0)), mload(add(message, 0x100)))) // gasLimit, sentAt
            let dirt := or(shr(64, numbers), shr(32, mload(add(message, 0x120)))) // ttl
            dirt := or(dirt, gt(mload(add(message, 0x140)), lastKind)) // kind
            if or(dirt, shr(8, mload(add(message, 0x160)))) { revert(0, 0) } // quorum
        }
    }

    /// @dev The envelope of a message, its members at the offsets that docs/formats.md gives.
    /// @param room Bytes left free in memory before it.
    function pack(uint8 version, bytes32 messageId, Message memory message, uint256 room)
        internal
        pure
        returns (bytes memory envelope)
    {
        assembly ("memory-safe") {
            envelope := add(mload(0x40), room)
            let at := add(envelope, 0x20)
            mstore8(at, version)
            mstore(add(at, 1), messageId)
            // Each number spills zeros to its right, where the next member is written.
            mstore(add(at, 33), shl(192, mload(message))) // sourceChain
            mcopy(add(at, 41), add(message, 0x20), 0x40) // sourceRouter, sender
            mstore(add(at, 105), shl(192, mload(add(message, 0x60)))) // nonce
            mstore(add(at, 113), shl(192, mload(add(message, 0x80)))) // destinationChain
            mcopy(add(at, 121), add(message, 0xa0), 0x40) // destinationRouter, recipient
            mstore(add(at, 185), shl(192, mload(add(message, 0xe0)))) // gasLimit
            mstore(add(at, 193), shl(192, mload(add(message, 0x100)))) // sentAt
            mstore(add(at, 201), shl(224, mload(add(message, 0x120)))) // ttl
            mstore8(add(at, 205), mload(add(message, 0x140))) // kind
            mstore8(add(at, 206), mload(add(message, 0x160))) // quorum
            mstore(add(at, 207), mload(add(message, 0x180))) // replaces
            let payload := mload(add(message, 0x1a0))
            let length := mload(payload)
            mcopy(add(at, 239), add(payload, 0x20), length)
            mstore(envelope, add(239, length))
            let end := add(at, add(239, length))
            mstore(end, 0)
            // Not before the word of zeros ends: the padding of a call need not end where a word of memory does.
            mstore(0x40, and(add(end, 0x3f), not(0x1f)))
        }
    }

    /// @dev `abi.encodeWithSelector(selector, destinationChain, destinationRouter, envelope, gasLimit, refundTo)`.
    /// @return data The call.
    /// @return envelope What {pack} makes; it lies in the call, so that it is in memory once.
    function packCall(bytes4 selector, uint8 version, bytes32 messageId, Message memory message, address refundTo)
        internal
        pure
        returns (bytes memory data, bytes memory envelope)
    {
        // Its length, the selector and five words come before the envelope.
        envelope = pack(version, messageId, message, 0xc4);
        assembly ("memory-safe") {
            data := sub(envelope, 0xc4)
            mstore(data, add(0xc4, and(add(mload(envelope), 0x1f), not(0x1f))))
            mstore(add(data, 0x20), selector)
            mstore(add(data, 0x24), mload(add(message, 0x80)))
            mstore(add(data, 0x44), mload(add(message, 0xa0)))
            mstore(add(data, 0x64), 0xa0)
            mstore(add(data, 0x84), mload(add(message, 0xe0)))
            mstore(add(data, 0xa4), shr(96, shl(96, refundTo)))
        }
    }

    /// @dev `keccak256(abi.encode(typeHash, version, …, payloadHash))`, where … are all members of the message but its payload.
    ///      In memory they lie one after another, a clean word each, just as `abi.encode` would write them one by one, at five
    ///      times the cost.
    function hash(bytes32 typeHash, uint256 version, Message memory message, bytes32 payloadHash)
        internal
        pure
        returns (bytes32 result)
    {
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, typeHash)
            mstore(add(data, 0x20), version)
            mcopy(add(data, 0x40), message, 0x1a0)
            mstore(add(data, 0x1e0), payloadHash)
            result := keccak256(data, 0x200)
        }
    }
}
