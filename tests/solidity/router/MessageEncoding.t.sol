// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {stdError} from "forge-std/StdError.sol";

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {AnyMessage} from "./AnyMessage.sol";
import {CompilersCopies, CompilersWay, ICopies, RouterCopies, soilFreeMemory} from "./doubles/CompilersWay.sol";

/// @dev Assembly beside what the compiler makes of the same.
contract MessageEncodingTest is AnyMessage {
    ICopies private copies = new RouterCopies();
    ICopies private compilers = new CompilersCopies();

    function testFuzz_AHashIsTheCompilers(RawMessage memory raw, bytes32 typeHash, uint8 version, bytes32 payloadHash)
        public
        pure
    {
        Message memory message = _cooked(raw);
        assertEq(
            MessageEncoding.hashStruct(typeHash, version, message, payloadHash),
            CompilersWay.hash(typeHash, version, message, payloadHash)
        );
    }

    function testFuzz_AnEnvelopeIsTheCompilersAndSpoilsNoMemory(
        RawMessage memory raw,
        uint8 version,
        bytes32 messageId,
        uint8 room
    ) public pure {
        Message memory message = _cooked(raw);
        soilFreeMemory(0x1000);
        bytes memory envelope = MessageEncoding.packEnvelope(version, messageId, message, room);
        bytes32[2] memory neighbour = [~bytes32(0), ~bytes32(0)];
        assertEq(envelope, CompilersWay.pack(version, messageId, message));
        assertUntouched(neighbour, message, raw);
    }

    function testFuzz_AWordOfAnEnvelopeIsTheCompilers(bytes calldata envelope, uint256 offset) public pure {
        vm.assume(envelope.length >= 32);
        offset = bound(offset, 0, envelope.length - 32);
        assertEq(MessageEncoding.wordAt(envelope, offset), CompilersWay.wordAt(envelope, offset));
    }

    function testFuzz_TheStatedSourceRouterIsTheCompilers(RawMessage memory raw, bytes32 messageId) public pure {
        Message memory message = _cooked(raw);
        bytes memory envelope = MessageEncoding.encode(message, messageId);
        assertEq(MessageEncoding.statedSourceRouter(envelope), message.sourceRouter);
        assertEq(MessageEncoding.statedSourceRouter(envelope), CompilersWay.statedSourceRouter(envelope));
    }

    /// @dev External, because it reads calldata.
    function readIntoUsedMemory(bytes calldata envelope)
        external
        pure
        returns (bytes32 stated, Message memory message)
    {
        soilFreeMemory(0x1000);
        message = MessageEncoding.allocate()[0];
        stated = MessageEncoding.read(envelope, message);
    }

    function testFuzz_AnEnvelopeIsReadIntoUsedMemory(RawMessage memory raw, bytes32 messageId) public view {
        Message memory message = _cooked(raw);
        (bytes32 stated, Message memory read) = this.readIntoUsedMemory(MessageEncoding.encode(message, messageId));
        assertEq(stated, messageId);
        assertEq(abi.encode(read), abi.encode(message));
    }

    /// @dev External, because it copies calldata.
    function copyToUsedMemory(bytes calldata data)
        external
        pure
        returns (bytes memory copied, bytes32[2] memory neighbour)
    {
        soilFreeMemory(0x1000);
        copied = MessageEncoding.toMemory(data);
        neighbour = [bytes32(0), 0];
    }

    function testFuzz_BytesAreCopiedAndSpoilNoMemory(bytes memory data) public view {
        (bytes memory copied, bytes32[2] memory neighbour) = this.copyToUsedMemory(data);
        assertEq(copied, data);
        assertEq(neighbour[0] | neighbour[1], 0);
    }

    /// @dev Payloads of every length within two words, so that a call's padding ends anywhere beside a word of memory.
    function testFuzz_AnAdaptersCallIsTheCompilersAndSpoilsNoMemory(
        RawMessage memory raw,
        uint8 version,
        bytes32 messageId,
        uint256 refundTo
    ) public pure {
        for (uint256 length; length <= 64; ++length) {
            raw.payload = cut(abi.encode(messageId, ~messageId), length);
            assertCallIsTheCompilers(raw, version, messageId, refundTo);
        }
    }

    function testFuzz_AnAdaptersCallWithAnyPayloadIsTheCompilers(
        RawMessage memory raw,
        uint8 version,
        bytes32 messageId,
        uint256 refundTo
    ) public pure {
        assertCallIsTheCompilers(raw, version, messageId, refundTo);
    }

    function testFuzz_AMessageIsLoadedOrRefusedAsTheCompilerWould(
        RawMessage memory raw,
        uint8 word,
        uint256 value,
        uint8 shift
    ) public view {
        bytes memory data = abi.encodeCall(ICopies.load, (_cooked(raw)));
        assertSameAnswers(data);
        write(data, bound(word, 0, 12), value >> shift);
        assertSameAnswers(data);
    }

    /// @dev The word that says where the payload is, and the one that says how long; and calldata that ends too early.
    function testFuzz_APayloadThatIsNotInTheCalldataIsRefusedAsTheCompilerWould(
        RawMessage memory raw,
        bool itsLength,
        uint256 value,
        uint8 shift,
        uint256 end
    ) public view {
        bytes memory data = abi.encodeCall(ICopies.load, (_cooked(raw)));
        assertSameAnswers(cut(data, bound(end, 4, data.length)));
        write(data, itsLength ? 14 : 13, value >> shift);
        assertSameAnswers(data);
    }

    /// @dev What no fuzzer comes upon by itself: each bit alone, the first too many of each member among them, and numbers
    ///      below zero; in the words that say where the payload is and how long, too.
    function test_EveryBitOfAMessageIsCopiedOrRefusedAsTheCompilerWould() public view {
        Message memory empty;
        assertSameAnswersForEveryBit(abi.encodeCall(ICopies.load, (empty)), 15);
    }

    function assertSameAnswersForEveryBit(bytes memory data, uint256 words) private view {
        bytes32 before = keccak256(data);
        for (uint256 word; word < words; ++word) {
            uint256 kept = wordOf(data, word);
            for (uint256 bit; bit < 256; ++bit) {
                write(data, word, 1 << bit);
                assertSameAnswers(data);
                write(data, word, type(uint256).max << bit);
                assertSameAnswers(data);
            }
            write(data, word, kept);
        }
        assertEq(keccak256(data), before);
    }

    function assertCallIsTheCompilers(RawMessage memory raw, uint8 version, bytes32 messageId, uint256 refundTo)
        private
        pure
    {
        Message memory message = _cooked(raw);
        address dirty;
        assembly ("memory-safe") {
            dirty := refundTo
        }
        soilFreeMemory(0x1000);
        (bytes memory data, bytes memory envelope) =
            MessageEncoding.packDispatch(IAdapter.dispatch.selector, version, messageId, message, dirty);
        bytes32[2] memory neighbour = [~bytes32(0), ~bytes32(0)];
        assertEq(data, CompilersWay.packCall(version, messageId, message, address(uint160(refundTo))));
        assertEq(envelope, CompilersWay.pack(version, messageId, message));
        assertUntouched(neighbour, message, raw);
    }

    function assertUntouched(bytes32[2] memory neighbour, Message memory message, RawMessage memory raw) private pure {
        assertEq(neighbour[0] & neighbour[1], ~bytes32(0));
        assertEq(abi.encode(message), abi.encode(_cooked(raw)));
    }

    /// @dev Puts a word into the one struct that is the call's argument.
    function write(bytes memory data, uint256 word, uint256 value) private pure {
        assembly ("memory-safe") {
            mstore(add(add(data, 0x44), mul(0x20, word)), value)
        }
    }

    function wordOf(bytes memory data, uint256 word) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := mload(add(add(data, 0x44), mul(0x20, word)))
        }
    }

    function cut(bytes memory whole, uint256 length) private pure returns (bytes memory part) {
        part = new bytes(length);
        for (uint256 index; index < length; ++index) {
            part[index] = whole[index];
        }
    }

    /// @dev A length that no memory can hold is refused by both, but a whole message's is a panic of the compiler's.
    function assertSameAnswers(bytes memory data) private view {
        (bool success, bytes memory answer) = address(copies).staticcall(data);
        (bool expected, bytes memory expectedAnswer) = address(compilers).staticcall(data);
        assertEq(success, expected);
        bool isPanic = keccak256(expectedAnswer) == keccak256(stdError.memOverflowError);
        assertEq(answer, isPanic ? bytes("") : expectedAnswer);
    }
}
