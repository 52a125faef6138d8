// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IGateway} from "../../../contracts/interfaces/IGateway.sol";
import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {FailingAdapter, GasHungryAdapter, PricedAdapter} from "./doubles/Adapters.sol";
import {GatewayFixture} from "./GatewayFixture.sol";

contract FundTest is GatewayFixture {
    function testFuzz_AnyoneMayPayForAnUnfundedMessageOnce(address payer, uint64 fee, uint64 more) public {
        vm.assume(payer.code.length == 0);
        outbound[HYPERLANE].setFee(fee);
        (Message memory message, bytes32 messageId) = sendUnfunded();
        vm.deal(payer, uint256(fee) + more);
        vm.expectEmit(address(source));
        emit IMessageSender.MessageRouted(messageId, THERE, false, GmpSet.wrap(3), envelopeOf(message));
        vm.prank(payer);
        source.fund{value: uint256(fee) + more}(message, refundee);
        assertEq(refundee.balance, more, "what is not needed comes back");
        assertEq(outbound[HYPERLANE].lastValue(), fee);
        assertEq(outbound[AXELAR].lastEnvelope(), envelopeOf(message));
        (address kept,) = source.sentMessage(messageId);
        assertEq(kept, address(0), "nothing is kept of what can't be retried");
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.NotUnfunded.selector, messageId));
        source.fund(message, refundee);
    }

    /// @dev Alice's message over three GMPs with quorum 2, of which Hyperlane and Axelar cost a little.
    function unfundedOverThree() internal returns (Message memory message) {
        for (uint8 number = 1; number <= 2; ++number) {
            PricedAdapter priced = new PricedAdapter();
            priced.setFee(5);
            install(Gmp.wrap(number), priced);
        }
        Profile memory profile = usualProfile();
        profile.gmps = GmpSet.wrap(7);
        IProfiles profiles = source.profiles();
        vm.prank(alice);
        profiles.setProfile(THERE, profile);
        message = expected(profile, "hello");
        vm.prank(alice);
        source.sendMessage(to, "hello", none);
    }

    /// @dev A payer that named a fee of 0 for one of three GMPs made its adapter fail; the quorum was met without it, and nothing
    ///      could be sent again.
    function testFuzz_ThePayerCannotLeaveAGmpOutByPayingLess(uint8 value) public {
        Message memory message = unfundedOverThree();
        vm.deal(address(this), value);
        if (value < 10) vm.expectRevert(abi.encodeWithSelector(IGateway.InsufficientValue.selector, value, 10));
        source.fund{value: value}(message, refundee);
        for (uint8 number = 1; number <= 3; ++number) {
            assertEq(outbound[Gmp.wrap(number)].dispatches(), value < 10 ? 0 : 1);
        }
    }

    /// @dev Nor by giving so little gas that a GMP can't tell its fee, or can't take the message.
    function testFuzz_NorByTheGasOfTheCall(uint256 gas) public {
        Message memory message = unfundedOverThree();
        install(WORMHOLE, new GasHungryAdapter(690_000));
        vm.deal(address(this), 10);
        try source.fund{value: 10, gas: bound(gas, 100_000, 3_000_000)}(message, refundee) {
            assertEq(outbound[HYPERLANE].dispatches() + outbound[WORMHOLE].dispatches(), 2);
        } catch {
            assertEq(outbound[HYPERLANE].dispatches(), 0);
        }
    }

    function test_AFailingGmpHindersNobodyWhenAMessageIsPaidFor() public {
        Message memory message = unfundedOverThree();
        install(AXELAR, new FailingAdapter());
        vm.deal(address(this), 10);
        vm.expectEmit(address(source));
        emit IMessageSender.DispatchFailed(
            MessageEncoding.id(message), AXELAR, 0, abi.encodeWithSelector(FailingAdapter.GmpIsDown.selector)
        );
        source.fund{value: 10}(message, refundee);
        assertEq(outbound[HYPERLANE].dispatches(), 1);
        assertEq(outbound[WORMHOLE].dispatches(), 1);
        assertEq(refundee.balance, 5, "it cost nothing");
    }

    function test_Revert_When_FewerGmpsThanTheQuorumCanTakeIt() public {
        Message memory message = unfundedOverThree();
        FailingAdapter unable = new FailingAdapter();
        install(AXELAR, unable);
        install(WORMHOLE, new FailingAdapter());
        vm.deal(address(this), 10);
        GmpFee[] memory failing = firstGmps(2);
        (failing[0].gmp, failing[1].gmp) = (AXELAR, WORMHOLE);
        bytes memory reason = abi.encodeWithSelector(FailingAdapter.GmpIsDown.selector);
        vm.expectRevert(tooFew(1, 2, failing, reason));
        source.fund{value: 10}(message, refundee);
    }

    function test_Revert_When_ThePayerNamesNobodyToPayBack() public {
        (Message memory message,) = sendUnfunded();
        vm.expectRevert(IMessageSender.ZeroRefundAddress.selector);
        source.fund(message, address(0));
    }

    function testFuzz_Revert_When_TheMessageIsNotTheOneThatWaits(bytes calldata payload) public {
        (Message memory message,) = sendUnfunded();
        vm.assume(keccak256(payload) != keccak256(message.payload));
        message.payload = payload;
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.NotUnfunded.selector, MessageEncoding.id(message)));
        source.fund(message, refundee);
    }

    function test_ARetriableMessageMayBeRetriedOnceItWasDispatched() public {
        Profile memory profile = usualProfile();
        profile.retriable = true;
        IProfiles profiles = source.profiles();
        vm.startPrank(alice);
        profiles.setProfile(THERE, profile);
        Message memory message = expected(profile, "hello");
        bytes32 messageId = source.sendMessage(to, "hello", none);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.StillUnfunded.selector, messageId));
        source.retryRoute(usualRetry(message, WORMHOLE));
        source.fund(message, refundee);
        assertEq(source.retryRoute(usualRetry(message, WORMHOLE)), 1);
    }

    function test_Revert_When_ADispatchedMessageThatIsNotRetriableIsRetried() public {
        (Message memory message, bytes32 messageId) = sendUnfunded();
        source.fund(message, refundee);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.NotRetriable.selector, messageId));
        vm.prank(alice);
        source.retryRoute(usualRetry(message, WORMHOLE));
    }

    function test_Revert_When_TheUnfundedMessageExpiredOrWasCancelled() public {
        (Message memory message, bytes32 messageId) = sendUnfunded();
        vm.warp(START + message.ttl + 1);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.Expired.selector, messageId, message.sentAt, message.ttl));
        source.fund(message, refundee);
        vm.warp(START);
        vm.prank(alice);
        source.cancel(message, 1, firstGmps(1), refundee);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.AlreadyCancelled.selector, messageId));
        source.fund(message, refundee);
    }

    function test_APausedGmpOfTheProfileIsLeftOutAndSaidToBe() public {
        Message memory message = unfundedOverThree();
        uint48 until = uint48(block.timestamp + 1 hours);
        vm.prank(owner);
        source.pauseGmp(WORMHOLE, until);
        vm.deal(address(this), 10);
        vm.expectEmit(address(source));
        emit IMessageSender.DispatchFailed(
            MessageEncoding.id(message),
            WORMHOLE,
            0,
            abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, WORMHOLE, until)
        );
        source.fund{value: 10}(message, refundee);
        assertEq(outbound[AXELAR].dispatches(), 1);
    }

    function test_ADispatchedMessageExecutesAsAnyOther() public {
        (Message memory message, bytes32 messageId) = sendUnfunded();
        source.fund(message, refundee);
        deliver(HYPERLANE, message);
        deliver(AXELAR, message);
        assertEq(recipient.timesReceived(messageId), 1);
        assertEq(recipient.lastSender(), InteroperableAddress.formatEvmV1(HERE, alice));
    }

    // ---- what a GMP asks for

    /// @dev One quote that nobody can pay stopped every payment, though the others sufficed.
    function testFuzz_AnAbsurdQuoteLeavesOnlyItsGmpOut(uint256 absurd) public {
        Message memory message = unfundedOverThree();
        outbound[AXELAR].setFee(bound(absurd, uint256(type(uint40).max) * 1 gwei + 1, type(uint256).max));
        vm.deal(address(this), 10);
        source.fund{value: 5}(message, refundee);
        assertEq(outbound[HYPERLANE].dispatches(), 1);
        assertEq(outbound[AXELAR].dispatches(), 0);
        assertEq(outbound[WORMHOLE].dispatches(), 1);
    }

    function test_ASenderCapsWhatEachGmpMayAskFor() public {
        Profile memory profile = usualProfile();
        (profile.gmps, profile.maxFeeGwei) = (GmpSet.wrap(7), 2);
        IProfiles profiles = source.profiles();
        vm.prank(alice);
        profiles.setProfile(THERE, profile);
        outbound[HYPERLANE].setFee(2 gwei);
        install(AXELAR, new PricedAdapter());
        outbound[AXELAR].setFee(2 gwei + 1);
        vm.deal(alice, 10 gwei);
        vm.expectEmit(false, true, true, false, address(source));
        emit IMessageSender.DispatchFailed(0, AXELAR, 0, "");
        vm.prank(alice);
        source.sendMessage{value: 2 gwei}(to, "hello", none);
        assertEq(outbound[HYPERLANE].dispatches() + outbound[WORMHOLE].dispatches(), 2);
        assertEq(outbound[AXELAR].dispatches(), 0);
    }

    // ---- a GMP that was left out

    function test_AGmpThatWasLeftOutCanBePaidForLater() public {
        Message memory message = unfundedOverThree();
        bytes32 messageId = MessageEncoding.id(message);
        FailingAdapter down = new FailingAdapter();
        install(AXELAR, down);
        source.fund{value: 5}(message, refundee);
        vm.expectRevert();
        source.fund{value: 5}(message, refundee);
        down.setDown(false);
        vm.expectEmit(address(source));
        emit IMessageSender.MessageRetried(messageId, THERE, 1, GmpSet.wrap(2));
        vm.prank(stranger);
        source.fund(message, refundee);
        assertEq(down.dispatches(), 1);
        assertEq(outbound[HYPERLANE].dispatches(), 1, "those that have it get it no second time");
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.NotUnfunded.selector, messageId));
        source.fund(message, refundee);
    }
}
