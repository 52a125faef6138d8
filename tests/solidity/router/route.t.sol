// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {Addresses, DirtyAddress} from "../../../contracts/libraries/Addresses.sol";
import {Gmp, GmpSet, InvalidGmp} from "../../../contracts/types/Gmp.sol";
import {DispatchFailure, GmpFee, Kind, Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {
    FailingAdapter,
    GasBurningAdapter,
    GasCountingAdapter,
    GasHungryAdapter,
    PricedAdapter,
    RecordingAdapter,
    ReentrantAdapter,
    ReturnBombAdapter
} from "./doubles/Adapters.sol";
import {RefusingRefundee, ReentrantRefundee} from "./doubles/Refundees.sol";

contract RouteTest is RouterFixture {
    using Addresses for address;

    bytes internal constant GMP_IS_DOWN = abi.encodeWithSelector(FailingAdapter.GmpIsDown.selector);

    function expectRouteRevert(Route memory request, bytes memory reason) internal {
        vm.expectRevert(reason);
        vm.prank(alice);
        source.route{value: totalFee(request.gmps)}(request);
    }

    // ---- refusals

    function test_Revert_When_AnAdapterRoutesWhileItIsGivenAnEnvelope() public {
        ReentrantAdapter adapter = new ReentrantAdapter();
        install(AXELAR, adapter);
        adapter.reenterWith(address(source), abi.encodeCall(source.route, (usualRoute(1, 1))));
        send(usualRoute(2, 1));
        assertFalse(adapter.reentered());
        assertEq(adapter.answer(), abi.encodeWithSelector(IMessageSender.SendingReentered.selector));
    }

    function test_Revert_When_ARefundeeRoutesWhileItIsPaid() public {
        ReentrantRefundee greedy = new ReentrantRefundee();
        greedy.reenterWith(address(source), abi.encodeCall(source.route, (usualRoute(1, 1))));
        install(HYPERLANE, new FailingAdapter());
        Route memory request = usualRoute(2, 1);
        request.gmps[0].fee = 1 ether;
        request.refundTo = address(greedy);
        send(request);
        assertFalse(greedy.reentered());
        assertEq(greedy.answer(), abi.encodeWithSelector(IMessageSender.SendingReentered.selector));
    }

    function testFuzz_Revert_When_TheDestinationIsThisChain(uint64 chain) public {
        vm.assume(chain != 0);
        vm.chainId(chain);
        Route memory request = usualRoute(1, 1);
        request.destinationChain = chain;
        expectRouteRevert(request, abi.encodeWithSelector(ILanePolicy.SameChain.selector, chain));
    }

    function testFuzz_Revert_When_TheDestinationHasNoPeer(uint64 chain) public {
        vm.assume(chain != HERE && chain != THERE);
        Route memory request = usualRoute(1, 1);
        request.destinationChain = chain;
        expectRouteRevert(request, abi.encodeWithSelector(IMessageSender.NoPeer.selector, chain));
    }

    function test_Revert_When_TheRecipientIsZero() public {
        Route memory request = usualRoute(1, 1);
        request.recipient = 0;
        expectRouteRevert(request, abi.encodeWithSelector(IMessageSender.ZeroRecipient.selector));
    }

    function testFuzz_Revert_When_TheRecipientHasDirtyUpperBytes(bytes32 word) public {
        vm.assume(uint256(word) >> 160 != 0);
        Route memory request = usualRoute(1, 1);
        request.recipient = word;
        expectRouteRevert(request, abi.encodeWithSelector(DirtyAddress.selector, word));
    }

    /// @dev With them an envelope would say something else than its id.
    function testFuzz_Revert_When_ANumberHasDirtyUpperBytes(uint8 member, uint8 bit) public {
        uint256[5] memory words = [uint256(0), 3, 4, 5, 6];
        uint256[5] memory widths = [uint256(64), 64, 32, 8, 8];
        member = uint8(bound(member, 0, 4));
        bytes memory data = abi.encodeCall(source.route, (usualRoute(1, 1)));
        uint256 dirt = 1 << bound(bit, widths[member], 255);
        uint256 at = 0x44 + 0x20 * words[member];
        assembly ("memory-safe") {
            mstore(add(data, at), or(mload(add(data, at)), dirt))
        }
        uint256 fee = totalFee(usualRoute(1, 1).gmps);
        vm.prank(alice);
        (bool success, bytes memory answer) = address(source).call{value: fee}(data);
        assertFalse(success, "it was sent");
        assertEq(answer, "");
    }

    /// @dev Where a struct's bytes begin is compared as a signed number, so the greatest ones pass, as bytes of length zero.
    function testFuzz_Revert_When_ThePayloadBeginsBeyondTheCalldatasEnd(uint256 beginning) public {
        beginning = bound(beginning, 1 << 128, type(uint256).max);
        bytes memory data = abi.encodeCall(source.route, (usualRoute(1, 1)));
        assembly ("memory-safe") {
            mstore(add(data, 0x84), beginning) // the third word of the request, after the length, the selector and where it begins
        }
        uint256 fee = totalFee(usualRoute(1, 1).gmps);
        vm.prank(alice);
        (bool success, bytes memory answer) = address(source).call{value: fee}(data);
        assertFalse(success, "it was sent");
        assertEq(answer, "");
    }

    function testFuzz_Revert_When_TheKindBelongsToRouters(bool report) public {
        Route memory request = usualRoute(1, 1);
        request.kind = report ? Kind.REPORT : Kind.CANCELLATION;
        expectRouteRevert(request, abi.encodeWithSelector(IMessageSender.ReservedKind.selector, request.kind));
    }

    function testFuzz_Revert_When_TheQuorumIsZeroOrAboveTheGmpsNamed(uint8 quorum, uint8 gmps) public {
        gmps = uint8(bound(gmps, 1, 3));
        if (quorum != 0) quorum = uint8(bound(quorum, gmps + 1, 255));
        expectRouteRevert(
            usualRoute(gmps, quorum), abi.encodeWithSelector(IMessageSender.InvalidQuorum.selector, quorum, gmps)
        );
    }

    function test_Revert_When_NoGmpIsNamed() public {
        expectRouteRevert(usualRoute(0, 1), abi.encodeWithSelector(IMessageSender.NoGmps.selector));
    }

    function testFuzz_Revert_When_MinDispatchedIsAboveTheGmpsNamed(uint8 minDispatched) public {
        Route memory request = usualRoute(2, 1);
        request.minDispatched = uint8(bound(minDispatched, 3, 255));
        expectRouteRevert(
            request, abi.encodeWithSelector(IMessageSender.InvalidMinDispatched.selector, request.minDispatched, 1, 2)
        );
    }

    function test_Revert_When_AMessageThatCannotBeRetriedMayMissItsQuorum() public {
        Route memory request = usualRoute(3, 2);
        request.retriable = false;
        request.minDispatched = 1;
        expectRouteRevert(request, abi.encodeWithSelector(IMessageSender.InvalidMinDispatched.selector, 1, 2, 3));
    }

    function testFuzz_Revert_When_NoTransactionHasTheGasLimit(uint64 gasLimit) public {
        Route memory request = usualRoute(1, 1);
        request.gasLimit = 14_000_000;
        send(request);
        request.gasLimit = uint64(bound(gasLimit, 14_000_001, type(uint64).max));
        bytes memory reason =
            abi.encodeWithSelector(IMessageSender.GasLimitTooHigh.selector, request.gasLimit, 14_000_000);
        expectRouteRevert(request, reason);
        vm.expectRevert(reason);
        source.quoteRoute(request);
    }

    function testFuzz_Revert_When_TheTtlIsShorterThanAnyGmpTakes(uint32 ttl) public {
        Route memory request = usualRoute(1, 1);
        request.ttl = 60;
        send(request);
        request.ttl = uint32(bound(ttl, 1, 59));
        expectRouteRevert(request, abi.encodeWithSelector(IMessageSender.TtlTooShort.selector, request.ttl, 60));
    }

    function test_Revert_When_TheRefundAddressIsZero() public {
        Route memory request = usualRoute(1, 1);
        request.refundTo = address(0);
        expectRouteRevert(request, abi.encodeWithSelector(IMessageSender.ZeroRefundAddress.selector));
    }

    function testFuzz_Revert_When_AGmpIsNamedTwice(uint8 first, uint8 second) public {
        first = uint8(bound(first, 0, 2));
        second = uint8(bound(second, 0, 2));
        vm.assume(first != second);
        Route memory request = usualRoute(3, 1);
        request.gmps[second].gmp = request.gmps[first].gmp;
        expectRouteRevert(
            request, abi.encodeWithSelector(IMessageSender.DuplicateGmp.selector, request.gmps[first].gmp)
        );
    }

    function testFuzz_Revert_When_AGmpsNumberIsNone(uint8 number) public {
        if (number != 0) number = uint8(bound(number, 17, 255));
        Route memory request = usualRoute(1, 1);
        request.gmps[0].gmp = Gmp.wrap(number);
        expectRouteRevert(request, abi.encodeWithSelector(InvalidGmp.selector, number));
    }

    function testFuzz_Revert_When_AGmpHasNoAdapter(uint8 number) public {
        number = uint8(bound(number, 4, 16));
        Route memory request = usualRoute(1, 1);
        request.gmps[0].gmp = Gmp.wrap(number);
        bytes memory reason = abi.encodeWithSelector(IMessageSender.GmpNotEnabled.selector, number);
        expectRouteRevert(request, tooFew(0, 1, request.gmps, reason));
    }

    /// @dev One of two GMPs got a fee of yesterday; the other carried the message alone, and the transaction succeeded.
    function test_EveryGmpNamedTakesItUnlessFewerAreSaidToDo() public {
        PricedAdapter priced = new PricedAdapter();
        priced.setFee(5);
        install(AXELAR, priced);
        Route memory request = usualRoute(2, 1);
        (request.gmps[1].fee, request.minDispatched) = (4, 0);
        GmpFee[] memory failing = oneGmp(AXELAR);
        expectRouteRevert(request, tooFew(1, 2, failing, abi.encodeWithSelector(IAdapter.WrongFee.selector, 4, 5)));
        request.minDispatched = 1;
        send(request);
        assertEq(outbound[HYPERLANE].dispatches(), 1);
    }

    /// @dev A dApp with three GMPs named all of them, and could not send while one was paused or revoked.
    function testFuzz_AGmpThatIsPausedOrRevokedHindersNobody(bool paused, uint8 number) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 1, 3)));
        uint48 until = uint48(block.timestamp + 1 hours);
        vm.startPrank(owner);
        if (paused) source.pauseGmp(gmp, until);
        else source.revokeAdapter(gmp);
        vm.stopPrank();
        bytes memory reason = paused
            ? abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, gmp, until)
            : abi.encodeWithSelector(IMessageSender.GmpNotEnabled.selector, gmp);
        Route memory request = usualRoute(3, 2);
        request.minDispatched = 0;
        expectRouteRevert(request, tooFew(2, 3, oneGmp(gmp), reason));
        request.minDispatched = 2;
        bytes32 messageId = MessageEncoding.id(expectedMessage(alice, request));
        vm.expectEmit(address(source));
        emit IMessageSender.DispatchFailed(messageId, gmp, 0, reason);
        send(request);
        assertEq(outbound[gmp].dispatches(), 0);
    }

    function testFuzz_Revert_When_TheFeesDifferFromTheValue(uint96 fee, uint96 value) public {
        vm.assume(fee != value);
        vm.deal(alice, value);
        Route memory request = usualRoute(1, 1);
        request.gmps[0].fee = fee;
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.FeesDifferFromValue.selector, fee, value));
        vm.prank(alice);
        source.route{value: value}(request);
    }

    function test_Revert_When_AllGmpsFailAndOneMustTakeIt() public {
        install(HYPERLANE, new FailingAdapter());
        Route memory request = usualRoute(1, 1);
        expectRouteRevert(request, tooFew(0, 1, oneGmp(HYPERLANE), GMP_IS_DOWN));
        (uint64 count,) = source.sentTo(THERE);
        assertEq(count, 0);
    }

    function testFuzz_Revert_When_FewerGmpsThanMinDispatchedTakeIt(uint8 minDispatched) public {
        minDispatched = uint8(bound(minDispatched, 2, 3));
        install(HYPERLANE, new FailingAdapter());
        install(WORMHOLE, new FailingAdapter());
        Route memory request = usualRoute(3, 1);
        request.minDispatched = minDispatched;
        GmpFee[] memory failing = firstGmps(2);
        failing[1].gmp = WORMHOLE;
        expectRouteRevert(request, tooFew(1, minDispatched, failing, GMP_IS_DOWN));
    }

    /// @dev A fee below the quote, a gas limit that a GMP does not carry and a broken GMP all ended in `(0, 1)`.
    function test_TheErrorNamesEachGmpWithItsOwnReason() public {
        install(HYPERLANE, new FailingAdapter());
        install(WORMHOLE, new GasBurningAdapter());
        PricedAdapter priced = new PricedAdapter();
        priced.setFee(5);
        install(AXELAR, priced);
        Route memory request = usualRoute(3, 1);
        request.gmps[1].fee = 4;
        DispatchFailure[] memory failures = new DispatchFailure[](3);
        failures[0] = DispatchFailure(HYPERLANE, GMP_IS_DOWN);
        failures[1] = DispatchFailure(AXELAR, abi.encodeWithSelector(IAdapter.WrongFee.selector, 4, 5));
        failures[2] = DispatchFailure(WORMHOLE, "");
        expectRouteRevert(request, abi.encodeWithSelector(IMessageSender.TooFewDispatched.selector, 0, 1, failures));
    }

    function test_AHugeReasonIsCutInTheErrorToo() public {
        install(HYPERLANE, new ReturnBombAdapter());
        vm.prank(alice);
        try source.route(usualRoute(1, 1)) {
            fail();
        } catch (bytes memory reason) {
            (,, DispatchFailure[] memory failures) =
                abi.decode(this.arguments(reason), (uint256, uint256, DispatchFailure[]));
            assertEq(failures[0].reason.length, 256);
        }
    }

    /// @dev The GMPs need gas; whatever the caller gives, either all of them take the message or the call reverts. Without
    ///      the check some amounts let the first take it and starve the second.
    function testFuzz_NoAmountOfGasMakesOnlyTheLaterGmpsFail(uint256 gas) public {
        install(HYPERLANE, new GasHungryAdapter(200_000));
        install(AXELAR, new GasHungryAdapter(300_000));
        gas = bound(gas, 100_000, 3_000_000);
        vm.prank(alice);
        try source.route{gas: gas}(usualRoute(2, 1)) {
            assertEq(outbound[HYPERLANE].dispatches(), 1);
            assertEq(outbound[AXELAR].dispatches(), 1);
        } catch {
            assertEq(outbound[HYPERLANE].dispatches(), 0);
        }
    }

    /// @dev The call's own cost went off what the last of three adapters was promised; one that looked at its gas refused.
    function test_NoAmountOfGasGivesTheLastGmpLessThanIsPromised() public {
        install(HYPERLANE, new GasCountingAdapter(0));
        install(AXELAR, new GasCountingAdapter(0));
        install(WORMHOLE, new GasCountingAdapter(728_000));
        Route memory request = usualRoute(3, 2);
        request.gmps[2].fee = 1;
        uint256 sent;
        for (uint256 gas = 800_000; gas < 900_000; gas += 500) {
            uint256 before = vm.snapshotState();
            vm.prank(alice);
            (bool success,) = address(source).call{gas: gas, value: 1}(abi.encodeCall(source.route, (request)));
            if (success) ++sent;
            assertEq(outbound[WORMHOLE].dispatches(), success ? 1 : 0, vm.toString(gas));
            vm.revertToState(before);
        }
        assertGt(sent, 0);
        assertLt(sent, 200);
    }

    /// @dev What an adapter may need grows with what it is given: a selector, five words, and the envelope with its length.
    function testFuzz_Revert_When_AnAdapterCouldGetLessGasThanItMayNeed(uint16 length) public {
        Route memory request = usualRoute(1, 1);
        request.payload = new bytes(bound(length, 0, 2000));
        uint256 padded = (MessageEncoding.HEADER_LENGTH + request.payload.length + 31) / 32 * 32;
        vm.prank(alice);
        try source.route{gas: 700_000}(request) {
            fail();
        } catch (bytes memory reason) {
            assertEq(bytes4(reason), IMessageSender.InsufficientDispatchGas.selector);
            (Gmp gmp, uint256 left, uint256 needed) = abi.decode(this.arguments(reason), (Gmp, uint256, uint256));
            assertEq(Gmp.unwrap(gmp), Gmp.unwrap(HYPERLANE));
            uint256 given = 700_000 + 64 * (4 + 6 * 32 + padded);
            assertLt(left, needed, "what is needed is more than there was");
            assertGe((needed - 15_000) * 63 / 64, given, "and suffices");
        }
    }

    function arguments(bytes calldata reason) external pure returns (bytes memory) {
        return reason[4:];
    }

    // ---- what it does

    function testFuzz_ReturnsTheIdOfExactlyTheMessageAskedFor(
        bytes calldata payload,
        uint64 gasLimit,
        uint32 ttl,
        bytes32 replaces,
        uint8 quorum
    ) public {
        vm.assume(payload.length <= 4096);
        Route memory request = usualRoute(3, uint8(bound(quorum, 1, 3)));
        (request.payload, request.replaces) = (payload, replaces);
        request.gasLimit = uint64(bound(gasLimit, 0, 14_000_000));
        request.ttl = ttl % 5 == 0 ? 0 : uint32(bound(ttl, 60, type(uint32).max));
        send(request);
    }

    function testFuzz_GivesEachAdapterTheSameEnvelopeAndItsOwnFee(uint64[3] calldata fees) public {
        Route memory request = usualRoute(3, 2);
        for (uint8 index; index < 3; ++index) {
            request.gmps[index].fee = fees[index];
        }
        (Message memory message,) = send(request);
        for (uint8 index; index < 3; ++index) {
            RecordingAdapter adapter = outbound[Gmp.wrap(index + 1)];
            assertEq(adapter.dispatches(), 1);
            assertEq(adapter.lastValue(), fees[index]);
            assertEq(adapter.lastRefundTo(), refundee);
            assertEq(adapter.lastEnvelope(), envelopeOf(message));
        }
        assertEq(address(source).balance, 0);
    }

    function test_EmitsMessageIdCreatedAndMessageRouted() public {
        Route memory request = usualRoute(2, 2);
        Message memory message = expectedMessage(alice, request);
        bytes32 messageId = MessageEncoding.id(message);
        vm.expectEmit(address(source));
        emit IMessageSender.MessageIdCreated(messageId, alice, 1);
        vm.expectEmit(address(source));
        emit IMessageSender.MessageRouted(messageId, THERE, true, GmpSet.wrap(3), envelopeOf(message));
        send(request);
    }

    function testFuzz_CountsMessagesAndSumsTheirIdsOnTheLane(uint8 messages) public {
        messages = uint8(bound(messages, 1, 20));
        uint32 expected;
        for (uint256 index; index < messages; ++index) {
            (, bytes32 messageId) = send(usualRoute(1, 1));
            unchecked {
                expected += uint32(uint256(messageId));
            }
        }
        (uint64 count, uint32 sum) = source.sentTo(THERE);
        assertEq(count, messages);
        assertEq(sum, expected);
    }

    function test_RemembersTheSenderOfARetriableMessage() public {
        (, bytes32 messageId) = send(usualRoute(1, 1));
        (address sender, uint32 attempts) = source.sentMessage(messageId);
        assertEq(sender, alice);
        assertEq(attempts, 0);
    }

    function test_RemembersNothingOfAMessageThatCannotBeRetried() public {
        Route memory request = usualRoute(1, 1);
        request.retriable = false;
        (, bytes32 messageId) = send(request);
        (address sender,) = source.sentMessage(messageId);
        assertEq(sender, address(0));
    }

    function test_TwoCallsWithEqualArgumentsCreateTwoMessages() public {
        (, bytes32 first) = send(usualRoute(1, 1));
        (, bytes32 second) = send(usualRoute(1, 1));
        assertNotEq(first, second);
    }

    // ---- a GMP that fails

    function testFuzz_AFailingGmpHindersNobodyAndItsFeeGoesBack(uint64[3] calldata fees, uint8 failing) public {
        failing = uint8(bound(failing, 1, 3));
        install(Gmp.wrap(failing), new FailingAdapter());
        Route memory request = usualRoute(3, 2);
        for (uint8 index; index < 3; ++index) {
            request.gmps[index].fee = fees[index];
        }
        bytes32 messageId = MessageEncoding.id(expectedMessage(alice, request));
        vm.expectEmit(address(source));
        emit IMessageSender.DispatchFailed(
            messageId, Gmp.wrap(failing), 0, abi.encodeWithSelector(FailingAdapter.GmpIsDown.selector)
        );
        send(request);
        assertEq(refundee.balance, fees[failing - 1]);
        for (uint8 number = 1; number <= 3; ++number) {
            assertEq(outbound[Gmp.wrap(number)].dispatches(), number == failing ? 0 : 1);
        }
        assertEq(address(source).balance, 0);
    }

    function test_AGmpThatBurnsAllItsGasHindersNobody() public {
        install(HYPERLANE, new GasBurningAdapter());
        send(usualRoute(3, 2));
        assertEq(outbound[AXELAR].dispatches(), 1);
        assertEq(outbound[WORMHOLE].dispatches(), 1);
    }

    function test_AGmpThatFailsWithAHugeReasonCostsNoMoreThanItsOwnGas() public {
        install(HYPERLANE, new ReturnBombAdapter());
        uint256 before = gasleft();
        send(usualRoute(2, 1));
        assertLt(before - gasleft(), 1_500_000);
        assertEq(outbound[AXELAR].dispatches(), 1);
    }

    function testFuzz_ARefundeeThatRefusesMoneyIsCredited(uint64 fee) public {
        vm.assume(fee != 0);
        install(HYPERLANE, new FailingAdapter());
        RefusingRefundee refusing = new RefusingRefundee();
        Route memory request = usualRoute(2, 1);
        request.gmps[0].fee = fee;
        request.refundTo = address(refusing);
        vm.expectEmit(address(source));
        emit IMessageSender.Credited(address(refusing), fee);
        send(request);
        assertEq(source.creditOf(address(refusing)), fee);
        assertEq(address(source).balance, fee);
        assertEq(outbound[AXELAR].dispatches(), 1);
    }
}
