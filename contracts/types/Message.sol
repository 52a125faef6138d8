// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "./Gmp.sol";

/// @dev In seconds: shorter than any GMP takes. A message with a shorter TTL would expire before it arrives.
uint32 constant MIN_TTL = 60;

/// @dev In gas, for the recipient's call. A transaction may use 2^24 gas (EIP-7825). The difference covers the delivery of the
///      longest payload, the share that each call retains, and the GMP's own verification.
uint64 constant MAX_GAS_LIMIT = 14_000_000;

/// @dev The purpose of a message; determines how long and how often relayers try to deliver it (docs/formats.md).
enum Kind {
    PLAIN,
    STATE_SYNC,
    REGULATORY_ACTION,
    REGULATORY_ACTION_CRITICAL,
    LOCK_MANAGEMENT,
    QUERY,
    ACK,
    HEARTBEAT,
    GOVERNANCE_PROPOSAL,
    GOVERNANCE_VOTE,
    GOVERNANCE_EXECUTE,
    CANCELLATION,
    REPORT
}

/// @dev A dApp's message. Its id commits to every member; how it is transported is not part of it.
struct Message {
    uint64 sourceChain;
    bytes32 sourceRouter;
    bytes32 sender;
    uint64 nonce;
    uint64 destinationChain;
    bytes32 destinationRouter;
    bytes32 recipient;
    uint64 gasLimit;
    uint64 sentAt;
    uint32 ttl;
    Kind kind;
    uint8 quorum;
    bytes32 replaces;
    bytes payload;
}

/// @dev A GMP to send over, and the fee in wei that its adapter gets.
struct GmpFee {
    Gmp gmp;
    uint256 fee;
}

/// @dev Why a GMP did not accept a message: its adapter's revert data, truncated to 256 bytes.
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
    /// @dev The number of GMPs that must accept the message for the call to succeed; 0 stands for all of them. A message that is
    ///      not retriable needs at least its quorum.
    uint8 minDispatched;
    GmpFee[] gmps;
    /// @dev The account that gets back the fee of a GMP that did not accept the message.
    address refundTo;
}

/// @dev A retry of the same message over any set of GMPs.
struct Retry {
    bytes32 messageId;
    Message message;
    /// @dev The number of GMPs that must accept the message for the call to succeed; 0 stands for all of them.
    uint8 minDispatched;
    GmpFee[] gmps;
    address refundTo;
}

using MessageEncoding for Message global;

/// @notice The envelope's version is not supported by this router.
error UnknownEnvelopeVersion(uint8 version);

/// @notice The envelope is shorter than its fixed part.
error TruncatedEnvelope(uint256 length);

/// @notice The envelope's kind does not exist.
error UnknownKind(uint8 kind);

/// @notice A message's id, its envelope, and its copies from calldata.
/// @dev Some functions are hand-written in assembly. The comment of each shows the equivalent Solidity, and the gas that the
///      assembly saves, measured with bench/RouterGasHarness.sol and solc 0.8.34 (docs/decisions/0004).
///      tests/solidity/symbolic/Packing.proof.sol proves that both versions hash, pack, copy and reject alike;
///      tests/solidity/router/MessageEncoding.t.sol compares every pair by fuzzing.
library MessageEncoding {
    uint8 internal constant VERSION = 1;

    /// @dev Length of an envelope without its payload, in bytes.
    uint256 internal constant HEADER_LENGTH = 239;

    bytes32 internal constant TYPEHASH = keccak256(
        "Message(uint8 version,uint64 sourceChain,bytes32 sourceRouter,bytes32 sender,uint64 nonce,uint64 destinationChain,bytes32 destinationRouter,bytes32 recipient,uint64 gasLimit,uint64 sentAt,uint32 ttl,uint8 kind,uint8 quorum,bytes32 replaces,bytes payload)"
    );

    // ---- the id

    /// @dev The EIP-712 struct hash. Every member has its own word, so two different messages never have the same encoding.
    function id(Message memory message) internal pure returns (bytes32) {
        return idOf(message, keccak256(message.payload));
    }

    /// @dev The id of the message with this header and a payload with that hash.
    function idOf(Message memory message, bytes32 payloadHash) internal pure returns (bytes32) {
        return hashStruct(TYPEHASH, VERSION, message, payloadHash);
    }

    /// @dev The compiler's version, where … are the other members of the message in their order:
    ///
    ///          keccak256(abi.encode(typeHash, version, message.sourceChain, …, message.replaces, payloadHash))
    ///
    ///      Saves 1,095 gas of each send or retry, and 1,050 of each delivery. The stack can't hold all members, so the compiler
    ///      has to encode two halves and join them. In memory the members already lie as `abi.encode` would write them.
    function hashStruct(bytes32 typeHash, uint256 version, Message memory message, bytes32 payloadHash)
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

    // ---- the envelope

    /// @dev The bytes that a GMP carries. Fixed widths, with the payload last, make the packed form unambiguous.
    function encode(Message memory message, bytes32 messageId) internal pure returns (bytes memory) {
        return packEnvelope(VERSION, messageId, message, 0);
    }

    /// @dev The envelope of a message, its members at the offsets that docs/formats.md gives. The compiler's version:
    ///
    ///          abi.encodePacked(version, messageId, message.sourceChain, …, message.replaces, message.payload)
    ///
    ///      Saves 809 gas of each send or retry. Here, too, the compiler has to pack two halves and join them.
    /// @param room Bytes to leave free in memory before it.
    function packEnvelope(uint8 version, bytes32 messageId, Message memory message, uint256 room)
        internal
        pure
        returns (bytes memory envelope)
    {
        assembly ("memory-safe") {
            envelope := add(mload(0x40), room)
            let at := add(envelope, 0x20)
            mstore8(at, version)
            mstore(add(at, 1), messageId)
            // Each number writes zeros to its right, where the next member is written.
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
            // Not before the word of zeros ends: a call's padding need not end where a memory word does.
            mstore(0x40, and(add(end, 0x3f), not(0x1f)))
        }
    }

    /// @dev An adapter's call, with the envelope made in its place. The compiler's version:
    ///
    ///          envelope = packEnvelope(version, messageId, message, 0);
    ///          data = abi.encodeWithSelector(
    ///              selector, message.destinationChain, message.destinationRouter, envelope, message.gasLimit, refundTo
    ///          );
    ///
    ///      Saves 411 gas of each send or retry, because the envelope is not copied.
    /// @return data The calldata of the adapter's call.
    /// @return envelope The result of {packEnvelope}; it lies within `data`, so that it is in memory only once.
    function packDispatch(bytes4 selector, uint8 version, bytes32 messageId, Message memory message, address refundTo)
        internal
        pure
        returns (bytes memory data, bytes memory envelope)
    {
        // Its length, the selector and five words come before the envelope.
        envelope = packEnvelope(version, messageId, message, 0xc4);
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

    /// @dev Decodes what {encode} wrote. Returns the stated id unchecked: the caller compares it with {id}.
    function decode(bytes calldata envelope) internal pure returns (bytes32 stated, Message memory message) {
        stated = read(envelope, message);
    }

    /// @dev Like {decode}, but into an existing message.
    function read(bytes calldata envelope, Message memory message) internal pure returns (bytes32 stated) {
        if (envelope.length < HEADER_LENGTH) revert TruncatedEnvelope(envelope.length);
        uint256 terms = uint256(wordAt(envelope, 185));
        uint8 version = uint8(bytes1(wordAt(envelope, 0)));
        if (version != VERSION) revert UnknownEnvelopeVersion(version);
        if (uint8(terms >> 88) > uint8(type(Kind).max)) revert UnknownKind(uint8(terms >> 88));
        stated = wordAt(envelope, 1);
        message.sourceChain = uint64(bytes8(wordAt(envelope, 33)));
        message.sourceRouter = wordAt(envelope, 41);
        message.sender = wordAt(envelope, 73);
        message.nonce = uint64(bytes8(wordAt(envelope, 105)));
        message.destinationChain = uint64(bytes8(wordAt(envelope, 113)));
        message.destinationRouter = wordAt(envelope, 121);
        message.recipient = wordAt(envelope, 153);
        message.gasLimit = uint64(terms >> 192);
        message.sentAt = uint64(terms >> 128);
        message.ttl = uint32(terms >> 96);
        message.kind = Kind(uint8(terms >> 88));
        message.quorum = uint8(terms >> 80);
        message.replaces = wordAt(envelope, 207);
        message.payload = toMemory(envelope[HEADER_LENGTH:]);
    }

    /// @dev The 32 bytes of `data` that begin at `offset`. The caller has made sure that they are there. The compiler's version:
    ///
    ///          bytes32(data[offset:offset + 32])
    ///
    ///      Saves 3,485 gas of each delivery, which reads eleven words. The compiler checks the length for each.
    function wordAt(bytes calldata data, uint256 offset) internal pure returns (bytes32 word) {
        assembly ("memory-safe") {
            word := calldataload(add(data.offset, offset))
        }
    }

    /// @dev The id that an envelope states. Only for envelopes that {decode} accepts.
    function statedId(bytes memory envelope) internal pure returns (bytes32 messageId) {
        for (uint256 index = 1; index < 33; ++index) {
            messageId = (messageId << 8) | bytes32(uint256(uint8(envelope[index])));
        }
    }

    /// @dev The source router that an envelope names. Of one that {decode} refuses as too short, anything. The compiler's version
    ///      is a loop as in {statedId}, over the bytes from 41 on. Saves 4,074 gas of each delivery, measured alone.
    function statedSourceRouter(bytes memory envelope) internal pure returns (bytes32 router) {
        assembly ("memory-safe") {
            router := mload(add(envelope, 73)) // 32 of length, 41 before it
        }
    }

    // ---- copies from calldata

    /// @dev Room for one message. Its members hold anything: each has to be written before it is read. The compiler's version:
    ///
    ///          one = new Message[](1)
    ///
    ///      Saves 210 gas of each send, retry or receipt. The compiler fills every new struct with zeros. It also fills one that a
    ///      function returns, so {copy} and {read} take the message instead of returning it.
    function allocate() internal pure returns (Message[] memory one) {
        assembly ("memory-safe") {
            one := mload(0x40)
            mstore(0x40, add(one, 0x200)) // a length, a reference, fourteen members
            mstore(one, 1)
            mstore(add(one, 0x20), add(one, 0x40))
        }
    }

    /// @dev Copies a message from calldata.
    function load(Message calldata source) internal pure returns (Message memory message) {
        copy(source, message);
    }

    /// @dev Like {copy}, but into an existing message.
    function copy(Message calldata source, Message memory message) internal pure {
        copyHeader(source, message);
        message.payload = toMemory(source.payload);
    }

    /// @dev The copy of bytes of the caller's. The compiler's version:
    ///
    ///          copied = data
    ///
    ///      Saves 180 to 240 gas of each send, retry or receipt. The compiler rounds the length twice.
    function toMemory(bytes calldata data) internal pure returns (bytes memory copied) {
        assembly ("memory-safe") {
            // A struct whose offset points far beyond the end of the calldata reads as empty, and would pass all checks.
            if gt(data.offset, calldatasize()) { revert(0, 0) }
            copied := mload(0x40)
            mstore(copied, data.length)
            calldatacopy(add(copied, 0x20), data.offset, data.length)
            mstore(0x40, and(add(add(copied, data.length), 0x3f), not(0x1f)))
        }
    }

    /// @dev Copies all members but the payload. The compiler's version, which copies the payload as well, is {load} as:
    ///
    ///          message = source
    ///
    ///      Saves 1,087 gas of each retry. The compiler reads and checks member after member.
    function copyHeader(Message calldata source, Message memory message) internal pure {
        assembly ("memory-safe") {
            calldatacopy(message, source, 0x1a0)
            // Without this check, the payload could lie before the message or, if empty, far beyond the end of the calldata.
            if shr(64, calldataload(add(source, 0x1a0))) { revert(0, 0) }
        }
        requireCleanWords(message);
    }

    /// @dev Reverts without data unless each member that is shorter than a word is padded with zeros. The compiler does the same
    ///      for each member that it reads from calldata. One check of all is part of what {copyHeader} saves.
    function requireCleanWords(Message memory message) internal pure {
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
}
