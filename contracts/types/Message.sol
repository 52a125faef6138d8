// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Words} from "../libraries/Words.sol";

/// @dev What a message is about; decides how long and how often the bridge tries (docs/formats.md).
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

/// @dev What a dApp sends once. Everything in it is bound by its id; nothing about how it travels is in it.
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

using MessageLibrary for Message global;

/// @notice The envelope is of a version that this router does not read.
error UnknownEnvelopeVersion(uint8 version);

/// @notice The envelope is shorter than its fixed part.
error TruncatedEnvelope(uint256 length);

/// @notice The envelope names a kind that does not exist.
error UnknownKind(uint8 kind);

library MessageLibrary {
    using Words for bytes;

    uint8 internal constant VERSION = 1;

    /// @dev Length of an envelope without its payload, in bytes.
    uint256 internal constant HEADER_LENGTH = 239;

    bytes32 internal constant TYPEHASH = keccak256(
        "Message(uint8 version,uint64 sourceChain,bytes32 sourceRouter,bytes32 sender,uint64 nonce,uint64 destinationChain,bytes32 destinationRouter,bytes32 recipient,uint64 gasLimit,uint64 sentAt,uint32 ttl,uint8 kind,uint8 quorum,bytes32 replaces,bytes payload)"
    );

    /// @dev The EIP-712 struct hash. Every member has a word of its own, so two different messages never encode alike.
    function id(Message memory message) internal pure returns (bytes32) {
        return idOf(message, keccak256(message.payload));
    }

    /// @dev The id of the message with this header and a payload of that hash, whatever payload is at hand.
    function idOf(Message memory message, bytes32 payloadHash) internal pure returns (bytes32) {
        return Words.hash(TYPEHASH, VERSION, message, payloadHash);
    }

    /// @dev The copy of a message of the caller's.
    function load(Message calldata source) internal pure returns (Message memory message) {
        Words.copyHeader(source, message);
        message.payload = source.payload;
    }

    /// @dev What a GMP carries. Fixed widths and the payload last make the packed form unambiguous.
    function encode(Message memory message, bytes32 messageId) internal pure returns (bytes memory) {
        return Words.pack(VERSION, messageId, message, 0);
    }

    /// @dev The id that an envelope states. Only for envelopes that {decode} has accepted.
    function statedId(bytes memory envelope) internal pure returns (bytes32 messageId) {
        for (uint256 index = 1; index < 33; ++index) {
            messageId = (messageId << 8) | bytes32(uint256(uint8(envelope[index])));
        }
    }

    /// @dev The source router that an envelope names. Of one that {decode} refuses as too short, anything.
    function statedSourceRouter(bytes memory envelope) internal pure returns (bytes32 router) {
        assembly ("memory-safe") {
            router := mload(add(envelope, 73)) // 32 of length, 41 before it
        }
    }

    /// @dev Reads what {encode} wrote. The stated id is returned as it stands: the caller compares it with {id}.
    function decode(bytes calldata envelope) internal pure returns (bytes32 stated, Message memory message) {
        if (envelope.length < HEADER_LENGTH) revert TruncatedEnvelope(envelope.length);
        uint256 terms = uint256(envelope.wordAt(185));
        uint8 version = uint8(bytes1(envelope.wordAt(0)));
        if (version != VERSION) revert UnknownEnvelopeVersion(version);
        if (uint8(terms >> 88) > uint8(type(Kind).max)) revert UnknownKind(uint8(terms >> 88));
        stated = envelope.wordAt(1);
        message.sourceChain = uint64(bytes8(envelope.wordAt(33)));
        message.sourceRouter = envelope.wordAt(41);
        message.sender = envelope.wordAt(73);
        message.nonce = uint64(bytes8(envelope.wordAt(105)));
        message.destinationChain = uint64(bytes8(envelope.wordAt(113)));
        message.destinationRouter = envelope.wordAt(121);
        message.recipient = envelope.wordAt(153);
        message.gasLimit = uint64(terms >> 192);
        message.sentAt = uint64(terms >> 128);
        message.ttl = uint32(terms >> 96);
        message.kind = Kind(uint8(terms >> 88));
        message.quorum = uint8(terms >> 80);
        message.replaces = envelope.wordAt(207);
        message.payload = envelope[HEADER_LENGTH:];
    }
}
