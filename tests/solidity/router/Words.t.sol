// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {stdError} from "forge-std/StdError.sol";

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {Words} from "../../../contracts/libraries/Words.sol";
import {Message} from "../../../contracts/types/Message.sol";
import {GmpFee, Route} from "../../../contracts/types/Route.sol";
import {AnyMessage} from "./AnyMessage.sol";
import {CompilersCopies, CompilersWay, ICopies, WordCopies} from "./doubles/CompilersWay.sol";

/// @dev Assembly beside what the compiler makes of the same.
contract WordsTest is AnyMessage {
    ICopies private copies = new WordCopies();
    ICopies private compilers = new CompilersCopies();

    function testFuzz_AHashIsTheCompilers(RawMessage memory raw, bytes32 typeHash, uint8 version, bytes32 payloadHash)
        public
        pure
    {
        Message memory message = _cooked(raw);
        assertEq(
            Words.hash(typeHash, version, message, payloadHash),
            CompilersWay.hash(typeHash, version, message, payloadHash)
        );
    }

    function testFuzz_AnEnvelopeIsTheCompilersAndSpoilsNoMemory(
        RawMessage memory raw,
        uint8 version,
        bytes32 messageId,
        uint16 room
    ) public pure {
        Message memory message = _cooked(raw);
        bytes memory envelope = Words.pack(version, messageId, message, room);
        bytes32[2] memory neighbour = [~bytes32(0), ~bytes32(0)];
        assertEq(envelope, CompilersWay.pack(version, messageId, message));
        assertUntouched(neighbour, message, raw);
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

    function testFuzz_ARequestIsCopiedOrRefusedAsTheCompilerWould(
        RawMessage memory raw,
        uint8 word,
        uint256 value,
        uint8 shift,
        uint256 end
    ) public view {
        bytes memory data = abi.encodeCall(ICopies.copyRequest, (requested(raw)));
        assertSameAnswers(data);
        assertSameAnswers(cut(data, bound(end, 4, data.length)));
        write(data, bound(word, 0, 11), value >> shift);
        assertSameAnswers(data);
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
        (bytes memory data, bytes memory envelope) =
            Words.packCall(IAdapter.dispatch.selector, version, messageId, message, dirty);
        bytes32[2] memory neighbour = [~bytes32(0), ~bytes32(0)];
        assertEq(data, CompilersWay.packCall(version, messageId, message, address(uint160(refundTo))));
        assertEq(envelope, CompilersWay.pack(version, messageId, message));
        assertUntouched(neighbour, message, raw);
    }

    function assertUntouched(bytes32[2] memory neighbour, Message memory message, RawMessage memory raw) private pure {
        assertEq(neighbour[0] & neighbour[1], ~bytes32(0));
        assertEq(abi.encode(message), abi.encode(_cooked(raw)));
    }

    function requested(RawMessage memory raw) private pure returns (Route memory request) {
        Message memory message = _cooked(raw);
        request.destinationChain = message.destinationChain;
        request.recipient = message.recipient;
        request.payload = message.payload;
        request.gasLimit = message.gasLimit;
        request.ttl = message.ttl;
        request.kind = message.kind;
        request.quorum = message.quorum;
        request.replaces = message.replaces;
        request.gmps = new GmpFee[](1);
    }

    /// @dev Puts a word into the one struct that is the call's argument.
    function write(bytes memory data, uint256 word, uint256 value) private pure {
        for (uint256 index; index < 32; ++index) {
            data[36 + 32 * word + index] = bytes32(value)[index];
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
