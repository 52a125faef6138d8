// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {AnyMessage} from "./AnyMessage.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";
import {CompilersWay} from "./doubles/CompilersWay.sol";

contract MessageTest is AnyMessage {
    /// @dev External, because {MessageEncoding-decode} reads calldata.
    function decode(bytes calldata envelope) external pure returns (bytes32 stated, Message memory message) {
        return MessageEncoding.decode(envelope);
    }

    function test_EveryGoldenMessageHasTheGoldenIdAndEnvelope() public view {
        string memory golden = vm.readFile("tests/golden/messages.json");
        uint256 index;
        for (; vm.keyExistsJson(golden, entry(index)); ++index) {
            Message memory message = read(golden, string.concat(entry(index), ".message."));
            bytes32 messageId = vm.parseJsonBytes32(golden, string.concat(entry(index), ".id"));
            bytes memory envelope = vm.parseJsonBytes(golden, string.concat(entry(index), ".envelope"));
            string memory name = vm.parseJsonString(golden, string.concat(entry(index), ".name"));
            assertEq(MessageEncoding.id(message), messageId, name);
            assertEq(MessageEncoding.encode(message, messageId), envelope, name);
            assertEq(MessageEncoding.statedId(envelope), messageId, name);
        }
        assertGe(index, 12);
    }

    /// @dev The router may be compiled otherwise than this test.
    function test_TheRouterPacksHashesAndReadsEveryGoldenMessage() public {
        IRouter router = TestedRouter.deploy(address(this));
        RecordingAdapter adapter = new RecordingAdapter();
        router.addAdapter(Gmp.wrap(1), address(adapter));
        GmpFee[] memory gmps = new GmpFee[](1);
        gmps[0].gmp = Gmp.wrap(1);
        string memory golden = vm.readFile("tests/golden/messages.json");
        uint256 index;
        for (; vm.keyExistsJson(golden, entry(index)); ++index) {
            Message memory message = read(golden, string.concat(entry(index), ".message."));
            (uint64 chain, bytes32 peer) = (message.destinationChain, message.destinationRouter);
            bytes memory envelope = vm.parseJsonBytes(golden, string.concat(entry(index), ".envelope"));
            vm.expectCall(address(adapter), abi.encodeCall(IAdapter.quote, (chain, peer, envelope, message.gasLimit)));
            router.quoteRetry(message, gmps);
            // Only what has the id that it states gets as far as that.
            vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.WrongDestination.selector, chain, peer));
            adapter.deliver(router, message.sourceChain, envelope);
        }
        assertGe(index, 12);
    }

    function testFuzz_TheIdIsTheHashOfTheMembersOneByOne(RawMessage memory raw) public pure {
        Message memory message = _cooked(raw);
        bytes32 payloadHash = keccak256(message.payload);
        bytes32 expected = CompilersWay.hash(MessageEncoding.TYPEHASH, MessageEncoding.VERSION, message, payloadHash);
        assertEq(MessageEncoding.id(message), expected);
    }

    function testFuzz_DecodingAnEnvelopeGivesBackItsMessageAndStatedId(RawMessage memory raw, bytes32 stated)
        public
        view
    {
        Message memory message = _cooked(raw);
        bytes memory envelope = MessageEncoding.encode(message, stated);
        assertEq(envelope.length, MessageEncoding.HEADER_LENGTH + message.payload.length);
        (bytes32 found, Message memory decoded) = this.decode(envelope);
        assertEq(found, stated);
        assertEq(keccak256(abi.encode(decoded)), keccak256(abi.encode(message)));
    }

    function testFuzz_DifferentMessagesHaveDifferentIds(RawMessage memory first, RawMessage memory second) public pure {
        Message memory a = _cooked(first);
        Message memory b = _cooked(second);
        vm.assume(keccak256(abi.encode(a)) != keccak256(abi.encode(b)));
        assertNotEq(MessageEncoding.id(a), MessageEncoding.id(b));
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
