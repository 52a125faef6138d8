// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {Message, Retry} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";

/// @dev The runbook "move to a second router with messages in flight" (docs/security.md), step by step.
contract SuccessionTest is RouterFixture {
    using Addresses for address;

    IRouter private successor;
    mapping(Gmp gmp => RecordingAdapter) private inboundOfSuccessor;

    /// @dev Steps 1 and 2: the successor stands beside the old router and knows the source; nobody sends to it yet.
    function setUp() public override {
        super.setUp();
        successor = TestedRouter.deploy(owner);
        onDestination();
        vm.startPrank(owner);
        for (uint8 number = 1; number <= 3; ++number) {
            inboundOfSuccessor[Gmp.wrap(number)] = new RecordingAdapter();
            successor.addAdapter(Gmp.wrap(number), address(inboundOfSuccessor[Gmp.wrap(number)]));
        }
        successor.setPeer(HERE, address(source).toBytes32(), 1);
        vm.stopPrank();
        onSource();
    }

    function test_Runbook_MovingToASecondRouterWithMessagesInFlight() public {
        (Message memory old, bytes32 oldId) = send(usualRoute(3, 2));
        deliver(HYPERLANE, old);
        moveSourceToSuccessor();

        // What is sent from now on goes to the successor.
        (Message memory young, bytes32 youngId) = send(usualRoute(3, 2));
        assertEq(young.destinationRouter, address(successor).toBytes32());
        deliverToSuccessor(HYPERLANE, young);
        deliverToSuccessor(AXELAR, young);
        assertEq(recipient.timesReceived(youngId), 1);

        // What was under way still ends at the old router, by a retry too.
        onSource();
        vm.prank(alice);
        source.retryRoute(usualRetry(old, WORMHOLE));
        assertEq(outbound[WORMHOLE].lastEnvelope(), envelopeOf(old), "goes to the router that it was for");
        deliver(WORMHOLE, old);
        assertEq(recipient.timesReceived(oldId), 1);

        // And its report still comes back.
        reportFromOldRouter(old);
        assertTrue(source.outcomeOf(oldId) == Execution.EXECUTED);
        retireOldRouter(old);
    }

    /// @dev Whichever GMP brings whichever message to whichever router in whatever order.
    function testFuzz_NoOrderOfDeliveriesExecutesAMessageTwiceOverBothRouters(uint256 order) public {
        (Message memory old, bytes32 oldId) = send(usualRoute(3, 1));
        moveSourceToSuccessor();
        (Message memory young, bytes32 youngId) = send(usualRoute(3, 1));
        onDestination();
        for (uint256 step; step < 12; ++step) {
            Message memory message = order % 2 == 0 ? old : young;
            Gmp gmp = Gmp.wrap(uint8(1 + (order >> 1) % 3));
            bool toSuccessor = (order >> 3) % 2 == 0;
            RecordingAdapter adapter = toSuccessor ? inboundOfSuccessor[gmp] : inbound[gmp];
            try adapter.deliver(toSuccessor ? successor : destination, HERE, envelopeOf(message)) {} catch {}
            order >>= 4;
        }
        assertLe(recipient.timesReceived(oldId), 1);
        assertLe(recipient.timesReceived(youngId), 1);
        (, Execution oldAtSuccessor) = successor.receiptsOf(oldId);
        (, Execution youngAtOld) = destination.receiptsOf(youngId);
        assertTrue(oldAtSuccessor == Execution.NONE && youngAtOld == Execution.NONE, "executed where it did not belong");
    }

    function test_Revert_When_EitherRoutersMessageIsDeliveredToTheOther() public {
        (Message memory old,) = send(usualRoute(3, 2));
        moveSourceToSuccessor();
        (Message memory young,) = send(usualRoute(3, 2));
        onDestination();
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.WrongDestination.selector, THERE, old.destinationRouter)
        );
        inboundOfSuccessor[HYPERLANE].deliver(successor, HERE, envelopeOf(old));
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.WrongDestination.selector, THERE, young.destinationRouter)
        );
        inbound[HYPERLANE].deliver(destination, HERE, envelopeOf(young));
    }

    /// @dev A second router begins to count at one again; its ids are others all the same.
    function test_TwoRoutersOnOneChainNeverCreateEqualIds() public {
        IRouter second = TestedRouter.deploy(owner);
        vm.startPrank(owner);
        second.addAdapter(HYPERLANE, address(new RecordingAdapter()));
        second.setPeer(THERE, address(destination).toBytes32(), 1);
        vm.stopPrank();
        vm.startPrank(alice);
        bytes32 first = source.route(usualRoute(1, 1));
        assertNotEq(second.route(usualRoute(1, 1)), first);
        vm.stopPrank();
    }

    /// @dev Step 3.
    function moveSourceToSuccessor() private {
        onSource();
        vm.prank(owner);
        source.setPeer(THERE, address(successor).toBytes32(), 1);
        assertTrue(source.isPeer(THERE, address(destination).toBytes32()), "the old router stays known");
    }

    function deliverToSuccessor(Gmp gmp, Message memory message) private {
        onDestination();
        inboundOfSuccessor[gmp].deliver(successor, HERE, envelopeOf(message));
    }

    function reportFromOldRouter(Message memory message) private {
        onDestination();
        destination.report(message, 1, firstGmps(2), refundee);
        bytes memory envelope = inbound[HYPERLANE].lastEnvelope();
        onSource();
        outbound[HYPERLANE].deliver(source, THERE, envelope);
        outbound[AXELAR].deliver(source, THERE, envelope);
    }

    /// @dev Step 5: once nothing is under way to it any more, both sides forget the old router.
    function retireOldRouter(Message memory old) private {
        bytes32 oldRouter = address(destination).toBytes32();
        vm.prank(owner);
        source.revokePeer(THERE, oldRouter);
        assertEq(source.peerOf(THERE), address(successor).toBytes32(), "new messages are not touched");
        Retry memory again = usualRetry(old, AXELAR);
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, THERE, oldRouter));
        vm.prank(alice);
        source.retryRoute(again);
        onDestination();
        vm.prank(owner);
        destination.revokePeer(HERE, address(source).toBytes32());
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, HERE, address(source).toBytes32()));
        inbound[AXELAR].deliver(destination, HERE, envelopeOf(old));
    }
}
