// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {Epochs, Gmp, GmpSet, GmpTable, NO_GMPS} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";

/// @dev Each adapter has a copy of the table of all GMPs, and a delivery reads nothing else: no change may pass a copy by.
contract GmpTableTest is RouterFixture {
    uint256 private constant CHANGES = 12;

    Message private message;
    bytes32 private messageId;
    RecordingAdapter[] private retired;

    function setUp() public override {
        super.setUp();
        // Nobody's quorum, so that it takes receipts and never executes.
        message = arriving(16);
        messageId = MessageEncoding.id(message);
        for (uint8 number = 1; number <= 3; ++number) {
            deliver(Gmp.wrap(number), message);
        }
    }

    /// forge-config: default.fuzz.runs = 128
    function testFuzz_EveryChangeReachesTheCopyOfEveryAdapter(uint256 seed) public {
        for (uint256 step; step < CHANGES; ++step) {
            seed = uint256(keccak256(abi.encode(seed)));
            change(Gmp.wrap(uint8(1 + seed % 3)), (seed >> 8) % 5);
            vm.warp(block.timestamp + (seed >> 16) % 2 days);
        }
        for (uint8 number = 1; number <= 3; ++number) {
            requireThatTheCopyAgrees(Gmp.wrap(number));
        }
        for (uint256 index; index < retired.length; ++index) {
            vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.NotAdapter.selector, retired[index]));
            retired[index].deliver(destination, HERE, envelopeOf(message));
        }
    }

    function testFuzz_TheMembersOfATableDoNotTouchEachOther(
        GmpSet enabled,
        GmpSet paused,
        uint16 pausesDay,
        uint16 lanesDay,
        Epochs epochs
    ) public pure {
        GmpTable table = GmpTable.wrap(type(uint160).max).withEpochs(epochs).withEnabled(enabled);
        table = table.withPaused(paused, pausesDay).withLanesClosed(lanesDay);
        assertTrue(table.enabled() == enabled && table.paused() == paused);
        assertEq(table.pausesDay(), pausesDay);
        uint256 next = (uint256(pausesDay) + 1) * 1 days;
        assertTrue(table.pausedAt(next) == NO_GMPS && table.pausedAt(next - 1) == paused);
        assertEq(table.lanesDay(), lanesDay);
        next = (uint256(lanesDay) + 1) * 1 days;
        assertTrue(!table.mayLanesBeClosedAt(next) && table.mayLanesBeClosedAt(next - 1));
        assertEq(Epochs.unwrap(table.epochs()), Epochs.unwrap(epochs));
    }

    function testFuzz_ACopyIsTheTableWithItsGmpAndKeepsThePolicyBit(uint256 word, uint8 number, bool hasPolicy)
        public
        pure
    {
        GmpTable table = GmpTable.wrap(word & type(uint160).max);
        GmpTable before = GmpTable.wrap(hasPolicy ? type(uint256).max : 0).withoutCopy();
        GmpTable copy = table.copyFor(Gmp.wrap(number), before);
        assertEq(uint160(GmpTable.unwrap(copy)), GmpTable.unwrap(table));
        assertEq(Gmp.unwrap(copy.gmp()), number);
        assertEq(copy.hasPolicy(), hasPolicy);
        assertEq(GmpTable.unwrap(copy.withoutCopy()), GmpTable.unwrap(before));
    }

    function testFuzz_TheNumbersOfCreatedAdaptersDoNotTouchEachOther(uint256 word, uint8[16] memory numbers)
        public
        pure
    {
        GmpTable table = GmpTable.wrap(word);
        for (uint8 index; index < 16; ++index) {
            numbers[index] %= 8;
            table = table.withCreatedAs(Gmp.wrap(index + 1), numbers[index]);
        }
        for (uint8 index; index < 16; ++index) {
            assertEq(table.createdAs(Gmp.wrap(index + 1)), numbers[index]);
            assertEq(table.withoutCreated().createdAs(Gmp.wrap(index + 1)), 0);
        }
        uint256 others = ~(uint256(type(uint48).max) << 200);
        assertEq(GmpTable.unwrap(table) & others, word & others);
        assertEq(GmpTable.unwrap(table.withoutCreated()), word & others);
    }

    /// @dev A send finds an adapter that the router created by its number, and every other one by its slot.
    /// forge-config: default.fuzz.runs = 64
    function testFuzz_ASendReachesTheAdapterThatSpeaksForTheGmp(uint256 seed) public {
        uint8 created;
        for (uint256 step; step < CHANGES; ++step) {
            seed = uint256(keccak256(abi.encode(seed)));
            Gmp gmp = Gmp.wrap(uint8(1 + seed % 3));
            if ((seed >> 24) % 3 == 0 && created < 7) {
                vm.startPrank(owner);
                address adapter = destination.createAdapter(gmp, ++created, type(RecordingAdapter).creationCode);
                if (destination.adapterOf(gmp) == address(0)) destination.addAdapter(gmp, adapter);
                else destination.replaceAdapter(gmp, adapter);
                vm.stopPrank();
                inbound[gmp] = RecordingAdapter(adapter);
            } else {
                change(gmp, (seed >> 8) % 5);
            }
            vm.warp(block.timestamp + (seed >> 16) % 2 days);
        }
        onDestination();
        for (uint8 number = 1; number <= 3; ++number) {
            requireThatASendReaches(Gmp.wrap(number));
        }
    }

    function requireThatASendReaches(Gmp gmp) private {
        bool open = destination.adapterOf(gmp) != address(0) && block.timestamp >= destination.gmpPausedUntil(gmp);
        uint256 before = inbound[gmp].dispatches();
        Route memory request = usualRoute(1, 1);
        (request.destinationChain, request.gmps) = (HERE, oneGmp(gmp));
        if (!open) vm.expectPartialRevert(IMessageSender.TooFewDispatched.selector);
        vm.prank(alice);
        destination.route(request);
        assertEq(inbound[gmp].dispatches(), open ? before + 1 : before);
    }

    function test_ALanesClosedDayNeverFalls() public pure {
        GmpTable table = GmpTable.wrap(0).withLanesClosed(5).withLanesClosed(3);
        assertEq(table.lanesDay(), 5);
    }

    /// @dev Adds, revokes, replaces, pauses or releases, unless that makes no sense now.
    function change(Gmp gmp, uint256 what) private {
        bool hasAdapter = destination.adapterOf(gmp) != address(0);
        vm.startPrank(owner);
        if (what == 0 && !hasAdapter) {
            inbound[gmp] = new RecordingAdapter();
            destination.addAdapter(gmp, address(inbound[gmp]));
        } else if (what == 1 && hasAdapter) {
            retired.push(inbound[gmp]);
            destination.revokeAdapter(gmp);
        } else if (what == 2 && hasAdapter) {
            retired.push(inbound[gmp]);
            inbound[gmp] = new RecordingAdapter();
            destination.replaceAdapter(gmp, address(inbound[gmp]));
        } else if (what == 3 && hasAdapter) {
            destination.pauseGmp(gmp, uint48(block.timestamp + 1 days));
        } else if (what == 4) {
            destination.endGmpPause(gmp);
        }
        vm.stopPrank();
    }

    /// @dev What the adapter's delivery does, which its copy decides, is what the router's own table says.
    function requireThatTheCopyAgrees(Gmp gmp) private {
        if (destination.adapterOf(gmp) == address(0)) return;
        bytes memory envelope = envelopeOf(message);
        uint48 pausedUntil = destination.gmpPausedUntil(gmp);
        (GmpSet counted,) = destination.receiptsOf(messageId);
        if (block.timestamp < pausedUntil) {
            vm.expectRevert(abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, gmp, pausedUntil));
        } else if (destination.hasReceived(messageId, gmp)) {
            vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.AlreadyReceived.selector, messageId, gmp));
        } else {
            vm.expectEmit(address(destination));
            emit IMessageReceiver.MessageReceived(
                messageId, HERE, gmp, counted.count() + 1, 16, keccak256(message.payload)
            );
        }
        inbound[gmp].deliver(destination, HERE, envelope);
    }
}
