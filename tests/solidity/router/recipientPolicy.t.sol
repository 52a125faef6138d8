// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IOwnable} from "../../../contracts/interfaces/IOwnable.sol";
import {IRecipientPolicy} from "../../../contracts/interfaces/IRecipientPolicy.sol";
import {IRoles} from "../../../contracts/interfaces/IRoles.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";
import {AcceptingRecipient} from "./doubles/Recipients.sol";

contract RecipientPolicyTest is RouterFixture {
    GmpSet internal constant HYPERLANE_AND_AXELAR = GmpSet.wrap(3);

    address internal revoker = makeAddr("revoker");

    function setUp() public override {
        super.setUp();
        onDestination();
        vm.prank(owner);
        destination.setRevoker(revoker);
    }

    function setFloor(uint8 floor) internal {
        vm.prank(owner);
        destination.setFloor(HERE, floor);
    }

    function setPolicy(uint8 quorum, GmpSet gmps) internal {
        vm.prank(address(recipient));
        destination.setPolicy(HERE, quorum, gmps);
    }

    /// @dev What an adapter is, and whether an account has a policy, is in one word.
    function test_APolicyOutlivesThatItsAccountWasAnAdapter() public {
        RecordingAdapter adapter = new RecordingAdapter();
        vm.prank(address(adapter));
        destination.setPolicy(HERE, 2, HYPERLANE_AND_AXELAR);
        vm.startPrank(owner);
        destination.replaceAdapter(WORMHOLE, address(adapter));
        destination.pauseGmp(AXELAR, uint48(block.timestamp + 1));
        vm.warp(block.timestamp + 1);
        destination.revokeAdapter(WORMHOLE);
        vm.stopPrank();
        Message memory message = arrivingFor(address(adapter), 1);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageReceived(
            MessageEncoding.id(message), HERE, HYPERLANE, 1, 2, keccak256(message.payload)
        );
        deliver(HYPERLANE, message);
    }

    // ---- setting

    function testFuzz_Revert_When_APolicyAsksForMoreReceiptsThanItAllowsGmps(uint8 quorum, uint16 gmps) public {
        GmpSet set = GmpSet.wrap(gmps);
        if (set.count() == 16) set = set.without(Gmp.wrap(1));
        quorum = uint8(bound(quorum, set.count() + 1, 255));
        vm.expectRevert(abi.encodeWithSelector(IRecipientPolicy.InvalidPolicy.selector, quorum, set));
        destination.setPolicy(HERE, quorum, set);
    }

    function testFuzz_Revert_When_APolicyAllowsGmpsButAsksForNone(uint16 gmps) public {
        vm.assume(gmps != 0);
        vm.expectRevert(abi.encodeWithSelector(IRecipientPolicy.InvalidPolicy.selector, 0, gmps));
        destination.setPolicy(HERE, 0, GmpSet.wrap(gmps));
    }

    function testFuzz_ACallerSetsItsOwnPolicyForOneChain(address caller, uint64 chain, uint16 gmps) public {
        vm.assume(gmps != 0 && caller != address(recipient));
        GmpSet set = GmpSet.wrap(gmps);
        uint8 quorum = set.count();
        vm.expectEmit(address(destination));
        emit IRecipientPolicy.PolicySet(caller, chain, quorum, set);
        vm.prank(caller);
        destination.setPolicy(chain, quorum, set);
        (uint8 found, GmpSet allowed) = destination.policyOf(caller, chain);
        assertEq(found, quorum);
        assertEq(GmpSet.unwrap(allowed), gmps);
        (found,) = destination.policyOf(address(recipient), chain);
        assertEq(found, 0);
    }

    function testFuzz_Revert_When_AStrangerSetsAFloor(address caller) public {
        vm.assume(caller != owner && caller != revoker);
        vm.expectRevert(abi.encodeWithSelector(IRoles.NotRevoker.selector, caller));
        vm.prank(caller);
        destination.setFloor(HERE, 2);
    }

    function testFuzz_TheRevokerMayRaiseAFloorButNotLowerIt(uint8 floor, uint8 lower) public {
        floor = uint8(bound(floor, 2, 16));
        lower = uint8(bound(lower, 1, floor - 1));
        vm.expectEmit(address(destination));
        emit IRecipientPolicy.FloorSet(HERE, floor);
        vm.startPrank(revoker);
        destination.setFloor(HERE, floor);
        assertEq(destination.floorOf(HERE), floor);
        vm.expectRevert(abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, revoker));
        destination.setFloor(HERE, lower);
        vm.stopPrank();
        setFloor(lower);
        assertEq(destination.floorOf(HERE), lower);
    }

    function testFuzz_Revert_When_AFloorDemandsNothingOrCouldNeverBeReached(uint8 floor) public {
        if (floor != 0) floor = uint8(bound(floor, 17, 255));
        vm.expectRevert(abi.encodeWithSelector(IRecipientPolicy.InvalidFloor.selector, floor));
        vm.prank(owner);
        destination.setFloor(HERE, floor);
    }

    // ---- what a message needs

    /// @dev The central attack: one GMP lies and forges a whole message, with the quorum it likes best.
    function testFuzz_AForgedMessageWithQuorumOneFromOneLyingGmpMeetsTheFloor(uint8 liar, bytes calldata payload)
        public
    {
        vm.assume(payload.length < 1000);
        setFloor(2);
        Message memory forged = arriving(1);
        forged.payload = payload;
        deliver(Gmp.wrap(uint8(bound(liar, 1, 3))), forged);
        assertEq(recipient.received(), 0);
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.QuorumNotReached.selector, MessageEncoding.id(forged), 1, 2)
        );
        destination.execute(forged);
    }

    function testFuzz_WithoutAPolicyTheLargerOfQuorumAndFloorCounts(uint8 quorum, uint8 floor) public {
        quorum = uint8(bound(quorum, 1, 3));
        floor = uint8(bound(floor, 1, 3));
        setFloor(floor);
        Message memory message = arriving(quorum);
        uint8 needed = quorum > floor ? quorum : floor;
        for (uint8 number = 1; number <= 3; ++number) {
            deliver(Gmp.wrap(number), message);
            assertEq(recipient.received(), number >= needed ? 1 : 0);
        }
    }

    function testFuzz_WithAPolicyTheLargerOfQuorumAndPolicyCountsAlsoBelowTheFloor(uint8 quorum, uint8 policy) public {
        quorum = uint8(bound(quorum, 1, 3));
        policy = uint8(bound(policy, 1, 3));
        setFloor(16);
        setPolicy(policy, GmpSet.wrap(7));
        Message memory message = arriving(quorum);
        uint8 needed = quorum > policy ? quorum : policy;
        for (uint8 number = 1; number <= 3; ++number) {
            deliver(Gmp.wrap(number), message);
            assertEq(recipient.received(), number >= needed ? 1 : 0);
        }
    }

    function test_ReceiptsOfGmpsOutsideThePolicyDoNotCount() public {
        setPolicy(2, HYPERLANE_AND_AXELAR);
        Message memory message = arriving(1);
        deliver(WORMHOLE, message);
        deliver(HYPERLANE, message);
        assertEq(recipient.received(), 0);
        deliver(AXELAR, message);
        assertEq(recipient.received(), 1);
    }

    /// @dev A sender that asked for more GMPs than the policy names got a message that nothing could end.
    function test_AQuorumAboveThePolicysGmpsCanBeReached() public {
        setPolicy(2, HYPERLANE_AND_AXELAR);
        Message memory message = arriving(3);
        deliver(HYPERLANE, message);
        deliver(WORMHOLE, message);
        assertEq(recipient.received(), 0);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageReceived(
            MessageEncoding.id(message), HERE, AXELAR, 3, 3, keccak256(message.payload)
        );
        deliver(AXELAR, message);
        assertEq(recipient.received(), 1);
    }

    /// @dev Both conditions, for every quorum, policy and set of receipts.
    function testFuzz_ExecutesIfAllReachTheQuorumAndTheAllowedReachThePolicy(
        uint8 quorum,
        uint8 least,
        uint16 allowed,
        uint16 delivering
    ) public {
        (quorum, allowed, delivering) = (uint8(bound(quorum, 1, 3)), uint16(bound(allowed, 1, 7)), delivering & 7);
        least = uint8(bound(least, 1, GmpSet.wrap(allowed).count()));
        setPolicy(least, GmpSet.wrap(allowed));
        Message memory message = arriving(quorum);
        for (uint8 number = 1; number <= 3; ++number) {
            if (GmpSet.wrap(delivering).contains(Gmp.wrap(number))) deliver(Gmp.wrap(number), message);
        }
        bool reached = GmpSet.wrap(delivering).count() >= quorum && GmpSet.wrap(delivering & allowed).count() >= least;
        assertEq(recipient.received(), reached ? 1 : 0);
    }

    function test_APolicyThatIsTakenBackLeavesTheFloor() public {
        setFloor(2);
        setPolicy(1, HYPERLANE_AND_AXELAR);
        setPolicy(0, GmpSet.wrap(0));
        Message memory message = arriving(1);
        deliver(HYPERLANE, message);
        assertEq(recipient.received(), 0);
        deliver(WORMHOLE, message);
        assertEq(recipient.received(), 1);
    }

    /// @dev Otherwise a liar's receipt from before the raise would keep the low quorum alive for its forgery.
    function testFuzz_ARaiseAppliesToMessagesOnTheirWay(bool byPolicy, bool byHand) public {
        Message memory message = arriving(2);
        bytes memory anything = abi.encodeWithSelector(AcceptingRecipient.receiveMessage.selector);
        if (byHand) vm.mockCallRevert(address(recipient), anything, "not now");
        deliver(HYPERLANE, message);
        if (byHand) deliver(AXELAR, message);
        vm.clearMockedCalls();
        if (byPolicy) setPolicy(3, GmpSet.wrap(7));
        else setFloor(3);
        if (byHand) {
            vm.expectRevert(
                abi.encodeWithSelector(IMessageReceiver.QuorumNotReached.selector, MessageEncoding.id(message), 2, 3)
            );
            destination.execute(message);
        } else {
            deliver(AXELAR, message);
        }
        assertEq(recipient.received(), 0, "the old quorum sufficed");
        deliver(WORMHOLE, message);
        assertEq(recipient.received(), 1, "a raise strands nothing that can get more receipts");
    }

    /// @dev The receipt that came first counts for nobody: it may not decide what the others must reach.
    function test_AReceiptFromOutsideThePolicyKeepsNoLowQuorumAlive() public {
        setPolicy(1, HYPERLANE_AND_AXELAR);
        Message memory forged = arriving(1);
        deliver(WORMHOLE, forged);
        setPolicy(2, HYPERLANE_AND_AXELAR);
        deliver(HYPERLANE, forged);
        assertEq(recipient.received(), 0, "one receipt sufficed");
        deliver(AXELAR, forged);
        assertEq(recipient.received(), 1);
    }

    /// @dev The liar is paused, the floor raised, the liar revoked: nothing of what it brought before may matter.
    function test_APausedAndRevokedGmpsReceiptKeepsNoLowQuorumAlive() public {
        setFloor(2);
        Message memory forged = arriving(1);
        deliver(WORMHOLE, forged);
        vm.startPrank(owner);
        destination.pauseGmp(WORMHOLE, uint48(block.timestamp + 1 days));
        destination.setFloor(HERE, 3);
        destination.revokeAdapter(WORMHOLE);
        vm.stopPrank();
        deliver(HYPERLANE, forged);
        deliver(AXELAR, forged);
        assertEq(recipient.received(), 0, "the floor of the first receipt sufficed");
    }

    function test_ARaiseAppliesToAMessageWhoseReceiptsWereVoided() public {
        Message memory forged = arriving(2);
        deliver(HYPERLANE, forged);
        vm.startPrank(owner);
        destination.revokeAdapter(HYPERLANE);
        destination.setFloor(HERE, 3);
        destination.addAdapter(HYPERLANE, address(inbound[HYPERLANE]));
        vm.stopPrank();
        deliver(AXELAR, forged);
        deliver(WORMHOLE, forged);
        assertEq(recipient.received(), 0);
        deliver(HYPERLANE, forged);
        assertEq(recipient.received(), 1);
    }

    function test_ALoweredDemandAppliesToAllMessages() public {
        setFloor(3);
        Message memory message = arriving(1);
        deliver(HYPERLANE, message);
        deliver(AXELAR, message);
        assertEq(recipient.received(), 0);
        // Below what has arrived by now: more than enough is enough, too.
        setFloor(1);
        destination.execute(message);
        assertEq(recipient.received(), 1);
    }

    function test_TheEventNamesTheQuorumThatIsReallyNeeded() public {
        setFloor(3);
        Message memory message = arriving(1);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageReceived(
            MessageEncoding.id(message), HERE, AXELAR, 1, 3, keccak256(message.payload)
        );
        deliver(AXELAR, message);
    }

    /// @dev Before the message's own quorum, nothing has asked the lane or the recipient: the event states the message's.
    function test_TheEventTellsThePolicyFromTheMessagesOwnQuorumOn() public {
        setPolicy(2, HYPERLANE_AND_AXELAR);
        Message memory message = arriving(2);
        bytes32 messageId = MessageEncoding.id(message);
        bytes32 payloadHash = keccak256(message.payload);
        setFloor(3);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageReceived(messageId, HERE, WORMHOLE, 1, 2, payloadHash);
        deliver(WORMHOLE, message);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageReceived(messageId, HERE, HYPERLANE, 1, 2, payloadHash);
        deliver(HYPERLANE, message);
        assertEq(recipient.received(), 0);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageReceived(messageId, HERE, AXELAR, 3, 2, payloadHash);
        deliver(AXELAR, message);
        assertEq(recipient.received(), 1);
    }
}
