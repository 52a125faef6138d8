// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {Epochs, Gmp, GmpSet, GmpTable} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
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
        uint16 enabled,
        uint16 paused,
        uint48 end,
        uint128 epochs,
        uint8 number
    ) public pure {
        GmpTable table = GmpTable.wrap(type(uint160).max).withEpochs(Epochs.wrap(epochs))
            .withEnabled(GmpSet.wrap(enabled)).withPaused(GmpSet.wrap(paused), end).copyFor(Gmp.wrap(number));
        assertEq(GmpSet.unwrap(table.enabled()), enabled);
        assertEq(GmpSet.unwrap(table.paused()), paused);
        assertEq(table.pausesEnd(), end);
        assertEq(GmpSet.unwrap(table.pausedAt(end)), 0);
        if (end != 0) assertEq(GmpSet.unwrap(table.pausedAt(end - 1)), paused);
        assertEq(Epochs.unwrap(table.epochs()), epochs);
        assertEq(Gmp.unwrap(table.gmp()), number);
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
