// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {Kind, Message, MessageLibrary} from "../../../contracts/types/Message.sol";

contract MessageTest is Test {
    /// @dev External, because {MessageLibrary-decode} reads calldata.
    function decode(bytes calldata envelope) external pure returns (bytes32 stated, Message memory message) {
        return MessageLibrary.decode(envelope);
    }

    function test_EveryGoldenMessageHasTheGoldenIdAndEnvelope() public view {
        string memory golden = vm.readFile("tests/golden/messages.json");
        uint256 index;
        for (; vm.keyExistsJson(golden, entry(index)); ++index) {
            Message memory message = read(golden, string.concat(entry(index), ".message."));
            bytes32 messageId = vm.parseJsonBytes32(golden, string.concat(entry(index), ".id"));
            bytes memory envelope = vm.parseJsonBytes(golden, string.concat(entry(index), ".envelope"));
            string memory name = vm.parseJsonString(golden, string.concat(entry(index), ".name"));
            assertEq(MessageLibrary.id(message), messageId, name);
            assertEq(MessageLibrary.encode(message, messageId), envelope, name);
            assertEq(MessageLibrary.statedId(envelope), messageId, name);
        }
        assertGe(index, 12);
    }

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

    function cooked(RawMessage memory raw) private pure returns (Message memory) {
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

    function testFuzz_TheIdIsTheHashOfTheMembersOneByOne(RawMessage memory raw) public pure {
        Message memory message = cooked(raw);
        bytes memory first = abi.encode(
            MessageLibrary.TYPEHASH,
            MessageLibrary.VERSION,
            message.sourceChain,
            message.sourceRouter,
            message.sender,
            message.nonce,
            message.destinationChain,
            message.destinationRouter
        );
        bytes memory second = abi.encode(
            message.recipient,
            message.gasLimit,
            message.sentAt,
            message.ttl,
            message.kind,
            message.quorum,
            message.replaces,
            keccak256(message.payload)
        );
        assertEq(MessageLibrary.id(message), keccak256(bytes.concat(first, second)));
    }

    function testFuzz_TheEnvelopeIsTheMembersOneByOneAndSpoilsNoMemory(RawMessage memory raw, bytes32 messageId)
        public
        pure
    {
        Message memory message = cooked(raw);
        bytes memory envelope = MessageLibrary.encode(message, messageId);
        bytes memory neighbour = abi.encode(messageId);
        bytes memory first = abi.encodePacked(
            MessageLibrary.VERSION,
            messageId,
            message.sourceChain,
            message.sourceRouter,
            message.sender,
            message.nonce,
            message.destinationChain,
            message.destinationRouter
        );
        bytes memory second = abi.encodePacked(
            message.recipient,
            message.gasLimit,
            message.sentAt,
            message.ttl,
            message.kind,
            message.quorum,
            message.replaces,
            message.payload
        );
        assertEq(envelope, bytes.concat(first, second));
        assertEq(neighbour, abi.encode(messageId));
        assertEq(abi.encode(message), abi.encode(cooked(raw)));
    }

    function testFuzz_DecodingAnEnvelopeGivesBackItsMessageAndStatedId(RawMessage memory raw, bytes32 stated)
        public
        view
    {
        Message memory message = cooked(raw);
        bytes memory envelope = MessageLibrary.encode(message, stated);
        assertEq(envelope.length, MessageLibrary.HEADER_LENGTH + message.payload.length);
        (bytes32 found, Message memory decoded) = this.decode(envelope);
        assertEq(found, stated);
        assertEq(keccak256(abi.encode(decoded)), keccak256(abi.encode(message)));
    }

    function testFuzz_DifferentMessagesHaveDifferentIds(RawMessage memory first, RawMessage memory second) public pure {
        Message memory a = cooked(first);
        Message memory b = cooked(second);
        vm.assume(keccak256(abi.encode(a)) != keccak256(abi.encode(b)));
        assertNotEq(MessageLibrary.id(a), MessageLibrary.id(b));
    }

    function testFuzz_TheIdIsTheEip712StructHash(RawMessage memory raw) public pure {
        Message memory message = cooked(raw);
        bytes memory members = abi.encode(
            MessageLibrary.TYPEHASH,
            uint256(1),
            message.sourceChain,
            message.sourceRouter,
            message.sender,
            message.nonce,
            message.destinationChain,
            message.destinationRouter
        );
        bytes memory more = abi.encode(
            message.recipient,
            message.gasLimit,
            message.sentAt,
            message.ttl,
            uint256(message.kind),
            message.quorum,
            message.replaces,
            keccak256(message.payload)
        );
        assertEq(MessageLibrary.id(message), keccak256(bytes.concat(members, more)));
    }

    function entry(uint256 index) private pure returns (string memory) {
        return string.concat(".messages[", vm.toString(index), "]");
    }

    function read(string memory golden, string memory path) private pure returns (Message memory message) {
        message.sourceChain = uint64(number(golden, path, "source_chain"));
        message.sourceRouter = word(golden, path, "source_router");
        message.sender = word(golden, path, "sender");
        message.nonce = uint64(number(golden, path, "nonce"));
        message.destinationChain = uint64(number(golden, path, "destination_chain"));
        message.destinationRouter = word(golden, path, "destination_router");
        message.recipient = word(golden, path, "recipient");
        message.gasLimit = uint64(number(golden, path, "gas_limit"));
        message.sentAt = uint64(number(golden, path, "sent_at"));
        message.ttl = uint32(number(golden, path, "ttl"));
        message.kind = Kind(number(golden, path, "kind"));
        message.quorum = uint8(number(golden, path, "quorum"));
        message.replaces = word(golden, path, "replaces");
        message.payload = vm.parseJsonBytes(golden, string.concat(path, "payload"));
    }

    function number(string memory golden, string memory path, string memory key) private pure returns (uint256) {
        return vm.parseJsonUint(golden, string.concat(path, key));
    }

    function word(string memory golden, string memory path, string memory key) private pure returns (bytes32) {
        return vm.parseJsonBytes32(golden, string.concat(path, key));
    }
}
