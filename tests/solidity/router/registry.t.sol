// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Create3} from "@openzeppelin/contracts/utils/Create3.sol";
import {Errors} from "@openzeppelin/contracts/utils/Errors.sol";

import {RouterState} from "../../../contracts/RouterState.sol";
import {IGmpRegistry} from "../../../contracts/interfaces/IGmpRegistry.sol";
import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IOwnable} from "../../../contracts/interfaces/IOwnable.sol";
import {IRecipientPolicy} from "../../../contracts/interfaces/IRecipientPolicy.sol";
import {Addresses, DirtyAddress} from "../../../contracts/libraries/Addresses.sol";
import {EpochsExhausted, Gmp, GmpSet, InvalidGmp} from "../../../contracts/types/Gmp.sol";
import {Route} from "../../../contracts/types/Message.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";

contract RegistryTest is RouterFixture {
    using Addresses for address;

    Gmp internal constant LAYERZERO = Gmp.wrap(4);

    RecordingAdapter internal adapter;

    function setUp() public override {
        super.setUp();
        adapter = new RecordingAdapter();
    }

    function expectOwnerRevert(bytes memory reason) internal {
        vm.expectRevert(reason);
        vm.prank(owner);
    }

    function testFuzz_Revert_When_AnyoneButTheOwnerConfigures(address caller) public {
        vm.assume(caller != owner);
        bytes memory reason = abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, caller);
        vm.startPrank(caller);
        vm.expectRevert(reason);
        source.addAdapter(LAYERZERO, address(adapter));
        vm.expectRevert(reason);
        source.replaceAdapter(HYPERLANE, address(adapter));
        vm.expectRevert(reason);
        source.setPeer(THERE, caller.toBytes32(), 1);
    }

    // ---- adapters

    function testFuzz_TheRouterCreatesAnAdapterWhereItsGmpAndNumberSay(uint8 gmp, uint8 number) public {
        (gmp, number) = (uint8(bound(gmp, 1, 16)), uint8(bound(number, 1, 7)));
        bytes memory code = type(RecordingAdapter).creationCode;
        bytes32 salt = bytes32(uint256(gmp) << 8 | number);
        vm.startPrank(owner);
        address created = source.createAdapter(Gmp.wrap(gmp), number, code);
        assertEq(created, Create3.computeAddress(salt, address(source)));
        assertEq(created.code, type(RecordingAdapter).runtimeCode);
        assertEq(source.creationHashOf(created), keccak256(code));
        assertEq(source.creationHashOf(address(outbound[HYPERLANE])), 0);
        vm.expectRevert(Errors.FailedDeployment.selector);
        source.createAdapter(Gmp.wrap(gmp), number, code);
        vm.stopPrank();
    }

    function testFuzz_Revert_When_AnAdapterIsCreatedUnderANumberThatIsNone(uint8 number) public {
        if (number != 0) number = uint8(bound(number, 8, 255));
        expectOwnerRevert(abi.encodeWithSelector(IGmpRegistry.InvalidCreationNumber.selector, number));
        source.createAdapter(LAYERZERO, number, type(RecordingAdapter).creationCode);
        expectOwnerRevert(abi.encodeWithSelector(InvalidGmp.selector, 17));
        source.createAdapter(Gmp.wrap(17), 1, type(RecordingAdapter).creationCode);
    }

    /// @dev What it was created for is not what it speaks for: the owner may register it for another GMP.
    function test_AnAdapterCreatedForOneGmpMaySpeakForAnother() public {
        vm.startPrank(owner);
        RecordingAdapter created =
            RecordingAdapter(source.createAdapter(LAYERZERO, 1, type(RecordingAdapter).creationCode));
        source.replaceAdapter(AXELAR, address(created));
        vm.stopPrank();
        Route memory request = usualRoute(1, 1);
        request.gmps = oneGmp(AXELAR);
        send(request);
        assertEq(created.dispatches(), 1);
    }

    /// @dev It would take no envelope from this router, and deliver to another.
    function testFuzz_Revert_When_TheAdapterSpeaksForAnotherRouter(address router) public {
        vm.assume(router != address(source) && router != address(0));
        adapter.setIdentity(router, address(0));
        bytes memory reason =
            abi.encodeWithSelector(IGmpRegistry.AdapterOfAnotherRouter.selector, address(adapter), router);
        expectOwnerRevert(reason);
        source.addAdapter(LAYERZERO, address(adapter));
        expectOwnerRevert(reason);
        source.replaceAdapter(HYPERLANE, address(adapter));
    }

    /// @dev One GMP under two numbers would be a quorum of two by itself.
    function testFuzz_Revert_When_AnotherNumberHasTheSameTransport(uint8 number) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 1, 3)));
        adapter.setIdentity(address(source), outbound[gmp].transport());
        bytes memory reason =
            abi.encodeWithSelector(IGmpRegistry.TransportAlreadyUsed.selector, outbound[gmp].transport(), gmp);
        expectOwnerRevert(reason);
        source.addAdapter(LAYERZERO, address(adapter));
        expectOwnerRevert(reason);
        source.replaceAdapter(Gmp.wrap(Gmp.unwrap(gmp) % 3 + 1), address(adapter));
        // Another adapter of the same GMP has the same transport, of course.
        vm.prank(owner);
        source.replaceAdapter(gmp, address(adapter));
    }

    function testFuzz_Revert_When_AnAdapterIsAddedForANumberThatIsNone(uint8 number) public {
        if (number != 0) number = uint8(bound(number, 17, 255));
        expectOwnerRevert(abi.encodeWithSelector(InvalidGmp.selector, number));
        source.addAdapter(Gmp.wrap(number), address(adapter));
    }

    /// @dev In Glacis a GMP registered twice loses its mapping.
    function testFuzz_Revert_When_AGmpGetsASecondAdapter(uint8 number) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 1, 3)));
        expectOwnerRevert(abi.encodeWithSelector(IGmpRegistry.GmpAlreadyHasAdapter.selector, gmp, outbound[gmp]));
        source.addAdapter(gmp, address(adapter));
        assertEq(source.adapterOf(gmp), address(outbound[gmp]));
    }

    /// @dev One adapter for two GMPs would let one transport satisfy quorum 2.
    function testFuzz_Revert_When_OneAdapterIsToSpeakForTwoGmps(uint8 number, uint8 other) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 1, 3)));
        address taken = address(outbound[gmp]);
        expectOwnerRevert(abi.encodeWithSelector(IGmpRegistry.AdapterAlreadyUsed.selector, taken, gmp));
        source.addAdapter(Gmp.wrap(uint8(bound(other, 4, 16))), taken);
        expectOwnerRevert(abi.encodeWithSelector(IGmpRegistry.AdapterAlreadyUsed.selector, taken, gmp));
        source.replaceAdapter(Gmp.wrap(Gmp.unwrap(gmp) % 3 + 1), taken);
    }

    /// @dev A call to an address without code succeeds: such an adapter would seem to take messages and lose them.
    function testFuzz_Revert_When_AnAdapterHasNoCode(address account) public {
        vm.assume(account.code.length == 0);
        expectOwnerRevert(abi.encodeWithSelector(IGmpRegistry.NotContract.selector, account));
        source.addAdapter(LAYERZERO, account);
    }

    function testFuzz_AnAddedAdapterEnablesItsGmp(uint8 number) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 4, 16)));
        vm.expectEmit(address(source));
        emit IGmpRegistry.AdapterAdded(gmp, address(adapter));
        vm.prank(owner);
        source.addAdapter(gmp, address(adapter));
        assertEq(source.adapterOf(gmp), address(adapter));
        assertTrue(source.gmpOf(address(adapter)) == gmp);
        assertEq(GmpSet.unwrap(source.enabledGmps()), 7 | (1 << (Gmp.unwrap(gmp) - 1)));
    }

    function testFuzz_Revert_When_AMissingAdapterIsReplacedOrRevoked(uint8 number) public {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 4, 16)));
        bytes memory reason = abi.encodeWithSelector(IGmpRegistry.GmpHasNoAdapter.selector, gmp);
        expectOwnerRevert(reason);
        source.replaceAdapter(gmp, address(adapter));
        expectOwnerRevert(reason);
        source.revokeAdapter(gmp);
    }

    function test_AReplacedAdapterSpeaksForNobodyAndMayBeUsedAgain() public {
        address previous = address(outbound[HYPERLANE]);
        vm.expectEmit(address(source));
        emit IGmpRegistry.AdapterReplaced(HYPERLANE, address(adapter), previous);
        vm.startPrank(owner);
        source.replaceAdapter(HYPERLANE, address(adapter));
        assertTrue(source.gmpOf(previous) == Gmp.wrap(0));
        assertEq(source.epochOf(HYPERLANE), 0);
        source.addAdapter(LAYERZERO, previous);
        assertTrue(source.gmpOf(previous) == LAYERZERO);
    }

    function test_ARevokedAdapterSpeaksForNobodyAndItsGmpIsDisabled() public {
        address previous = address(outbound[AXELAR]);
        vm.expectEmit(address(source));
        emit IGmpRegistry.AdapterRevoked(AXELAR, previous, 1);
        vm.prank(owner);
        source.revokeAdapter(AXELAR);
        assertEq(source.adapterOf(AXELAR), address(0));
        assertTrue(source.gmpOf(previous) == Gmp.wrap(0));
        assertEq(source.epochOf(AXELAR), 1);
        assertEq(GmpSet.unwrap(source.enabledGmps()), 5);
    }

    /// @dev Revoking must work for ever; a GMP that was revoked 255 times can't come back.
    function test_RevokingNeverFailsAndExhaustedEpochsEndAGmpsLife() public {
        vm.startPrank(owner);
        for (uint256 time = 1; time <= 255; ++time) {
            source.revokeAdapter(HYPERLANE);
            assertEq(source.epochOf(HYPERLANE), time);
            if (time < 255) source.addAdapter(HYPERLANE, address(outbound[HYPERLANE]));
        }
        vm.expectRevert(abi.encodeWithSelector(EpochsExhausted.selector, HYPERLANE));
        source.addAdapter(HYPERLANE, address(outbound[HYPERLANE]));
        assertEq(source.epochOf(AXELAR), 0);
    }

    // ---- peers

    function testFuzz_Revert_When_APeerIsZeroOrThisChainsOrNoAddress(bytes32 word) public {
        vm.assume(uint256(word) >> 160 != 0);
        expectOwnerRevert(abi.encodeWithSelector(IGmpRegistry.ZeroChain.selector));
        source.setPeer(0, alice.toBytes32(), 1);
        expectOwnerRevert(abi.encodeWithSelector(IGmpRegistry.ZeroAddress.selector));
        source.setPeer(THERE, 0, 1);
        expectOwnerRevert(abi.encodeWithSelector(ILanePolicy.SameChain.selector, HERE));
        source.setPeer(HERE, alice.toBytes32(), 1);
        expectOwnerRevert(abi.encodeWithSelector(DirtyAddress.selector, word));
        source.setPeer(THERE, word, 1);
    }

    /// @dev A lane whose floor was forgotten would believe any GMP alone.
    function testFuzz_Revert_When_APeerComesWithoutAFloorThatDemandsSomething(uint8 floor) public {
        if (floor != 0) floor = uint8(bound(floor, 17, 255));
        expectOwnerRevert(abi.encodeWithSelector(IRecipientPolicy.InvalidFloor.selector, floor));
        source.setPeer(THERE + 1, alice.toBytes32(), floor);
        assertEq(source.floorOf(THERE + 1), 0);
    }

    function testFuzz_ANewPeerRaisesTheLanesFloorAndNeverLowersIt(uint8 present, uint8 floor) public {
        present = uint8(bound(present, 1, 16));
        floor = uint8(bound(floor, 1, 16));
        vm.startPrank(owner);
        source.setFloor(THERE, present);
        vm.expectEmit(address(source));
        emit IRecipientPolicy.FloorSet(THERE, floor > present ? floor : present);
        source.setPeer(THERE, alice.toBytes32(), floor);
        assertEq(source.floorOf(THERE), floor > present ? floor : present);
    }

    function testFuzz_ANewPeerIsCurrentAndItsPredecessorStaysKnown(address router) public {
        vm.assume(router != address(0) && router != address(destination));
        vm.expectEmit(address(source));
        emit IGmpRegistry.PeerSet(THERE, router.toBytes32());
        vm.prank(owner);
        source.setPeer(THERE, router.toBytes32(), 1);
        assertEq(source.peerOf(THERE), router.toBytes32());
        assertTrue(source.isPeer(THERE, router.toBytes32()));
        assertTrue(source.isPeer(THERE, address(destination).toBytes32()));
        assertFalse(source.isPeer(THERE + 1, router.toBytes32()));
    }

    function test_RevokingThePredecessorLeavesTheCurrentPeer() public {
        bytes32 next = makeAddr("next").toBytes32();
        bytes32 previous = address(destination).toBytes32();
        vm.startPrank(owner);
        source.setPeer(THERE, next, 1);
        vm.expectEmit(address(source));
        emit IGmpRegistry.PeerRevoked(THERE, previous);
        source.revokePeer(THERE, previous);
        assertFalse(source.isPeer(THERE, previous));
        assertEq(source.peerOf(THERE), next);
        source.revokePeer(THERE, next);
        assertEq(source.peerOf(THERE), 0);
    }

    function testFuzz_Revert_When_AnUnknownPeerIsRevoked(uint64 chain, bytes32 router) public {
        vm.assume(chain != THERE || router != address(destination).toBytes32());
        expectOwnerRevert(abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, chain, router));
        source.revokePeer(chain, router);
    }

    // ---- ownership

    function test_Revert_When_TheOwnerRenounces() public {
        expectOwnerRevert(abi.encodeWithSelector(RouterState.RenouncingDisabled.selector));
        Ownable(address(source)).renounceOwnership();
    }

    function test_ANewOwnerDecidesNothingBeforeItAccepts() public {
        vm.expectEmit(address(source));
        emit IOwnable.OwnershipTransferStarted(owner, alice);
        vm.prank(owner);
        source.transferOwnership(alice);
        assertEq(source.owner(), owner);
        assertEq(source.pendingOwner(), alice);
        vm.expectEmit(address(source));
        emit IOwnable.OwnershipTransferred(owner, alice);
        vm.prank(alice);
        source.acceptOwnership();
        assertEq(source.owner(), alice);
    }

    function test_Revert_When_TheRouterIsMadeForNoOwner() public {
        bytes memory code = TestedRouter.creationCode(address(0));
        vm.expectRevert(abi.encodeWithSelector(IOwnable.OwnableInvalidOwner.selector, address(0)));
        assembly ("memory-safe") {
            pop(create(0, add(code, 0x20), mload(code)))
        }
    }

    function testFuzz_Revert_When_OwnershipIsAcceptedByAnotherThanItWasOfferedTo(address caller) public {
        vm.assume(caller != alice);
        vm.prank(owner);
        source.transferOwnership(alice);
        vm.expectRevert(abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, caller));
        vm.prank(caller);
        source.acceptOwnership();
        assertEq(source.owner(), owner);
    }

    function test_OfferingOwnershipToNobodyTakesTheLastOfferBack() public {
        vm.startPrank(owner);
        source.transferOwnership(alice);
        source.transferOwnership(address(0));
        vm.stopPrank();
        assertEq(source.pendingOwner(), address(0));
        vm.expectRevert(abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, alice));
        vm.prank(alice);
        source.acceptOwnership();
        assertEq(source.owner(), owner);
    }
}
