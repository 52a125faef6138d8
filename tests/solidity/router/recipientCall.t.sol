// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";
import {
    DegradingRecipient,
    GasBurningRecipient,
    ReentrantRecipient,
    ReturnBombRecipient,
    RevertingRecipient,
    SilentRecipient,
    WrongReturnRecipient
} from "./doubles/Recipients.sol";

/// @dev How receiveMessage and execute call the recipient: what it is given, what it may do, and what its failure leaves.
contract RecipientCallTest is RouterFixture {
    using Addresses for address;

    function setUp() public override {
        super.setUp();
        onDestination();
    }

    // ---- the call

    function testFuzz_CallsTheRecipientWithRouterIdSenderAndPayload(bytes calldata payload, address sender) public {
        vm.assume(payload.length <= 4096);
        Message memory message = arriving(1);
        (message.payload, message.sender) = (payload, sender.toBytes32());
        bytes32 messageId = MessageEncoding.id(message);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageExecuted(messageId, HERE, address(recipient), keccak256(payload));
        deliver(HYPERLANE, message);
        assertEq(recipient.lastCaller(), address(destination));
        assertEq(recipient.lastId(), messageId);
        // ERC-7930: version 1, type eip155, one byte of chain id, twenty of address.
        assertEq(recipient.lastSender(), abi.encodePacked(hex"00010000", uint8(1), uint8(HERE), uint8(20), sender));
        assertEq(recipient.lastPayload(), payload);
    }

    /// @dev What ERC-7786 does not tell a recipient it may ask while it is called, and only then.
    function testFuzz_TellsTheRecipientWhatIsExecuting(uint8 kind, uint64 nonce, bytes32 replaces) public {
        ReentrantRecipient asking = new ReentrantRecipient();
        asking.reenterWith(address(destination), abi.encodeCall(destination.executing, ()));
        Message memory message = arrivingFor(address(asking), 1);
        (message.nonce, message.replaces) = (nonce, replaces);
        message.kind = Kind(bound(kind, 0, uint8(Kind.GOVERNANCE_EXECUTE)));
        deliver(HYPERLANE, message);
        assertEq(asking.answer(), abi.encode(MessageEncoding.id(message), message.kind, nonce, replaces));
        (bytes32 id, Kind none, uint64 zero, bytes32 nothing) = destination.executing();
        assertEq(abi.encode(id, none, zero, nothing), new bytes(128));
    }

    function testFuzz_CountsExecutionsAndSumsTheirIdsOnTheLane(uint8 messages) public {
        messages = uint8(bound(messages, 1, 20));
        uint192 expected;
        for (uint64 nonce = 1; nonce <= messages; ++nonce) {
            Message memory message = arriving(1);
            message.nonce = nonce;
            deliver(AXELAR, message);
            unchecked {
                expected += uint192(uint256(MessageEncoding.id(message)));
            }
        }
        (uint64 count, uint192 sum) = destination.executedFrom(HERE);
        assertEq(count, messages);
        assertEq(sum, expected);
    }

    /// @dev Glacis lost the last receipt with the recipient's revert; here it stays.
    function testFuzz_ARecipientThatRevertsAtTheQuorumKeepsAllReceipts(uint8 quorum) public {
        quorum = uint8(bound(quorum, 1, 3));
        RevertingRecipient reverting = new RevertingRecipient();
        Message memory message = arrivingFor(address(reverting), quorum);
        bytes32 messageId = MessageEncoding.id(message);
        for (uint8 number = 1; number < quorum; ++number) {
            deliver(Gmp.wrap(number), message);
        }
        vm.expectEmit(address(destination));
        emit IMessageReceiver.ExecutionFailed(
            messageId, HERE, abi.encodeWithSelector(RevertingRecipient.NotYet.selector, messageId)
        );
        deliver(Gmp.wrap(quorum), message);
        assertReceipts(message, uint16((1 << quorum) - 1), Execution.NONE);
        (uint64 count,) = destination.executedFrom(HERE);
        assertEq(count, 0);
    }

    function testFuzz_UndoesWhatARecipientWithAWrongReturnValueDid(bytes4 answer) public {
        vm.assume(answer != recipient.receiveMessage.selector);
        WrongReturnRecipient wrong = new WrongReturnRecipient(answer);
        Message memory message = arrivingFor(address(wrong), 1);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.ExecutionFailed(
            MessageEncoding.id(message),
            HERE,
            abi.encodeWithSelector(IMessageReceiver.WrongReturnValue.selector, address(wrong))
        );
        deliver(HYPERLANE, message);
        assertEq(wrong.received(), 0);
        assertReceipts(message, 1, Execution.NONE);
    }

    function test_UndoesWhatARecipientThatReturnsNothingDid() public {
        SilentRecipient silent = new SilentRecipient();
        Message memory message = arrivingFor(address(silent), 1);
        deliver(HYPERLANE, message);
        assertEq(silent.received(), 0);
        assertReceipts(message, 1, Execution.NONE);
    }

    /// @dev Whoever sent such a message, the router's own rights are not his: neither it nor an adapter is ever called.
    function testFuzz_NeverCallsItselfOrAnAdapter(uint8 number) public {
        number %= 4;
        address target = number == 0 ? address(destination) : address(inbound[Gmp.wrap(number)]);
        Message memory message = arrivingFor(target, 1);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.ExecutionFailed(
            MessageEncoding.id(message),
            HERE,
            abi.encodeWithSelector(IMessageReceiver.ForbiddenRecipient.selector, target)
        );
        deliver(HYPERLANE, message);
        assertReceipts(message, 1, Execution.NONE);
    }

    function testFuzz_ARecipientWithoutCodeHasNotReceived(address account) public {
        vm.assume(account.code.length == 0 && uint160(account) > 255);
        Message memory message = arrivingFor(account, 1);
        deliver(HYPERLANE, message);
        assertReceipts(message, 1, Execution.NONE);
    }

    function testFuzz_CopiesAtMost256BytesOfAMegabyteAnswer(bool reverts) public {
        Message memory message = arrivingFor(address(new ReturnBombRecipient(reverts)), 1);
        message.gasLimit = 3_000_000;
        uint256 before = gasleft();
        deliver(HYPERLANE, message);
        assertLt(before - gasleft(), 2_600_000);
        assertReceipts(message, 1, Execution.NONE);
    }

    function testFuzz_ARecipientThatBurnsAllGasLeavesEnoughToKeepTheReceipt(uint64 gasLimit) public {
        Message memory message = arrivingFor(address(new GasBurningRecipient()), 1);
        message.gasLimit = uint64(bound(gasLimit, 0, 2_000_000));
        onDestination();
        inbound[HYPERLANE].deliver{gas: 4_000_000}(destination, HERE, envelopeOf(message));
        assertReceipts(message, 1, Execution.NONE);
    }

    /// @dev Whatever gas a relayer chooses, the recipient gets its limit or is not called: it can't be made to succeed
    ///      by half.
    function testFuzz_NoAmountOfGasGivesTheRecipientLessThanItsLimit(uint256 gas, uint64 gasLimit) public {
        gasLimit = uint64(bound(gasLimit, 30_000, 1_000_000));
        gas = bound(gas, 60_000, 2 * uint256(gasLimit) + 300_000);
        // What the recipient itself spends before it looks.
        DegradingRecipient degrading = new DegradingRecipient(gasLimit - 2_000);
        Message memory message = arrivingFor(address(degrading), 1);
        message.gasLimit = gasLimit;
        bytes memory envelope = envelopeOf(message);
        try inbound[HYPERLANE].deliver{gas: gas}(destination, HERE, envelope) {} catch {}
        assertEq(degrading.degraded(), 0);
    }

    function testFuzz_DefersInsteadOfFailingWhenTheGasIsTooLittle(uint64 gasLimit, uint16 words) public {
        gasLimit = uint64(bound(gasLimit, 500_000, type(uint64).max));
        Message memory message = arriving(1);
        message.gasLimit = gasLimit;
        message.payload = new bytes(32 * bound(words, 0, 512));
        bytes memory envelope = envelopeOf(message);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.ExecutionDeferred(MessageEncoding.id(message), HERE, gasLimit);
        inbound[HYPERLANE].deliver{gas: 480_000}(destination, HERE, envelope);
        assertReceipts(message, 1, Execution.NONE);
        assertEq(recipient.received(), 0);
    }

    /// @dev Between "too little to record the receipt" and "enough to call" lies only deferral: a recipient that can't
    ///      fail never seems to have failed.
    function testFuzz_LackOfGasIsNeverReportedAsTheRecipientsFailure(uint256 gas, uint16 words) public {
        Message memory message = arrivingFor(address(new DegradingRecipient(0)), 1);
        message.payload = new bytes(32 * bound(words, 0, 256));
        bytes memory envelope = envelopeOf(message);
        vm.recordLogs();
        try inbound[HYPERLANE].deliver{gas: bound(gas, 50_000, 700_000)}(destination, HERE, envelope) {} catch {}
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 index; index < logs.length; ++index) {
            assertNotEq(logs[index].topics[0], IMessageReceiver.ExecutionFailed.selector);
        }
    }

    // ---- reentry

    function test_Revert_When_ARecipientDeliversWhileItReceives() public {
        ReentrantRecipient reentrant = new ReentrantRecipient();
        Message memory other = arriving(1);
        other.nonce = 2;
        reentrant.reenterWith(
            address(inbound[HYPERLANE]),
            abi.encodeCall(RecordingAdapter.deliver, (destination, HERE, envelopeOf(other)))
        );
        deliver(HYPERLANE, arrivingFor(address(reentrant), 1));
        assertFalse(reentrant.reentered());
        assertEq(reentrant.answer(), abi.encodeWithSelector(IMessageReceiver.ReceivingReentered.selector));
        assertEq(recipient.received(), 0);
    }

    function test_Revert_When_ARecipientExecutesWhileItReceives() public {
        RevertingRecipient reverting = new RevertingRecipient();
        Message memory waiting = arrivingFor(address(reverting), 1);
        deliver(HYPERLANE, waiting);
        reverting.mend();
        ReentrantRecipient reentrant = new ReentrantRecipient();
        reentrant.reenterWith(address(destination), abi.encodeCall(destination.execute, (waiting)));
        deliver(HYPERLANE, arrivingFor(address(reentrant), 1));
        assertFalse(reentrant.reentered());
        assertEq(reentrant.answer(), abi.encodeWithSelector(IMessageReceiver.ReceivingReentered.selector));
    }

    function test_ARecipientMayRouteWhileItReceives() public {
        ReentrantRecipient reentrant = new ReentrantRecipient();
        uint64 third = 777;
        vm.prank(owner);
        destination.setPeer(third, makeAddr("third router").toBytes32(), 1);
        Message memory message = arrivingFor(address(reentrant), 1);
        message.gasLimit = 5_000_000;
        Route memory request = usualRoute(1, 1);
        request.destinationChain = third;
        reentrant.reenterWith(address(destination), abi.encodeCall(destination.route, (request)));
        deliver(HYPERLANE, message);
        assertTrue(reentrant.reentered());
        (uint64 count,) = destination.sentTo(third);
        assertEq(count, 1);
    }
}
