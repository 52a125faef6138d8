// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {CompilersCopies, CompilersWay, ICopies, RouterCopies, soilFreeMemory} from "../router/doubles/CompilersWay.sol";
import {Symbolic} from "./Symbolic.sol";

/// @dev Copies words without looking at them.
contract UncheckedCopies is ICopies {
    function load(Message calldata source) external pure returns (Message memory message) {
        assembly ("memory-safe") {
            calldatacopy(message, source, 0x1a0)
        }
        message.payload = source.payload;
    }
}

/// @dev {MessageEncoding} does what the compiler's code does, refusals included. Payloads as in {MessageProofs}.
contract PackingProofs is Symbolic {
    /// @dev A message in calldata whose members may be any words.
    struct AnyHeader {
        uint256[13] header;
        bytes payload;
    }

    ICopies private copies = new RouterCopies();
    ICopies private unchecked_ = new UncheckedCopies();
    ICopies private compilers = new CompilersCopies();

    function check_AnEnvelopeIsWhatTheCompilerPacks(Message memory message, bytes32 messageId) public pure {
        _assertEnvelope(_pack, message, messageId);
    }

    function control_AnEnvelopeIsWhatTheCompilerPacks(Message memory message, bytes32 messageId) public pure {
        _assertEnvelope(_packInAnotherOrder, message, messageId);
    }

    function check_AnAdaptersCallIsWhatTheCompilerEncodes(Message memory message, bytes32 messageId, address refundTo)
        public
        pure
    {
        _assertCall(_packCall, message, messageId, refundTo);
    }

    function control_AnAdaptersCallIsWhatTheCompilerEncodes(Message memory message, bytes32 messageId, address refundTo)
        public
        pure
    {
        _assertCall(_packCallWithoutItsPadding, message, messageId, refundTo);
    }

    function check_AHashIsOfWhatTheCompilerEncodes(Message memory message, bytes32 payloadHash) public pure {
        _assertHash(_hash, message, payloadHash);
    }

    function control_AHashIsOfWhatTheCompilerEncodes(Message memory message, bytes32 payloadHash) public pure {
        _assertHash(_hashWithoutNonce, message, payloadHash);
    }

    function check_AMessageIsLoadedOrRefusedAsByTheCompiler(AnyHeader memory any) public view {
        _assertSameAnswers(copies, abi.encodeWithSelector(ICopies.load.selector, any));
    }

    function control_AMessageIsLoadedOrRefusedAsByTheCompiler(AnyHeader memory any) public view {
        _assertSameAnswers(unchecked_, abi.encodeWithSelector(ICopies.load.selector, any));
    }

    function _assertEnvelope(
        function(Message memory, bytes32) internal pure returns (bytes memory) pack,
        Message memory message,
        bytes32 messageId
    ) private pure {
        // As long as an adapter's call with a deep proof's payload.
        soilFreeMemory(0x800);
        bytes memory envelope = pack(message, messageId);
        // What is allocated next must lie behind it.
        bytes32[2] memory neighbour = [~bytes32(0), ~bytes32(0)];
        _assertSame(envelope, CompilersWay.pack(MessageEncoding.VERSION, messageId, message));
        assert(neighbour[0] & neighbour[1] == ~bytes32(0));
    }

    function _assertCall(
        function(Message memory, bytes32, address) internal pure returns (bytes memory, bytes memory) packCall,
        Message memory message,
        bytes32 messageId,
        address refundTo
    ) private pure {
        // As long as an adapter's call with a deep proof's payload.
        soilFreeMemory(0x800);
        (bytes memory data, bytes memory envelope) = packCall(message, messageId, refundTo);
        bytes32[2] memory neighbour = [~bytes32(0), ~bytes32(0)];
        _assertSame(data, CompilersWay.packCall(MessageEncoding.VERSION, messageId, message, refundTo));
        _assertSame(envelope, CompilersWay.pack(MessageEncoding.VERSION, messageId, message));
        assert(neighbour[0] & neighbour[1] == ~bytes32(0));
    }

    function _assertHash(
        function(Message memory, bytes32) internal pure returns (bytes32) hash,
        Message memory message,
        bytes32 payloadHash
    ) private pure {
        bytes32 expected = CompilersWay.hash(MessageEncoding.TYPEHASH, MessageEncoding.VERSION, message, payloadHash);
        assert(hash(message, payloadHash) == expected);
    }

    function _assertSameAnswers(ICopies target, bytes memory data) private view {
        (bool expected, bytes memory expectedAnswer) = address(compilers).staticcall(data);
        (bool success, bytes memory answer) = address(target).staticcall(data);
        assert(success == expected);
        _assertSame(answer, expectedAnswer);
    }

    /// @dev Word by word, which a solver finds easier than hashes.
    function _assertSame(bytes memory one, bytes memory other) private pure {
        assert(one.length == other.length);
        for (uint256 offset; offset < one.length; offset += 32) {
            assert(_wordAt(one, offset) == _wordAt(other, offset));
        }
    }

    /// @dev Zeros stand for what is beyond the end.
    function _wordAt(bytes memory data, uint256 offset) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(add(add(data, 0x20), offset))
        }
        uint256 left = data.length - offset;
        return left < 32 ? word >> (8 * (32 - left)) : word;
    }

    function _pack(Message memory message, bytes32 messageId) private pure returns (bytes memory) {
        return MessageEncoding.packEnvelope(MessageEncoding.VERSION, messageId, message, 0);
    }

    /// @dev Writes the ttl after its neighbours, so that it spills over them.
    function _packInAnotherOrder(Message memory message, bytes32 messageId)
        private
        pure
        returns (bytes memory envelope)
    {
        envelope = _pack(message, messageId);
        uint256 ttl = message.ttl;
        assembly ("memory-safe") {
            mstore(add(envelope, 233), shl(224, ttl))
        }
    }

    function _packCall(Message memory message, bytes32 messageId, address refundTo)
        private
        pure
        returns (bytes memory, bytes memory)
    {
        return MessageEncoding.packDispatch(
            IAdapter.dispatch.selector, MessageEncoding.VERSION, messageId, message, refundTo
        );
    }

    /// @dev Takes as free what is behind the envelope's last byte, where the call goes on for some bytes of zeros.
    function _packCallWithoutItsPadding(Message memory message, bytes32 messageId, address refundTo)
        private
        pure
        returns (bytes memory data, bytes memory envelope)
    {
        (data, envelope) = _packCall(message, messageId, refundTo);
        assembly ("memory-safe") {
            mstore(0x40, and(add(add(envelope, mload(envelope)), 0x3f), not(0x1f)))
        }
    }

    function _hash(Message memory message, bytes32 payloadHash) private pure returns (bytes32) {
        return MessageEncoding.hashStruct(MessageEncoding.TYPEHASH, MessageEncoding.VERSION, message, payloadHash);
    }

    function _hashWithoutNonce(Message memory message, bytes32 payloadHash) private pure returns (bytes32 result) {
        uint64 nonce = message.nonce;
        message.nonce = 0;
        result = _hash(message, payloadHash);
        message.nonce = nonce;
    }
}
