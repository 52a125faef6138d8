// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouterViews} from "../../../contracts/interfaces/IRouterViews.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, MessageEncoding, Retry, Route} from "../../../contracts/types/Message.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {FailingAdapter, ReentrantAdapter} from "./doubles/Adapters.sol";

contract RetryRouteTest is RouterFixture {
    using Addresses for address;

    Message internal sent;
    bytes32 internal sentId;

    function setUp() public override {
        super.setUp();
        (sent, sentId) = send(usualRoute(1, 1));
    }

    function expectRetryRevert(address caller, Retry memory request, bytes memory reason) internal {
        vm.expectRevert(reason);
        vm.prank(caller);
        source.retryRoute{value: totalFee(request.gmps)}(request);
    }

    function retry(Retry memory request) internal returns (uint32 attempt) {
        vm.prank(alice);
        return source.retryRoute{value: totalFee(request.gmps)}(request);
    }

    // ---- refusals

    function test_Revert_When_AnAdapterRetriesWhileItIsGivenAnEnvelope() public {
        ReentrantAdapter adapter = new ReentrantAdapter();
        vm.prank(owner);
        source.replaceAdapter(AXELAR, address(adapter));
        adapter.reenterWith(address(source), abi.encodeCall(source.retryRoute, (usualRetry(sent, WORMHOLE))));
        retry(usualRetry(sent, AXELAR));
        assertFalse(adapter.reentered());
        assertEq(adapter.answer(), abi.encodeWithSelector(IMessageSender.SendingReentered.selector));
    }

    function testFuzz_Revert_When_AnyFieldDiffersFromTheOriginal(uint8 field, uint64 change) public {
        vm.assume(change != 0);
        Message memory altered = alter(sent, field, change);
        Retry memory request = usualRetry(altered, AXELAR);
        request.messageId = sentId;
        bytes32 computed = MessageEncoding.id(altered);
        expectRetryRevert(
            alice, request, abi.encodeWithSelector(IMessageSender.MessageIdMismatch.selector, sentId, computed)
        );
    }

    function testFuzz_Revert_When_AnyPayloadByteDiffersFromTheOriginal(uint256 index, bytes1 change) public {
        vm.assume(change != 0);
        Message memory altered = sent;
        index = bound(index, 0, altered.payload.length - 1);
        altered.payload[index] ^= change;
        Retry memory request = usualRetry(altered, AXELAR);
        bytes32 computed = request.messageId;
        request.messageId = sentId;
        expectRetryRevert(
            alice, request, abi.encodeWithSelector(IMessageSender.MessageIdMismatch.selector, sentId, computed)
        );
    }

    function testFuzz_Revert_When_AnotherIdIsStated(bytes32 stated) public {
        vm.assume(stated != sentId);
        bytes32[2] memory others = [stated, bytes32(0)];
        for (uint256 index; index < others.length; ++index) {
            Retry memory request = usualRetry(sent, AXELAR);
            request.messageId = others[index];
            expectRetryRevert(
                alice, request, abi.encodeWithSelector(IMessageSender.MessageIdMismatch.selector, others[index], sentId)
            );
        }
    }

    function testFuzz_Revert_When_ANumberHasDirtyUpperBytes(uint8 member, uint8 bit) public {
        uint256[8] memory words = [uint256(0), 3, 4, 7, 8, 9, 10, 11];
        uint256[8] memory widths = [uint256(64), 64, 64, 64, 64, 32, 8, 8];
        member = uint8(bound(member, 0, 7));
        Retry memory request = usualRetry(sent, AXELAR);
        bytes memory data = abi.encodeCall(source.retryRoute, (request));
        uint256 dirt = 1 << bound(bit, widths[member], 255);
        uint256 word = words[member];
        assembly ("memory-safe") {
            let at := add(data, 0x44) // the request, after the length, the selector and where it begins
            at := add(add(at, mload(add(at, 0x20))), mul(word, 0x20)) // its message's member
            mstore(at, or(mload(at), dirt))
        }
        uint256 fee = totalFee(request.gmps);
        vm.prank(alice);
        (bool success, bytes memory answer) = address(source).call{value: fee}(data);
        assertFalse(success, "it was sent");
        assertEq(answer, "");
    }

    function testFuzz_Revert_When_TheMessageWasNeverCreatedHere(uint8 field, uint64 change) public {
        vm.assume(change != 0);
        Retry memory request = usualRetry(alter(sent, field, change), AXELAR);
        expectRetryRevert(
            alice, request, abi.encodeWithSelector(IMessageSender.NotRetriable.selector, request.messageId)
        );
    }

    function test_Revert_When_TheMessageWasNotCreatedAsRetriable() public {
        Route memory once = usualRoute(1, 1);
        once.retriable = false;
        (Message memory message, bytes32 messageId) = send(once);
        expectRetryRevert(
            alice, usualRetry(message, AXELAR), abi.encodeWithSelector(IMessageSender.NotRetriable.selector, messageId)
        );
    }

    /// @dev Also not if the sender is the caller's retrier.
    function testFuzz_Revert_When_TheCallerIsNeitherSenderNorRetrier(address caller) public {
        vm.assume(caller != alice && caller != address(0));
        vm.prank(caller);
        source.appointRetrier(alice);
        expectRetryRevert(
            caller,
            usualRetry(sent, AXELAR),
            abi.encodeWithSelector(IMessageSender.NotSenderOrRetrier.selector, sentId, caller, alice)
        );
    }

    function test_Revert_When_TheRetrierWasDismissed() public {
        vm.startPrank(alice);
        source.appointRetrier(stranger);
        source.appointRetrier(address(0));
        vm.stopPrank();
        expectRetryRevert(
            stranger,
            usualRetry(sent, AXELAR),
            abi.encodeWithSelector(IMessageSender.NotSenderOrRetrier.selector, sentId, stranger, alice)
        );
    }

    /// @dev After a fork both chains hold the message's slot; only the one that kept the chain id may send it again.
    function testFuzz_Revert_When_TheChainForkedAway(uint64 chain) public {
        vm.assume(chain != HERE && chain != 0);
        vm.chainId(chain);
        expectRetryRevert(
            alice,
            usualRetry(sent, AXELAR),
            abi.encodeWithSelector(IMessageSender.WrongSource.selector, HERE, address(source).toBytes32())
        );
    }

    function test_Revert_When_TheDestinationRouterWasRevoked() public {
        bytes32 router = address(destination).toBytes32();
        vm.prank(owner);
        source.revokePeer(THERE, router);
        expectRetryRevert(
            alice, usualRetry(sent, AXELAR), abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, THERE, router)
        );
    }

    function test_Revert_When_NoGmpIsNamed() public {
        Retry memory request = usualRetry(sent, AXELAR);
        request.gmps = new GmpFee[](0);
        expectRetryRevert(alice, request, abi.encodeWithSelector(IMessageSender.NoGmps.selector));
    }

    function test_ARetryGoesOverAllGmpsUnlessFewerAreSaidToDo() public {
        vm.prank(owner);
        source.pauseGmp(WORMHOLE, uint48(block.timestamp + 1 hours));
        Retry memory request = usualRetry(sent, AXELAR);
        (request.gmps, request.minDispatched) = (firstGmps(3), 0);
        bytes memory reason =
            abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, WORMHOLE, uint48(block.timestamp + 1 hours));
        expectRetryRevert(alice, request, tooFew(2, 3, oneGmp(WORMHOLE), reason));
        request.minDispatched = 1;
        vm.prank(alice);
        assertEq(source.retryRoute(request), 1);
    }

    function testFuzz_Revert_When_MinDispatchedIsAboveTheGmpsNamed(uint8 minDispatched) public {
        vm.assume(minDispatched > 1);
        Retry memory request = usualRetry(sent, AXELAR);
        request.minDispatched = minDispatched;
        expectRetryRevert(
            alice, request, abi.encodeWithSelector(IMessageSender.InvalidMinDispatched.selector, minDispatched, 1, 1)
        );
    }

    function testFuzz_Revert_When_TheFeesDifferFromTheValue(uint96 fee, uint96 value) public {
        vm.assume(fee != value);
        vm.deal(alice, value);
        Retry memory request = usualRetry(sent, AXELAR);
        request.gmps[0].fee = fee;
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.FeesDifferFromValue.selector, fee, value));
        vm.prank(alice);
        source.retryRoute{value: value}(request);
    }

    function test_Revert_When_NoGmpTakesItAndTheAttemptIsNotCounted() public {
        FailingAdapter down = new FailingAdapter();
        vm.prank(owner);
        source.replaceAdapter(AXELAR, address(down));
        expectRetryRevert(
            alice,
            usualRetry(sent, AXELAR),
            tooFew(0, 1, oneGmp(AXELAR), abi.encodeWithSelector(FailingAdapter.GmpIsDown.selector))
        );
        (, uint32 attempts) = source.sentMessage(sentId);
        assertEq(attempts, 0);
    }

    // ---- what it does

    function testFuzz_GivesAnyGmpTheEnvelopeOfTheFirstAttempt(uint8 number, uint64 fee, uint32 later) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 1, 3)));
        vm.warp(START + bound(later, 0, 6 days));
        Retry memory request = usualRetry(sent, gmp);
        request.gmps[0].fee = fee;
        retry(request);
        assertEq(outbound[gmp].lastEnvelope(), envelopeOf(sent));
        assertEq(outbound[gmp].lastValue(), fee);
        request.gmps = firstGmps(3);
        retry(request);
        for (uint8 other = 1; other <= 3; ++other) {
            assertEq(outbound[Gmp.wrap(other)].lastEnvelope(), envelopeOf(sent));
        }
    }

    function testFuzz_NumbersAttemptsFromOne(uint8 retries) public {
        retries = uint8(bound(retries, 1, 12));
        for (uint32 number = 1; number <= retries; ++number) {
            vm.expectEmit(address(source));
            emit IMessageSender.MessageRetried(sentId, THERE, number, GmpSet.wrap(2));
            assertEq(retry(usualRetry(sent, AXELAR)), number);
        }
        (address sender, uint32 attempts) = source.sentMessage(sentId);
        assertEq(sender, alice);
        assertEq(attempts, retries);
    }

    function test_AnAppointedRetrierMayRetry() public {
        vm.expectEmit(address(source));
        emit IRouterViews.RetrierAppointed(alice, stranger);
        vm.prank(alice);
        source.appointRetrier(stranger);
        assertEq(source.retrierOf(alice), stranger);
        vm.prank(stranger);
        assertEq(source.retryRoute(usualRetry(sent, AXELAR)), 1);
    }

    function test_ChangesNeitherNonceNorLaneTotal() public {
        (uint64 count, uint32 sum) = source.sentTo(THERE);
        retry(usualRetry(sent, AXELAR));
        (uint64 countAfter, uint32 sumAfter) = source.sentTo(THERE);
        assertEq(countAfter, count);
        assertEq(sumAfter, sum);
    }

    function test_GoesToTheRouterThatTheMessageWasForAfterThePeerChanged() public {
        bytes32 newRouter = makeAddr("new router").toBytes32();
        vm.prank(owner);
        source.setPeer(THERE, newRouter, 1);
        retry(usualRetry(sent, AXELAR));
        assertEq(outbound[AXELAR].lastEnvelope(), envelopeOf(sent));
        // A retry looks at its lane only while some lane may be closed.
        vm.prank(owner);
        source.pauseLane(THERE + 1, uint48(block.timestamp + 1 hours));
        retry(usualRetry(sent, WORMHOLE));
        assertEq(outbound[WORMHOLE].lastEnvelope(), envelopeOf(sent));
        (Message memory next,) = send(usualRoute(1, 1));
        assertEq(next.destinationRouter, newRouter);
    }

    /// @dev The message with one field other than it was.
    function alter(Message memory message, uint8 field, uint64 change) private pure returns (Message memory) {
        field %= 13;
        bytes32 word = bytes32(uint256(change));
        if (field == 0) message.sourceChain ^= change;
        if (field == 1) message.sourceRouter ^= word;
        if (field == 2) message.sender ^= word;
        if (field == 3) message.nonce ^= change;
        if (field == 4) message.destinationChain ^= change;
        if (field == 5) message.destinationRouter ^= word;
        if (field == 6) message.recipient ^= word;
        if (field == 7) message.gasLimit ^= change;
        if (field == 8) message.sentAt ^= change;
        if (field == 9) message.ttl ^= uint32(change % type(uint32).max) + 1;
        if (field == 10) message.kind = Kind(1 + change % 12);
        if (field == 11) message.quorum ^= uint8(1 + change % 255);
        if (field == 12) message.replaces ^= word;
        return message;
    }

    /// @dev An estimate of gas holds in a later block: without a time to live a retry costs the same at any time.
    /// forge-config: default.isolate = true
    function test_ARetryCostsTheSameInALaterBlockWithoutATimeToLive() public {
        Route memory request = usualRoute(1, 1);
        request.ttl = 0;
        (Message memory message,) = send(request);
        vm.prank(alice);
        source.retryRoute(usualRetry(message, AXELAR));
        vm.prank(alice);
        source.retryRoute(usualRetry(message, AXELAR));
        uint256 atOnce = vm.lastCallGas().gasTotalUsed;
        vm.warp(block.timestamp + 12);
        vm.prank(alice);
        source.retryRoute(usualRetry(message, AXELAR));
        assertEq(vm.lastCallGas().gasTotalUsed, atOnce);
    }
}
