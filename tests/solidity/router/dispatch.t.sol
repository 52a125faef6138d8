// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Message} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {Retry} from "../../../contracts/types/Route.sol";
import {FailingAdapter} from "./doubles/Adapters.sol";
import {GatewayFixture} from "./GatewayFixture.sol";

contract DispatchTest is GatewayFixture {
    function testFuzz_AnyoneMayPayForAnUnfundedMessageOnce(address payer, uint64 fee) public {
        vm.assume(payer.code.length == 0);
        (Message memory message, bytes32 messageId) = sendUnfunded();
        Retry memory request = payment(message);
        request.gmps[0].fee = fee;
        vm.deal(payer, fee);
        vm.expectEmit(address(source));
        emit IMessageSender.MessageRouted(messageId, THERE, false, GmpSet.wrap(3), envelopeOf(message));
        vm.prank(payer);
        source.dispatch{value: fee}(request);
        assertEq(outbound[HYPERLANE].lastValue(), fee);
        assertEq(outbound[AXELAR].lastEnvelope(), envelopeOf(message));
        (address kept,) = source.sentMessage(messageId);
        assertEq(kept, address(0), "nothing is kept of what can't be retried");
        vm.deal(payer, fee);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.NotUnfunded.selector, messageId));
        vm.prank(payer);
        source.dispatch{value: fee}(request);
    }

    function test_AFailingGmpHindersNobodyWhenAMessageIsPaidFor() public {
        Profile memory profile = usualProfile();
        profile.quorum = 1;
        IProfiles profiles = source.profiles();
        vm.prank(owner);
        profiles.setDefaultProfile(THERE, profile);
        install(AXELAR, new FailingAdapter());
        Message memory message = expected(profile, "hello");
        vm.prank(alice);
        bytes32 messageId = source.sendMessage(to, "hello", none);
        Retry memory request = payment(message);
        request.minDispatched = 1;
        vm.expectEmit(address(source));
        emit IMessageSender.DispatchFailed(
            messageId, AXELAR, 0, abi.encodeWithSelector(FailingAdapter.GmpIsDown.selector)
        );
        source.dispatch(request);
        assertEq(outbound[HYPERLANE].dispatches(), 1);
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
        source.dispatch(payment(message));
        assertEq(source.retryRoute(usualRetry(message, WORMHOLE)), 1);
    }

    function test_Revert_When_ADispatchedMessageThatIsNotRetriableIsRetried() public {
        (Message memory message, bytes32 messageId) = sendUnfunded();
        source.dispatch(payment(message));
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.NotRetriable.selector, messageId));
        vm.prank(alice);
        source.retryRoute(usualRetry(message, WORMHOLE));
    }

    /// @dev A payer that could choose would send it over GMPs that fall short of its quorum, and end it for ever.
    function test_Revert_When_ThePayerChoosesOtherGmps() public {
        (Message memory message,) = sendUnfunded();
        Retry memory request = payment(message);
        request.gmps = firstGmps(3);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.WrongGmps.selector, 7, 3));
        source.dispatch(request);
        request.gmps = firstGmps(2);
        request.gmps[1].gmp = WORMHOLE;
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.WrongGmps.selector, 5, 3));
        source.dispatch(request);
    }

    function testFuzz_Revert_When_FewerThanTheQuorumWouldHaveToTakeIt(uint8 minDispatched) public {
        (Message memory message,) = sendUnfunded();
        Retry memory request = payment(message);
        request.minDispatched = minDispatched;
        if (minDispatched != 2) {
            vm.expectRevert(abi.encodeWithSelector(IMessageSender.InvalidMinDispatched.selector, minDispatched, 2, 2));
        }
        source.dispatch(request);
    }

    function test_Revert_When_TheUnfundedMessageExpiredOrWasCancelled() public {
        (Message memory message, bytes32 messageId) = sendUnfunded();
        vm.warp(START + message.ttl + 1);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.Expired.selector, messageId, message.sentAt, message.ttl));
        source.dispatch(payment(message));
        vm.warp(START);
        vm.prank(alice);
        source.cancel(message, 1, firstGmps(1), refundee);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.AlreadyCancelled.selector, messageId));
        source.dispatch(payment(message));
    }

    function test_APausedGmpOfTheProfileIsLeftOut() public {
        Profile memory profile = usualProfile();
        (profile.gmps, profile.quorum) = (GmpSet.wrap(7), 2);
        IProfiles profiles = source.profiles();
        vm.prank(alice);
        profiles.setProfile(THERE, profile);
        Message memory message = expected(profile, "hello");
        vm.prank(alice);
        source.sendMessage(to, "hello", none);
        vm.prank(owner);
        source.pauseGmp(WORMHOLE, uint48(block.timestamp + 1 hours));
        source.dispatch(payment(message));
        assertEq(outbound[AXELAR].dispatches(), 1);
    }

    function test_ADispatchedMessageExecutesAsAnyOther() public {
        (Message memory message, bytes32 messageId) = sendUnfunded();
        source.dispatch(payment(message));
        deliver(HYPERLANE, message);
        deliver(AXELAR, message);
        assertEq(recipient.timesReceived(messageId), 1);
        assertEq(recipient.lastSender(), InteroperableAddress.formatEvmV1(HERE, alice));
    }
}
