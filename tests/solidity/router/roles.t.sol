// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {TimelockController} from "@openzeppelin/contracts/governance/TimelockController.sol";

import {IOwnable} from "../../../contracts/interfaces/IOwnable.sol";
import {IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {IRoles} from "../../../contracts/interfaces/IRoles.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";

contract RolesTest is RouterFixture {
    using Addresses for address;

    uint256 internal constant DELAY = 2 days;

    TimelockController internal timelock;
    address internal revoker = makeAddr("revoker");
    address internal guardian = makeAddr("guardian");
    address internal tripwire = makeAddr("tripwire");
    address internal proposer = makeAddr("proposer");

    /// @dev A deployment on which each role is a different account, the owner a timelock.
    function setUp() public override {
        super.setUp();
        address[] memory proposers = new address[](1);
        proposers[0] = proposer;
        timelock = new TimelockController(DELAY, proposers, new address[](1), address(0));
        vm.startPrank(owner);
        source.setRevoker(revoker);
        source.setGuardian(guardian);
        source.setTripwire(tripwire);
        source.transferOwnership(address(timelock));
        vm.stopPrank();
        throughTimelock(abi.encodeCall(source.acceptOwnership, ()));
    }

    function throughTimelock(bytes memory call_) internal {
        vm.prank(proposer);
        timelock.schedule(address(source), 0, call_, 0, 0, DELAY);
        vm.warp(block.timestamp + DELAY);
        timelock.execute(address(source), 0, call_, 0, 0);
    }

    // ---- the matrix

    struct Entry {
        bytes call;
        bool byRevoker;
        bool byGuardian;
        bool byTripwire;
    }

    /// @dev Every function that only some may call, with arguments that would succeed for them.
    function matrix() internal returns (Entry[] memory entries) {
        bytes32 peer = address(destination).toBytes32();
        uint48 until = uint48(block.timestamp + 1 hours);
        entries = new Entry[](15);
        entries[0] = Entry(abi.encodeCall(source.revokeAdapter, (HYPERLANE)), true, false, false);
        entries[1] = Entry(abi.encodeCall(source.revokePeer, (THERE, peer)), true, false, false);
        entries[2] = Entry(abi.encodeCall(source.setFloor, (THERE, 3)), true, false, false);
        entries[3] = Entry(abi.encodeCall(source.pauseLane, (THERE, until)), false, true, false);
        entries[4] = Entry(abi.encodeCall(source.pauseGmp, (AXELAR, until)), false, true, true);
        entries[5] = Entry(abi.encodeCall(source.endLanePause, (THERE)), false, false, false);
        entries[6] = Entry(abi.encodeCall(source.endGmpPause, (AXELAR)), false, false, false);
        entries[7] =
            Entry(abi.encodeCall(source.addAdapter, (HYPERLANE, address(new RecordingAdapter()))), false, false, false);
        entries[8] = Entry(
            abi.encodeCall(source.replaceAdapter, (AXELAR, address(new RecordingAdapter()))), false, false, false
        );
        entries[9] = Entry(abi.encodeCall(source.setPeer, (THERE, peer, 1)), false, false, false);
        entries[10] = Entry(abi.encodeCall(source.setRevoker, (revoker)), false, false, false);
        entries[11] = Entry(abi.encodeCall(source.setGuardian, (guardian)), false, false, false);
        entries[12] = Entry(abi.encodeCall(source.transferOwnership, (alice)), false, false, false);
        entries[13] = Entry(abi.encodeCall(source.setTripwire, (tripwire)), false, false, false);
        bytes memory code = type(RecordingAdapter).creationCode;
        entries[14] = Entry(abi.encodeCall(source.createAdapter, (HYPERLANE, 1, code)), false, false, false);
    }

    function test_EachRoleCanDoWhatItDeclaresAndNothingElse() public {
        Entry[] memory entries = matrix();
        for (uint256 index; index < entries.length; ++index) {
            Entry memory entry = entries[index];
            uint256 snapshot = vm.snapshotState();
            assertEq(succeeds(revoker, entry.call), entry.byRevoker, vm.toString(index));
            vm.revertToState(snapshot);
            assertEq(succeeds(guardian, entry.call), entry.byGuardian, vm.toString(index));
            vm.revertToState(snapshot);
            assertEq(succeeds(tripwire, entry.call), entry.byTripwire, vm.toString(index));
            vm.revertToState(snapshot);
            assertFalse(succeeds(owner, entry.call), "the former owner");
            vm.revertToState(snapshot);
            // Hyperlane's adapter must be gone before another can be added.
            if (index == 7) succeeds(address(timelock), entries[0].call);
            assertTrue(succeeds(address(timelock), entry.call), vm.toString(index));
            vm.revertToState(snapshot);
        }
    }

    function testFuzz_AStrangerCanConfigureNothing(address caller) public {
        vm.assume(caller != revoker && caller != guardian && caller != tripwire && caller != address(timelock));
        Entry[] memory entries = matrix();
        for (uint256 index; index < entries.length; ++index) {
            assertFalse(succeeds(caller, entries[index].call));
        }
    }

    function succeeds(address caller, bytes memory call_) internal returns (bool success) {
        vm.prank(caller);
        (success,) = address(source).call(call_);
    }

    function test_WhatAddsTrustWaitsForTheDelay() public {
        bytes memory call_ = abi.encodeCall(source.setPeer, (77, address(destination).toBytes32(), 1));
        vm.startPrank(proposer);
        timelock.schedule(address(source), 0, call_, 0, 0, DELAY);
        vm.stopPrank();
        vm.warp(block.timestamp + DELAY - 1);
        vm.expectRevert();
        timelock.execute(address(source), 0, call_, 0, 0);
        vm.warp(block.timestamp + 1);
        timelock.execute(address(source), 0, call_, 0, 0);
        assertEq(source.peerOf(77), address(destination).toBytes32());
    }

    function test_TheTimelockSetsTheDefaultProfile() public {
        Profile memory profile = Profile(GmpSet.wrap(3), 2, GAS_LIMIT, 7 days, Kind.PLAIN, false, 0);
        IProfiles profiles = source.profiles();
        vm.prank(address(timelock));
        profiles.setDefaultProfile(THERE, profile);
        assertEq(profiles.profileOf(alice, THERE).quorum, 2);
    }

    function test_ARoleThatIsTakenAwayCanDoNothingMore() public {
        assertEq(source.revoker(), revoker);
        assertEq(source.guardian(), guardian);
        vm.startPrank(address(timelock));
        vm.expectEmit(address(source));
        emit IRoles.RevokerSet(address(0));
        source.setRevoker(address(0));
        vm.expectEmit(address(source));
        emit IRoles.GuardianSet(address(0));
        source.setGuardian(address(0));
        vm.stopPrank();
        assertEq(source.revoker(), address(0));
        assertEq(source.guardian(), address(0));
        vm.expectRevert(abi.encodeWithSelector(IRoles.NotRevoker.selector, revoker));
        vm.prank(revoker);
        source.revokeAdapter(HYPERLANE);
        vm.expectRevert(abi.encodeWithSelector(IRoles.NotGuardian.selector, guardian));
        vm.prank(guardian);
        source.pauseGmp(HYPERLANE, uint48(block.timestamp + 1 hours));
    }

    // ---- runbook: one GMP is compromised

    /// @dev The guardian stops it at once, the revoker voids what it brought, honest messages go on over the others, and
    ///      the timelock brings the GMP back with a new adapter.
    function test_Runbook_OneGmpIsCompromised() public {
        vm.startPrank(owner);
        destination.setGuardian(guardian);
        destination.setRevoker(revoker);
        vm.stopPrank();
        Message memory forged = arriving(2);
        forged.payload = "all your funds";
        Message memory honest = arriving(2);
        deliver(HYPERLANE, forged);
        deliver(AXELAR, honest);

        vm.prank(guardian);
        destination.pauseGmp(HYPERLANE, uint48(block.timestamp + 1 days));
        vm.prank(revoker);
        destination.revokeAdapter(HYPERLANE);
        deliver(WORMHOLE, honest);
        assertEq(recipient.lastPayload(), honest.payload);

        RecordingAdapter sound = new RecordingAdapter();
        vm.startPrank(owner);
        destination.addAdapter(HYPERLANE, address(sound));
        destination.endGmpPause(HYPERLANE);
        vm.stopPrank();
        inbound[HYPERLANE] = sound;
        deliver(WORMHOLE, forged);
        assertEq(recipient.received(), 1, "the forgery has one receipt that counts, not two");
        deliver(HYPERLANE, honest);
        (GmpSet receipts, Execution execution) = destination.receiptsOf(MessageEncoding.id(honest));
        assertEq(GmpSet.unwrap(receipts), 7);
        assertEq(uint8(execution), uint8(Execution.EXECUTED));
    }

    function test_TheFormerOwnerIsNotTheOwner() public {
        vm.expectRevert(abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, owner));
        vm.prank(owner);
        source.setGuardian(alice);
        assertEq(source.owner(), address(timelock));
        assertEq(source.pendingOwner(), address(0));
    }
}
