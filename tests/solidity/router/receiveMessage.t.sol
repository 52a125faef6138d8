// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {Addresses, DirtyAddress} from "../../../contracts/libraries/Addresses.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {
    Message,
    MessageEncoding,
    TruncatedEnvelope,
    UnknownEnvelopeVersion,
    UnknownKind
} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";

contract ReceiveMessageTest is RouterFixture {
    using Addresses for address;

    function setUp() public override {
        super.setUp();
        onDestination();
    }

    function expectDeliveryRevert(Message memory message, bytes memory reason) internal {
        vm.expectRevert(reason);
        inbound[HYPERLANE].deliver(destination, HERE, envelopeOf(message));
    }

    // ---- refusals

    function testFuzz_Revert_When_TheCallerIsNoAdapter(address caller) public {
        for (uint8 number = 1; number <= 3; ++number) {
            vm.assume(caller != address(inbound[Gmp.wrap(number)]));
        }
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.NotAdapter.selector, caller));
        vm.prank(caller);
        destination.receiveMessage(HERE, envelopeOf(arriving(1)));
    }

    function test_Revert_When_TheCallersAdapterWasRevoked() public {
        vm.prank(owner);
        destination.revokeAdapter(HYPERLANE);
        expectDeliveryRevert(
            arriving(1), abi.encodeWithSelector(IMessageReceiver.NotAdapter.selector, inbound[HYPERLANE])
        );
    }

    function test_Revert_When_TheCallersAdapterWasReplaced() public {
        RecordingAdapter successor = new RecordingAdapter();
        vm.prank(owner);
        destination.replaceAdapter(HYPERLANE, address(successor));
        expectDeliveryRevert(
            arriving(1), abi.encodeWithSelector(IMessageReceiver.NotAdapter.selector, inbound[HYPERLANE])
        );
    }

    function testFuzz_Revert_When_TheEnvelopeIsTruncated(uint256 length) public {
        length = bound(length, 0, MessageEncoding.HEADER_LENGTH - 1);
        bytes memory cut = new bytes(length);
        vm.expectRevert(abi.encodeWithSelector(TruncatedEnvelope.selector, length));
        inbound[HYPERLANE].deliver(destination, HERE, cut);
    }

    function testFuzz_Revert_When_TheVersionIsUnknown(uint8 version) public {
        vm.assume(version != 1);
        bytes memory envelope = envelopeOf(arriving(1));
        envelope[0] = bytes1(version);
        vm.expectRevert(abi.encodeWithSelector(UnknownEnvelopeVersion.selector, version));
        inbound[HYPERLANE].deliver(destination, HERE, envelope);
    }

    function testFuzz_Revert_When_TheKindIsUnknown(uint8 kind) public {
        kind = uint8(bound(kind, 13, 255));
        bytes memory envelope = envelopeOf(arriving(1));
        envelope[205] = bytes1(kind);
        vm.expectRevert(abi.encodeWithSelector(UnknownKind.selector, kind));
        inbound[HYPERLANE].deliver(destination, HERE, envelope);
    }

    function testFuzz_Revert_When_AnyByteWasAltered(uint256 index, bytes1 change) public {
        vm.assume(change != 0);
        bytes memory envelope = envelopeOf(arriving(1));
        index = bound(index, 0, envelope.length - 1);
        envelope[index] ^= change;
        vm.expectRevert();
        inbound[HYPERLANE].deliver(destination, HERE, envelope);
    }

    function testFuzz_Revert_When_TheStatedIdIsNotTheContentsId(bytes32 stated) public {
        Message memory message = arriving(1);
        bytes32 computed = MessageEncoding.id(message);
        vm.assume(stated != computed);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.WrongMessageId.selector, stated, computed));
        inbound[HYPERLANE].deliver(destination, HERE, MessageEncoding.encode(message, stated));
    }

    function test_Revert_When_TheStatedIdIsThatOfAnotherMessageWhichWasReceived() public {
        Message memory message = arriving(2);
        bytes32 stated = MessageEncoding.id(message);
        deliver(HYPERLANE, message);
        message.payload = "another";
        bytes32 computed = MessageEncoding.id(message);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.WrongMessageId.selector, stated, computed));
        inbound[AXELAR].deliver(destination, HERE, MessageEncoding.encode(message, stated));
    }

    function testFuzz_Revert_When_TheGmpVouchesForAnotherChain(uint64 chain) public {
        vm.assume(chain != HERE);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.WrongSourceChain.selector, HERE, chain));
        inbound[HYPERLANE].deliver(destination, chain, envelopeOf(arriving(1)));
    }

    function testFuzz_Revert_When_TheMessageIsForAnotherChain(uint64 chain) public {
        vm.assume(chain != THERE);
        Message memory message = arriving(1);
        message.destinationChain = chain;
        expectDeliveryRevert(
            message,
            abi.encodeWithSelector(IMessageReceiver.WrongDestination.selector, chain, message.destinationRouter)
        );
    }

    function testFuzz_Revert_When_TheMessageIsForAnotherRouter(bytes32 router) public {
        vm.assume(router != address(destination).toBytes32());
        Message memory message = arriving(1);
        message.destinationRouter = router;
        expectDeliveryRevert(message, abi.encodeWithSelector(IMessageReceiver.WrongDestination.selector, THERE, router));
    }

    /// @dev Fork replay: the same bytes on a chain that took another id.
    function testFuzz_Revert_When_TheChainForkedAway(uint64 chain) public {
        vm.assume(chain != THERE && chain != 0);
        Message memory message = arriving(2);
        deliver(AXELAR, message);
        vm.chainId(chain);
        expectDeliveryRevert(
            message,
            abi.encodeWithSelector(IMessageReceiver.WrongDestination.selector, THERE, message.destinationRouter)
        );
    }

    function testFuzz_Revert_When_TheSourceRouterIsNoPeer(bytes32 router) public {
        vm.assume(router != address(source).toBytes32());
        Message memory message = arriving(1);
        message.sourceRouter = router;
        expectDeliveryRevert(message, abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, HERE, router));
    }

    /// @dev Below its quorum a message is not asked where it is from, and at the quorum it is refused until its router is known.
    function testFuzz_ReceiptsFromAnUnknownRouterExecuteNothing(address router) public {
        vm.assume(router != address(source) && router != address(0));
        Message memory message = arriving(2);
        message.sourceRouter = router.toBytes32();
        deliver(HYPERLANE, message);
        bytes memory reason = abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, HERE, router.toBytes32());
        vm.expectRevert(reason);
        inbound[AXELAR].deliver(destination, HERE, envelopeOf(message));
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.QuorumNotReached.selector, MessageEncoding.id(message), 1, 2)
        );
        destination.execute(message);
        assertReceipts(message, 1, Execution.NONE);
        assertEq(recipient.received(), 0);
    }

    /// @dev Once any router was revoked, every receipt asks.
    function testFuzz_Revert_When_ARouterWasRevokedAndThatOfTheMessageIsUnknown(bytes32 router) public {
        vm.assume(router != address(source).toBytes32());
        bytes32 revoked = address(this).toBytes32();
        vm.startPrank(owner);
        destination.setPeer(HERE + 100, revoked, 1);
        destination.revokePeer(HERE + 100, revoked);
        vm.stopPrank();
        Message memory message = arriving(2);
        message.sourceRouter = router;
        expectDeliveryRevert(message, abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, HERE, router));
    }

    /// @dev No router at all is no peer either.
    function testFuzz_Revert_When_TheSourceChainHasNoPeer(uint64 chain) public {
        vm.assume(chain != HERE);
        Message memory message = arriving(1);
        (message.sourceChain, message.sourceRouter) = (chain, 0);
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, chain, bytes32(0)));
        inbound[HYPERLANE].deliver(destination, chain, envelopeOf(message));
    }

    function test_Revert_When_TheSourceRouterWasRevokedWithTheMessageInFlight() public {
        bytes32 router = address(source).toBytes32();
        vm.prank(owner);
        destination.revokePeer(HERE, router);
        expectDeliveryRevert(arriving(1), abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, HERE, router));
    }

    function test_Revert_When_TheQuorumIsZero() public {
        expectDeliveryRevert(arriving(0), abi.encodeWithSelector(IMessageReceiver.ZeroQuorum.selector));
    }

    function testFuzz_Revert_When_SenderOrRecipientIsNoAddress(bytes32 word, bool sender) public {
        vm.assume(uint256(word) >> 160 != 0);
        Message memory message = arriving(2);
        if (sender) message.sender = word;
        else message.recipient = word;
        expectDeliveryRevert(message, abi.encodeWithSelector(DirtyAddress.selector, word));
    }

    function testFuzz_Revert_When_TheSameGmpDeliversAgain(uint8 quorum) public {
        Message memory message = arriving(uint8(bound(quorum, 1, 16)));
        deliver(HYPERLANE, message);
        expectDeliveryRevert(
            message,
            abi.encodeWithSelector(IMessageReceiver.AlreadyReceived.selector, MessageEncoding.id(message), HYPERLANE)
        );
    }

    function test_Revert_When_TheSameGmpDeliversAgainYearsAndManyMessagesLater() public {
        Message memory message = arriving(1);
        deliver(HYPERLANE, message);
        Message memory other = arriving(1);
        for (other.nonce = 2; other.nonce <= 300; ++other.nonce) {
            deliver(HYPERLANE, other);
        }
        vm.warp(block.timestamp + 3650 days);
        expectDeliveryRevert(
            message,
            abi.encodeWithSelector(IMessageReceiver.AlreadyReceived.selector, MessageEncoding.id(message), HYPERLANE)
        );
        assertEq(recipient.timesReceived(MessageEncoding.id(message)), 1);
    }

    function test_Revert_When_TheSameGmpDeliversAgainThroughAnotherAdapter() public {
        Message memory message = arriving(2);
        deliver(HYPERLANE, message);
        inbound[HYPERLANE] = new RecordingAdapter();
        vm.prank(owner);
        destination.replaceAdapter(HYPERLANE, address(inbound[HYPERLANE]));
        expectDeliveryRevert(
            message,
            abi.encodeWithSelector(IMessageReceiver.AlreadyReceived.selector, MessageEncoding.id(message), HYPERLANE)
        );
        assertReceipts(message, 1, Execution.NONE);
    }

    // ---- receipts

    function testFuzz_RecordsAReceiptBelowTheQuorumAndCallsNobody(uint8 quorum) public {
        quorum = uint8(bound(quorum, 2, 16));
        Message memory message = arriving(quorum);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageReceived(
            MessageEncoding.id(message), HERE, AXELAR, 1, quorum, keccak256(message.payload)
        );
        deliver(AXELAR, message);
        assertReceipts(message, 2, Execution.NONE);
        assertTrue(destination.hasReceived(MessageEncoding.id(message), AXELAR));
        assertFalse(destination.hasReceived(MessageEncoding.id(message), HYPERLANE));
        assertEq(recipient.received(), 0);
    }

    function testFuzz_ExecutesOnceWhateverTheOrderAndNumberOfDeliveries(uint256 order, uint8 quorum) public {
        quorum = uint8(bound(quorum, 1, 3));
        Message memory message = arriving(quorum);
        uint8 first = uint8(order % 3) + 1;
        uint8 second = (first % 3) + 1;
        uint8 third = (second % 3) + 1;
        if ((order >> 8) % 2 == 0) (second, third) = (third, second);
        deliver(Gmp.wrap(first), message);
        deliver(Gmp.wrap(second), message);
        deliver(Gmp.wrap(third), message);
        assertEq(recipient.timesReceived(MessageEncoding.id(message)), 1);
        assertReceipts(message, 7, Execution.EXECUTED);
    }

    function test_ALateReceiptOfAnotherGmpIsRecordedAndExecutesNothing() public {
        Message memory message = arriving(1);
        deliver(HYPERLANE, message);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageReceived(
            MessageEncoding.id(message), HERE, AXELAR, 2, 1, keccak256(message.payload)
        );
        vm.recordLogs();
        deliver(AXELAR, message);
        assertNotEmitted(IMessageReceiver.LateReceipt.selector);
        assertEq(recipient.received(), 1);
        assertReceipts(message, 3, Execution.EXECUTED);
    }

    /// @dev A liar that comes first can't take the honest message's place: receipts belong to the whole content's id.
    function testFuzz_ALiarThatDeliversFirstDoesNotHinderTheHonestMessage(bytes calldata forged, uint8 liar) public {
        Message memory honest = arriving(2);
        vm.assume(keccak256(forged) != keccak256(honest.payload) && forged.length < 1000);
        Message memory lie = arriving(2);
        lie.payload = forged;
        liar = uint8(bound(liar, 1, 3));
        deliver(Gmp.wrap(liar), lie);
        deliver(Gmp.wrap(liar % 3 + 1), honest);
        deliver(Gmp.wrap((liar + 1) % 3 + 1), honest);
        assertEq(recipient.received(), 1);
        assertEq(recipient.lastPayload(), honest.payload);
    }

    function testFuzz_ReceiptsOfARevokedGmpDoNotCountAndItMayDeliverAgain(uint8 number, uint8 times) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 4, 16)));
        inbound[gmp] = new RecordingAdapter();
        Message memory message = arriving(2);
        vm.prank(owner);
        destination.addAdapter(gmp, address(inbound[gmp]));
        times = uint8(bound(times, 1, 10));
        for (uint8 time; time < times; ++time) {
            deliver(gmp, message);
            assertReceipts(message, GmpSet.unwrap(gmp.toSet()), Execution.NONE);
            vm.startPrank(owner);
            destination.revokeAdapter(gmp);
            destination.addAdapter(gmp, address(inbound[gmp]));
            vm.stopPrank();
            assertReceipts(message, 0, Execution.NONE);
        }
        deliver(AXELAR, message);
        assertEq(recipient.received(), 0);
        deliver(gmp, message);
        assertEq(recipient.received(), 1);
    }

    function test_ReceiptsOutliveTheReplacementOfTheirAdapter() public {
        Message memory message = arriving(2);
        deliver(HYPERLANE, message);
        RecordingAdapter successor = new RecordingAdapter();
        vm.prank(owner);
        destination.replaceAdapter(HYPERLANE, address(successor));
        deliver(AXELAR, message);
        assertEq(recipient.received(), 1);
    }
}
