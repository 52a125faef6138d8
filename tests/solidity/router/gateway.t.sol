// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IGateway} from "../../../contracts/interfaces/IGateway.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IAttributes, IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {DeliveryChoice, Idempotency, Profile, Semantics} from "../../../contracts/types/Profile.sol";
import {GatewayFixture} from "./GatewayFixture.sol";

contract GatewayTest is GatewayFixture {
    function attribute(bytes memory call_) internal pure returns (bytes[] memory attributes) {
        attributes = new bytes[](1);
        attributes[0] = call_;
    }

    // ---- refusals

    function expectInvalidRecipient(bytes memory account) internal {
        vm.expectRevert(abi.encodeWithSelector(IProfiles.InvalidRecipient.selector, account));
        source.sendMessage(account, "hello", none);
    }

    function testFuzz_Revert_When_TheRecipientIsNoErc7930Address(bytes calldata account) public {
        vm.assume(account.length < 200);
        expectInvalidRecipient(account);
    }

    function testFuzz_Revert_When_TheRecipientIsSpelledInAnotherWay(bytes calldata tail, uint8 zeros) public {
        vm.assume(tail.length != 0 && tail.length < 100);
        expectInvalidRecipient(bytes.concat(to, tail));
        bytes memory padded = new bytes(bound(zeros, 1, 20));
        expectInvalidRecipient(
            abi.encodePacked(
                hex"00010000", uint8(padded.length + 1), padded, uint8(THERE), uint8(20), address(recipient)
            )
        );
    }

    function test_Revert_When_TheRecipientIsOnNoEvmChainOrHasNoAddress() public {
        expectInvalidRecipient(abi.encodePacked(hex"00010002", uint8(1), uint8(10), uint8(20), address(recipient)));
        expectInvalidRecipient(InteroperableAddress.formatEvmV1(THERE));
        expectInvalidRecipient(InteroperableAddress.formatEvmV1(address(recipient)));
        expectInvalidRecipient(InteroperableAddress.formatEvmV1(THERE, address(0)));
    }

    function testFuzz_Revert_When_TheChainIdIsLongerThanAMessageHolds(uint256 chain) public {
        chain = bound(chain, uint256(type(uint64).max) + 1, type(uint256).max);
        expectInvalidRecipient(InteroperableAddress.formatEvmV1(chain, address(recipient)));
    }

    function testFuzz_Revert_When_NeitherSenderNorChainHasAProfile(uint64 chain) public {
        vm.assume(chain != 0 && chain != THERE);
        vm.expectRevert(abi.encodeWithSelector(IProfiles.NoProfile.selector, alice, chain));
        vm.prank(alice);
        source.sendMessage(InteroperableAddress.formatEvmV1(chain, address(recipient)), "hello", none);
    }

    function testFuzz_Revert_When_AnAttributeIsUnknown(bytes4 selector, bytes calldata rest) public {
        vm.assume(!source.supportsAttribute(selector) && rest.length < 200);
        vm.expectRevert(abi.encodeWithSelector(IERC7786GatewaySource.UnsupportedAttribute.selector, selector));
        source.sendMessage(to, "hello", attribute(bytes.concat(selector, rest)));
    }

    function testFuzz_Revert_When_AnAttributeIsShorterThanASelector(uint8 which, uint8 length) public {
        bytes memory cut = new bytes(length % 4);
        for (uint256 index; index < cut.length; ++index) {
            cut[index] = selectors()[which % 8][index];
        }
        vm.expectRevert(abi.encodeWithSelector(IERC7786GatewaySource.UnsupportedAttribute.selector, bytes4(cut)));
        source.sendMessage(to, "hello", attribute(cut));
    }

    function testFuzz_Revert_When_AnAttributeIsMalformed(uint8 which, bytes calldata rest) public {
        vm.assume(rest.length != 32 && rest.length < 200);
        bytes memory malformed = bytes.concat(selectors()[which % 8], rest);
        vm.expectRevert(abi.encodeWithSelector(IProfiles.InvalidAttribute.selector, malformed));
        source.sendMessage(to, "hello", attribute(malformed));
    }

    function testFuzz_Revert_When_AnAttributeIsOutOfRange(uint8 which, uint256 value) public {
        uint64 anyGas = type(uint64).max;
        uint256[8] memory most =
            [uint256(type(uint16).max), 255, anyGas, type(uint32).max, uint256(type(Kind).max), 1, 1, anyGas];
        which %= 8;
        bytes memory excessive =
            abi.encodeWithSelector(selectors()[which], bound(value, most[which] + 1, type(uint256).max));
        vm.expectRevert(abi.encodeWithSelector(IProfiles.InvalidAttribute.selector, excessive));
        source.sendMessage(to, "hello", attribute(excessive));
    }

    function testFuzz_Revert_When_TheQuorumIsZeroOrAboveTheGmps(uint8 quorum) public {
        if (quorum != 0) quorum = uint8(bound(quorum, 3, 255));
        Profile memory profile = usualProfile();
        profile.quorum = quorum;
        vm.expectRevert(abi.encodeWithSelector(IProfiles.InvalidProfile.selector, profile));
        source.sendMessage(to, "hello", attribute(abi.encodeCall(IAttributes.quorum, (quorum))));
    }

    function test_Revert_When_AnAttributeNamesARoutersKind() public {
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.ReservedKind.selector, Kind.REPORT));
        source.sendMessage(to, "hello", attribute(abi.encodeCall(IAttributes.kind, (uint8(Kind.REPORT)))));
    }

    function selectors() internal pure returns (bytes4[8] memory) {
        return [
            IAttributes.gmps.selector,
            IAttributes.quorum.selector,
            IAttributes.gasLimit.selector,
            IAttributes.ttl.selector,
            IAttributes.kind.selector,
            IAttributes.retriable.selector,
            IAttributes.cancellable.selector,
            IAttributes.minGasLimit.selector
        ];
    }

    function testFuzz_SupportsAttributeAnswersForAnySelector(bytes4 selector) public view {
        bool known;
        for (uint256 index; index < 8; ++index) {
            if (selectors()[index] == selector) known = true;
            assertTrue(source.supportsAttribute(selectors()[index]));
        }
        assertEq(source.supportsAttribute(selector), known);
    }

    // ---- without value

    function testFuzz_WithoutValueTheMessageWaitsUnfunded(bytes calldata payload) public {
        vm.assume(payload.length < 2000);
        Message memory message = expected(usualProfile(), payload);
        bytes32 messageId = MessageEncoding.id(message);
        bytes memory from = InteroperableAddress.formatEvmV1(HERE, alice);
        vm.expectEmit(address(source));
        emit IMessageSender.MessageUnfunded(messageId, THERE, false, GmpSet.wrap(3), envelopeOf(message));
        vm.expectEmit(address(source));
        emit IERC7786GatewaySource.MessageSent(messageId, from, to, payload, 0, none);
        vm.prank(alice);
        assertEq(source.sendMessage(to, payload, none), messageId);
        assertEq(outbound[HYPERLANE].dispatches(), 0);
        (address sender,) = source.sentMessage(messageId);
        assertEq(sender, alice);
    }

    function testFuzz_AttributesSayHowThisMessageTravels(uint64 gasLimit, uint32 ttl, uint8 kind) public {
        Profile memory profile = usualProfile();
        profile.gmps = GmpSet.wrap(6);
        gasLimit = uint64(bound(gasLimit, 0, 14_000_000));
        (profile.quorum, profile.gasLimit) = (1, gasLimit);
        (profile.ttl, profile.retriable) = (uint32(bound(ttl, 60, type(uint32).max)), true);
        profile.kind = Kind(bound(kind, 0, uint8(Kind.GOVERNANCE_EXECUTE)));
        if (profile.kind == Kind.REGULATORY_ACTION_CRITICAL) profile.ttl = 0;
        bytes[] memory attributes = new bytes[](6);
        attributes[0] = abi.encodeCall(IAttributes.gmps, (6));
        attributes[1] = abi.encodeCall(IAttributes.quorum, (1));
        attributes[2] = abi.encodeCall(IAttributes.gasLimit, (gasLimit));
        attributes[3] = abi.encodeCall(IAttributes.ttl, (profile.ttl));
        attributes[4] = abi.encodeCall(IAttributes.kind, (uint8(profile.kind)));
        attributes[5] = abi.encodeCall(IAttributes.retriable, (true));
        Message memory message = expected(profile, "hello");
        vm.expectEmit(address(source));
        emit IMessageSender.MessageUnfunded(MessageEncoding.id(message), THERE, true, profile.gmps, envelopeOf(message));
        vm.prank(alice);
        source.sendMessage(to, "hello", attributes);
    }

    function test_TheSendersOwnProfileGoesBeforeTheDefault() public {
        Profile memory profile = usualProfile();
        (profile.quorum, profile.gasLimit) = (1, 7);
        IProfiles profiles = source.profiles();
        vm.expectEmit(address(profiles));
        emit IProfiles.ProfileSet(alice, THERE, profile);
        vm.startPrank(alice);
        profiles.setProfile(THERE, profile);
        assertEq(source.sendMessage(to, "", none), MessageEncoding.id(expectedBefore(profile)));
        profiles.setProfile(THERE, Profile(GmpSet.wrap(0), 0, 0, 0, Kind.PLAIN, false, 0));
        assertEq(profiles.profileOf(alice, THERE).quorum, 2);
    }

    /// @dev The message that alice's last call made, with an empty payload.
    function expectedBefore(Profile memory profile) internal view returns (Message memory message) {
        message = expected(profile, "");
        --message.nonce;
    }

    function choiceOf(uint32 retries) internal pure returns (DeliveryChoice memory) {
        return DeliveryChoice(true, Semantics.AT_LEAST_ONCE, Idempotency.MESSAGE_ID, retries, 100, 200, true);
    }

    function testFuzz_WhatIsChosenForAMessageGoesBeforeWhatIsChosenForAll(bytes32 messageId, bytes32 other) public {
        vm.assume(messageId != other && messageId != 0 && other != 0);
        IProfiles profiles = source.profiles();
        vm.expectEmit(address(profiles));
        emit IProfiles.DeliveryChosen(alice, messageId, choiceOf(1));
        vm.startPrank(alice);
        profiles.chooseDelivery(messageId, choiceOf(1));
        assertFalse(profiles.deliveryOf(alice, other).chosen);
        profiles.chooseDelivery(0, choiceOf(2));
        assertEq(profiles.deliveryOf(alice, messageId).maxRetries, 1);
        assertEq(profiles.deliveryOf(alice, other).maxRetries, 2);
        assertFalse(profiles.deliveryOf(owner, messageId).chosen, "nobody chooses for another");
        DeliveryChoice memory none_;
        profiles.chooseDelivery(messageId, none_);
        assertEq(profiles.deliveryOf(alice, messageId).maxRetries, 2);
    }

    function testFuzz_Revert_When_AChoicesWaitsMakeNoSense(uint32 base, uint32 most) public {
        vm.assume(base == 0 || base > most);
        DeliveryChoice memory choice = choiceOf(1);
        (choice.baseBackoffMs, choice.maxBackoffMs) = (base, most);
        IProfiles profiles = source.profiles();
        vm.expectRevert(abi.encodeWithSelector(IProfiles.InvalidBackoff.selector, base, most));
        vm.prank(alice);
        profiles.chooseDelivery(0, choice);
    }

    function testFuzz_Revert_When_AnotherThanTheOwnerSetsADefault(address caller) public {
        vm.assume(caller != owner);
        IProfiles profiles = source.profiles();
        vm.expectRevert(abi.encodeWithSelector(IProfiles.OnlyOwner.selector, caller));
        vm.prank(caller);
        profiles.setDefaultProfile(THERE, usualProfile());
    }

    function testFuzz_Revert_When_AProfileMakesNoSense(uint8 quorum, uint16 gmps) public {
        Profile memory profile = usualProfile();
        (profile.gmps, profile.quorum) = (GmpSet.wrap(gmps), quorum);
        vm.assume(quorum > profile.gmps.count() || (quorum == 0 && gmps != 0));
        IProfiles profiles = source.profiles();
        vm.expectRevert(abi.encodeWithSelector(IProfiles.InvalidProfile.selector, profile));
        profiles.setProfile(THERE, profile);
    }

    // ---- with value

    function testFuzz_WithValueTheMessageIsDispatchedAndTheRestComesBack(uint64 first, uint64 second, uint64 more)
        public
    {
        vm.assume(first != 0);
        outbound[HYPERLANE].setFee(first);
        outbound[AXELAR].setFee(second);
        Message memory message = expected(usualProfile(), "hello");
        uint256 balance = alice.balance;
        vm.expectEmit(address(source));
        emit IMessageSender.MessageRouted(
            MessageEncoding.id(message), THERE, false, GmpSet.wrap(3), envelopeOf(message)
        );
        vm.prank(alice);
        assertEq(source.sendMessage{value: uint256(first) + second + more}(to, "hello", none), 0);
        assertEq(outbound[HYPERLANE].lastValue(), first);
        assertEq(outbound[AXELAR].lastValue(), second);
        assertEq(alice.balance, balance - first - second);
        assertEq(address(source).balance, 0);
    }

    function testFuzz_NobodyIsCalledWithARestOfNothing(uint64 fee) public {
        outbound[HYPERLANE].setFee(fee);
        outbound[AXELAR].setFee(1);
        vm.expectCall(alice, "", 0);
        vm.prank(alice);
        source.sendMessage{value: uint256(fee) + 1}(to, "hello", none);
    }

    function testFuzz_Revert_When_TheValueIsLessThanTheFees(uint64 fee, uint64 value) public {
        fee = uint64(bound(fee, 2, type(uint64).max));
        value = uint64(bound(value, 1, fee - 1));
        outbound[AXELAR].setFee(fee);
        vm.expectRevert(abi.encodeWithSelector(IGateway.InsufficientValue.selector, value, fee));
        vm.prank(alice);
        source.sendMessage{value: value}(to, "hello", none);
    }
}
