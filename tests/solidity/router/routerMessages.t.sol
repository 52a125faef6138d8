// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {IRouterMessages} from "../../../contracts/interfaces/IRouterMessages.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageEncoding, Retry, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterFixture} from "./RouterFixture.sol";

/// @dev Pays back what a message's payload names once the message has ended in vain. It keeps no account of what it sent: the id
///      binds its own address as the sender.
contract RefundingApp {
    IRouter private immutable _router;

    error NotMine();
    error NotInVain();

    constructor(IRouter router) {
        _router = router;
    }

    function refund(Message calldata message) external {
        if (message.sender != bytes32(uint256(uint160(address(this))))) revert NotMine();
        Execution outcome = _router.outcomeOf(MessageEncoding.id(message));
        if (outcome != Execution.EXPIRED && outcome != Execution.CANCELLED) revert NotInVain();
        (address payer, uint256 amount) = abi.decode(message.payload, (address, uint256));
        payable(payer).transfer(amount);
    }
}

contract RouterMessagesTest is RouterFixture {
    using Addresses for address;

    Message internal original;
    bytes32 internal originalId;

    function setUp() public override {
        super.setUp();
        (original, originalId) = send(usualRoute(2, 2));
    }

    // ---- driving

    function cancel() internal returns (bytes32 cancellationId, bytes memory envelope) {
        onSource();
        vm.prank(alice);
        cancellationId = source.cancel(original, 2, firstGmps(2), refundee);
        envelope = outbound[HYPERLANE].lastEnvelope();
    }

    function report() internal returns (bytes32 reportId, bytes memory envelope) {
        onDestination();
        vm.prank(stranger);
        reportId = destination.report(original, 2, firstGmps(2), refundee);
        envelope = inbound[HYPERLANE].lastEnvelope();
    }

    function deliverThere(Gmp gmp, bytes memory envelope) internal {
        onDestination();
        inbound[gmp].deliver(destination, HERE, envelope);
    }

    function deliverHere(Gmp gmp, bytes memory envelope) internal {
        onSource();
        outbound[gmp].deliver(source, THERE, envelope);
    }

    function stateThere(bytes32 messageId) internal view returns (Execution execution) {
        (, execution) = destination.receiptsOf(messageId);
    }

    function executeOriginal() internal {
        deliver(HYPERLANE, original);
        deliver(AXELAR, original);
        assertEq(recipient.received(), 1);
    }

    /// @dev A message from router to router about the original, as a liar would write it.
    function forge(Kind kind) internal view returns (Message memory forged) {
        bool back = kind == Kind.REPORT;
        Message memory header = original;
        bytes32 payloadHash = keccak256(header.payload);
        header.payload = "";
        forged = original;
        forged.kind = kind;
        forged.ttl = 0;
        forged.gasLimit = 0;
        forged.nonce = 99;
        forged.replaces = originalId;
        if (back) {
            (forged.sourceChain, forged.destinationChain) = (THERE, HERE);
            (forged.sourceRouter, forged.destinationRouter) = (original.destinationRouter, original.sourceRouter);
            forged.sender = forged.sourceRouter;
        }
        forged.recipient = forged.destinationRouter;
        forged.payload = abi.encode(header, payloadHash, back ? Execution.EXECUTED : Execution.CANCELLED);
    }

    // ---- cancel

    function testFuzz_Revert_When_AnotherThanTheSenderCancels(address caller) public {
        vm.assume(caller != alice);
        vm.prank(alice);
        source.appointRetrier(caller);
        vm.expectRevert(abi.encodeWithSelector(IRouterMessages.NotSender.selector, originalId, caller, alice));
        vm.prank(caller);
        source.cancel(original, 1, firstGmps(1), refundee);
    }

    /// @dev The flag of a cancellation that came first was overwritten, and the message could be retried.
    function test_Revert_When_WhatIsNotCreatedYetIsCancelled() public {
        onSource();
        Message memory next = expectedMessage(alice, usualRoute(2, 2));
        vm.expectRevert(abi.encodeWithSelector(IRouterMessages.NotCreated.selector, MessageEncoding.id(next)));
        vm.prank(alice);
        source.cancel(next, 2, firstGmps(2), refundee);
    }

    /// @dev The source took it, and every delivery reverted.
    function testFuzz_Revert_When_NoRouterWouldTakeTheCancellation(uint8 quorum, uint96 dirt) public {
        Message memory message = original;
        message.quorum = quorum == 0 ? 0 : uint8(bound(quorum, 17, 255));
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.InvalidQuorum.selector, message.quorum, 16));
        vm.prank(alice);
        source.cancel(message, 2, firstGmps(2), refundee);
        message = original;
        message.recipient |= bytes32(bound(dirt, 1, type(uint96).max) << 160);
        vm.expectRevert();
        vm.prank(alice);
        source.cancel(message, 2, firstGmps(2), refundee);
    }

    function testFuzz_Revert_When_AMessageOfAnotherSourceIsCancelled(uint64 chain, bytes32 router) public {
        vm.assume(chain != HERE || router != original.sourceRouter);
        Message memory message = original;
        (message.sourceChain, message.sourceRouter) = (chain, router);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.WrongSource.selector, chain, router));
        vm.prank(alice);
        source.cancel(message, 1, firstGmps(1), refundee);
    }

    function testFuzz_Revert_When_ARouterMessageIsCancelledOrReported(bool isReport) public {
        Message memory message = original;
        message.kind = isReport ? Kind.REPORT : Kind.CANCELLATION;
        bytes memory reason =
            abi.encodeWithSelector(IRouterMessages.NotForRouterMessages.selector, MessageEncoding.id(message));
        vm.startPrank(alice);
        vm.expectRevert(reason);
        source.cancel(message, 1, firstGmps(1), refundee);
        vm.expectRevert(reason);
        source.report(message, 1, firstGmps(1), refundee);
    }

    function test_Revert_When_ACancelledMessageIsRetried() public {
        cancel();
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.AlreadyCancelled.selector, originalId));
        vm.prank(alice);
        source.retryRoute(usualRetry(original, WORMHOLE));
    }

    function test_ACancellationIsAMessageOfTheSenderThatNeverExpiresAndMayBeRetried() public {
        vm.expectEmit(true, false, false, false, address(source));
        emit IRouterMessages.CancellationRequested(originalId, 0);
        (bytes32 cancellationId, bytes memory envelope) = cancel();
        (bytes32 stated, Message memory message) = this.decode(envelope);
        assertEq(stated, cancellationId);
        assertEq(uint8(message.kind), uint8(Kind.CANCELLATION));
        assertEq(message.sender, alice.toBytes32());
        assertEq(message.quorum, original.quorum);
        assertEq(message.ttl, 0);
        assertEq(message.replaces, originalId);
        assertEq(message.nonce, 2);
        vm.prank(alice);
        assertEq(source.retryRoute(usualRetry(message, WORMHOLE)), 1);
    }

    function decode(bytes calldata envelope) external pure returns (bytes32, Message memory) {
        return MessageEncoding.decode(envelope);
    }

    // ---- arrival of a cancellation

    function testFuzz_ACancellationThatComesFirstLeavesATombstone(uint8 order) public {
        (, bytes memory envelope) = cancel();
        deliverThere(HYPERLANE, envelope);
        assertEq(uint8(stateThere(originalId)), uint8(Execution.NONE));
        deliverThere(order % 2 == 0 ? AXELAR : WORMHOLE, envelope);
        assertEq(uint8(stateThere(originalId)), uint8(Execution.CANCELLED));
        deliver(HYPERLANE, original);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.LateReceipt(originalId, HERE, AXELAR, Execution.CANCELLED);
        deliver(AXELAR, original);
        assertEq(recipient.received(), 0);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.AlreadyEnded.selector, originalId, Execution.CANCELLED));
        destination.execute(original);
    }

    function test_ACancellationStopsAMessageThatLacksAReceipt() public {
        deliver(HYPERLANE, original);
        (bytes32 cancellationId, bytes memory envelope) = cancel();
        deliverThere(AXELAR, envelope);
        vm.expectEmit(address(destination));
        emit IRouterMessages.MessageCancelled(originalId, HERE, cancellationId);
        deliverThere(HYPERLANE, envelope);
        deliver(AXELAR, original);
        assertEq(recipient.received(), 0);
        (GmpSet receipts,) = destination.receiptsOf(originalId);
        assertEq(GmpSet.unwrap(receipts), 3);
    }

    function testFuzz_ACancellationEndsAMessageOfAnyKind(uint8 kind) public {
        Route memory request = usualRoute(2, 2);
        request.kind = Kind(bound(kind, 0, uint8(Kind.GOVERNANCE_EXECUTE)));
        if (request.kind == Kind.REGULATORY_ACTION_CRITICAL) request.ttl = 0;
        onSource();
        (original, originalId) = send(request);
        (, bytes memory envelope) = cancel();
        deliverThere(HYPERLANE, envelope);
        deliverThere(AXELAR, envelope);
        assertEq(uint8(stateThere(originalId)), uint8(Execution.CANCELLED));
        deliver(HYPERLANE, original);
        deliver(AXELAR, original);
        assertEq(recipient.received(), 0);
    }

    function test_ACancellationThatComesTooLateChangesNothing() public {
        executeOriginal();
        (bytes32 cancellationId, bytes memory envelope) = cancel();
        deliverThere(HYPERLANE, envelope);
        vm.expectEmit(address(destination));
        emit IRouterMessages.CancellationRejected(originalId, HERE, cancellationId, Execution.EXECUTED);
        deliverThere(AXELAR, envelope);
        assertEq(uint8(stateThere(originalId)), uint8(Execution.EXECUTED));
    }

    /// @dev The recipient's demand protects it against forged cancellations as well as against forged messages.
    function test_ACancellationNeedsWhatTheRecipientDemands() public {
        vm.prank(address(recipient));
        destination.setPolicy(HERE, 3, GmpSet.wrap(7));
        (, bytes memory envelope) = cancel();
        deliverThere(HYPERLANE, envelope);
        deliverThere(AXELAR, envelope);
        assertEq(uint8(stateThere(originalId)), uint8(Execution.NONE));
        deliverThere(WORMHOLE, envelope);
        assertEq(uint8(stateThere(originalId)), uint8(Execution.CANCELLED));
    }

    function expectInvalid(IRouter router, Message memory forged) internal {
        bytes32 messageId = MessageEncoding.id(forged);
        bytes memory reason = abi.encodeWithSelector(IRouterMessages.InvalidRouterMessage.selector, messageId);
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.ExecutionReverted.selector, messageId, reason), address(router)
        );
    }

    function testFuzz_AForgedCancellationThatDoesNotFitCancelsNothing(uint8 field, uint64 change) public {
        vm.assume(change != 0);
        Message memory forged = forge(Kind.CANCELLATION);
        field %= 3;
        if (field == 0) forged.sender = address(uint160(uint256(forged.sender)) ^ uint160(change)).toBytes32();
        if (field == 1) forged.quorum = 1;
        if (field == 2) forged.replaces ^= bytes32(uint256(change));
        deliver(HYPERLANE, forged);
        if (forged.quorum == 2) deliver(AXELAR, forged);
        expectInvalid(destination, forged);
        destination.execute(forged);
        assertEq(uint8(stateThere(originalId)), uint8(Execution.NONE));
        assertEq(uint8(stateThere(MessageEncoding.id(forged))), uint8(Execution.NONE));
        executeOriginal();
    }

    function test_CancellationsAndReportsGoOverAllGmpsUnlessFewerAreSaidToDo() public {
        uint48 until = uint48(block.timestamp + 1 hours);
        vm.startPrank(owner);
        source.pauseGmp(AXELAR, until);
        destination.pauseGmp(AXELAR, until);
        vm.stopPrank();
        bytes memory reason =
            tooFew(1, 2, oneGmp(AXELAR), abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, AXELAR, until));
        onSource();
        vm.expectRevert(reason);
        vm.prank(alice);
        source.cancel(original, 0, firstGmps(2), refundee);
        vm.prank(alice);
        source.cancel(original, 1, firstGmps(2), refundee);
        onDestination();
        vm.warp(until);
        executeOriginal();
        vm.warp(until - 1);
        vm.expectRevert(reason);
        destination.report(original, 0, firstGmps(2), refundee);
        destination.report(original, 1, firstGmps(2), refundee);
    }

    // ---- report

    function test_Revert_When_NothingHasEnded() public {
        deliver(HYPERLANE, original);
        vm.expectRevert(abi.encodeWithSelector(IRouterMessages.NothingToReport.selector, originalId));
        destination.report(original, 1, firstGmps(1), refundee);
    }

    function test_AReportOfAnExecutionReachesTheSource() public {
        executeOriginal();
        (, bytes memory envelope) = report();
        deliverHere(HYPERLANE, envelope);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.NONE));
        vm.expectEmit(address(source));
        emit IRouterMessages.OutcomeReported(originalId, THERE, Execution.EXECUTED);
        deliverHere(AXELAR, envelope);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.EXECUTED));
    }

    /// @dev The destination marks any header as expired and reports it: that proves that it will not be executed, not that it
    ///      was ever sent.
    function testFuzz_AnHonestReportOfAMessageThatWasNeverSentRefundsNothing(uint64 nonce) public {
        RefundingApp app = new RefundingApp(source);
        vm.deal(address(app), 10 ether);
        Message memory invented = original;
        invented.sender = address(app).toBytes32();
        invented.nonce = nonce;
        invented.payload = abi.encode(stranger, 10 ether);
        bytes32 inventedId = MessageEncoding.id(invented);
        onDestination();
        vm.warp(START + invented.ttl + 1);
        destination.expire(invented);
        destination.report(invented, 2, firstGmps(2), refundee);
        bytes memory envelope = inbound[HYPERLANE].lastEnvelope();
        deliverHere(HYPERLANE, envelope);
        vm.expectEmit(address(source));
        emit IRouterMessages.OutcomeReported(inventedId, THERE, Execution.EXPIRED);
        deliverHere(AXELAR, envelope);
        assertEq(uint8(source.outcomeOf(inventedId)), uint8(Execution.NONE), "noted");
        vm.expectRevert(RefundingApp.NotInVain.selector);
        app.refund(invented);
        assertEq(stranger.balance, 100 ether);
    }

    /// @dev A cancellation asks nobody whether the message exists; the flag that it leaves is no proof.
    function test_ACancellationOfAMessageThatWasNeverSentProvesNothing() public {
        original.payload = "never sent";
        originalId = MessageEncoding.id(original);
        (, bytes memory cancellation) = cancel();
        deliverThere(HYPERLANE, cancellation);
        deliverThere(AXELAR, cancellation);
        assertEq(uint8(stateThere(originalId)), uint8(Execution.CANCELLED));
        (, bytes memory envelope) = report();
        deliverHere(HYPERLANE, envelope);
        deliverHere(AXELAR, envelope);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.NONE));
    }

    /// @dev What was sent without a slot can't be told from what was never sent: the report is an event, each time.
    function test_TheOutcomeOfAMessageThatIsNotRetriableIsAnEventOnly() public {
        Route memory request = usualRoute(2, 2);
        request.retriable = false;
        (original, originalId) = send(request);
        executeOriginal();
        for (uint256 time; time < 2; ++time) {
            (, bytes memory envelope) = report();
            deliverHere(HYPERLANE, envelope);
            vm.expectEmit(address(source));
            emit IRouterMessages.OutcomeReported(originalId, THERE, Execution.EXECUTED);
            deliverHere(AXELAR, envelope);
        }
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.NONE));
    }

    function test_AReportOfAnExpiryReachesTheSource() public {
        onDestination();
        vm.warp(START + original.ttl + 1);
        destination.expire(original);
        (, bytes memory envelope) = report();
        deliverHere(HYPERLANE, envelope);
        deliverHere(WORMHOLE, envelope);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.EXPIRED));
    }

    function test_AReportOfACancellationReachesTheSource() public {
        (, bytes memory cancellation) = cancel();
        deliverThere(HYPERLANE, cancellation);
        deliverThere(AXELAR, cancellation);
        (, bytes memory envelope) = report();
        deliverHere(HYPERLANE, envelope);
        deliverHere(AXELAR, envelope);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.CANCELLED));
    }

    function testFuzz_AnyoneMayRetryAReport(address caller) public {
        executeOriginal();
        (, bytes memory envelope) = report();
        (, Message memory message) = this.decode(envelope);
        Retry memory request = usualRetry(message, WORMHOLE);
        vm.prank(caller);
        assertEq(destination.retryRoute(request), 1);
        assertEq(inbound[WORMHOLE].lastEnvelope(), envelope);
    }

    function test_ASecondReportOfTheSameOutcomeChangesNothing() public {
        executeOriginal();
        for (uint256 time; time < 2; ++time) {
            (, bytes memory envelope) = report();
            vm.recordLogs();
            deliverHere(HYPERLANE, envelope);
            deliverHere(AXELAR, envelope);
        }
        assertNotEmitted(IRouterMessages.OutcomeContradicted.selector);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.EXECUTED));
        (uint64 count,) = source.executedFrom(THERE);
        assertEq(count, 2);
    }

    function test_AContradictingReportIsMadeKnownAndTheFirstStays() public {
        vm.warp(START + original.ttl + 1);
        onDestination();
        destination.expire(original);
        (, bytes memory envelope) = report();
        deliverHere(HYPERLANE, envelope);
        deliverHere(AXELAR, envelope);
        bytes memory lie = envelopeOf(forge(Kind.REPORT));
        deliverHere(HYPERLANE, lie);
        vm.expectEmit(address(source));
        emit IRouterMessages.OutcomeContradicted(originalId, THERE, Execution.EXPIRED, Execution.EXECUTED);
        deliverHere(AXELAR, lie);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.EXPIRED));
    }

    /// @dev A dApp refunds on a report: its own policy decides how many GMPs must say so.
    function test_AReportNeedsWhatTheSenderDemands() public {
        vm.prank(alice);
        source.setPolicy(THERE, 3, GmpSet.wrap(7));
        executeOriginal();
        (, bytes memory envelope) = report();
        deliverHere(HYPERLANE, envelope);
        deliverHere(AXELAR, envelope);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.NONE));
        deliverHere(WORMHOLE, envelope);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.EXECUTED));
    }

    function testFuzz_AForgedReportThatDoesNotFitIsNotNoted(uint8 field, uint64 change) public {
        vm.assume(change != 0);
        Message memory forged = forge(Kind.REPORT);
        field %= 4;
        if (field == 0) forged.sender = address(uint160(uint256(forged.sender)) ^ uint160(change)).toBytes32();
        if (field == 1) forged.quorum = 1;
        if (field == 2) forged.replaces ^= bytes32(uint256(change));
        if (field == 3) {
            Message memory header = original;
            bytes32 payloadHash = keccak256(header.payload);
            header.payload = "";
            forged.payload = abi.encode(header, payloadHash, Execution.NONE);
        }
        bytes memory envelope = envelopeOf(forged);
        deliverHere(HYPERLANE, envelope);
        deliverHere(AXELAR, envelope);
        expectInvalid(source, forged);
        source.execute(forged);
        assertEq(uint8(source.outcomeOf(originalId)), uint8(Execution.NONE));
        assertEq(uint8(source.outcomeOf(forged.replaces)), uint8(Execution.NONE));
    }
}
