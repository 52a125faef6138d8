// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {ILayerZeroEndpoint, LayerZeroAdapter} from "../../../contracts/adapters/LayerZeroAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {Message} from "../../../contracts/types/Message.sol";
import {LimitedPayload} from "./LimitedPayload.t.sol";
import {RefundedStranger} from "./doubles/RefundedStranger.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";
import {IDvn, IEndpointV2, LayerZeroNetwork} from "./networks/LayerZeroNetwork.sol";

contract LayerZeroAdapterTest is LimitedPayload {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new LayerZeroNetwork();
    }

    function _gmpChecksTheFee() internal pure override returns (bool) {
        return true;
    }

    function _isGmp(address caller) internal view override returns (bool) {
        return caller == address(_layerZero().endpointOn(BETA));
    }

    function testFuzz_RevertWhen_LzReceiveIsNotCalledByTheEndpoint(address caller) external {
        vm.assume(!_isGmp(caller));
        ILayerZeroEndpoint.Origin memory origin = _origin(_word(address(alphaAdapter)));
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyGmp.selector, caller));
        vm.prank(caller);
        LayerZeroAdapter(payable(address(betaAdapter))).lzReceive(origin, 0, "", caller, "");
    }

    /// @dev Failure shape: alert and retry. The executor's transaction goes through, the payload stays, anyone may call again.
    function test_ARefusedDeliveryRaisesAnAlertAndCanBeReceivedByAnyone() external {
        (, Parcel memory parcel) = _send("hello", 100_000);
        _distrustAlpha();
        vm.recordLogs();
        assertFalse(network.deliver(parcel), "consumed");
        assertTrue(_has(vm.getRecordedLogs(), IEndpointV2.LzReceiveAlert.selector), "alert");
        assertTrue(_layerZero().isVerified(parcel), "payload kept");

        _trustAlpha();
        _layerZero().receiveByAnyone(parcel);
        assertFalse(_layerZero().isVerified(parcel), "payload kept");
        assertEq(recipient.received(), 1, "executed once");
    }

    /// @dev LayerZero's endpoint refuses a path that the adapter does not open, so that no verifier's work is spent on it.
    function testFuzz_OpensAPathOnlyForAConnectedAdapter(address stranger) external view {
        vm.assume(stranger != address(alphaAdapter));
        LayerZeroAdapter adapter = LayerZeroAdapter(payable(address(betaAdapter)));
        assertTrue(adapter.allowInitializePath(_origin(_word(address(alphaAdapter)))));
        assertFalse(adapter.allowInitializePath(_origin(_word(stranger))));
        ILayerZeroEndpoint.Origin memory elsewhere = _origin(_word(address(alphaAdapter)));
        elsewhere.srcEid = uint32(network.numberOf(GAMMA));
        assertFalse(adapter.allowInitializePath(elsewhere));
    }

    /// @dev A message that waits must not hold back those behind it.
    function test_DeliversInAnyOrderOnceVerified() external {
        (, Parcel memory first) = _send("first", 100_000);
        (, Parcel memory second) = _send("second", 100_000);
        _distrustAlpha();
        assertFalse(network.deliver(first), "first consumed while refused");
        _trustAlpha();
        assertTrue(network.deliver(second), "second consumed");
        assertTrue(network.deliver(first), "first consumed");
        assertEq(LayerZeroAdapter(payable(address(betaAdapter))).nextNonce(0, 0), 0, "unordered");
    }

    /// @dev A fact that relayers must know: the endpoint executes no nonce before all earlier ones are verified.
    function test_AnUnverifiedMessageHoldsBackThoseBehindIt() external {
        (, Parcel memory first) = _send("first", 100_000);
        (, Parcel memory second) = _send("second", 100_000);
        assertFalse(network.deliver(second), "second consumed before first is verified");
        assertTrue(network.deliver(first), "first consumed");
        assertTrue(network.deliver(second), "second consumed");
    }

    /// @dev A fact that relayers must know: the verifier does not revert when a signature is wrong.
    function test_AWrongSignatureShowsOnlyInAnEvent() external {
        (, Parcel memory parcel) = _send("hello", 100_000);
        vm.recordLogs();
        assertFalse(network.deliverForged(parcel), "consumed");
        assertTrue(_has(vm.getRecordedLogs(), IDvn.VerifySignaturesFailed.selector), "event");
    }

    function test_RevertWhen_ADeliveryBringsValue() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        _distrustAlpha();
        network.deliver(parcel);
        _trustAlpha();
        LayerZeroNetwork layerZero = _layerZero();
        vm.expectRevert();
        layerZero.receiveByAnyone{value: 1}(parcel);
        assertFalse(_isReceived(message));
    }

    function testFuzz_OnlyTheOwnerSetsTheDelegate(address caller, address delegate) external {
        vm.assume(caller != owner);
        LayerZeroAdapter adapter = LayerZeroAdapter(payable(address(alphaAdapter)));
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyOwner.selector, caller));
        vm.prank(caller);
        adapter.setDelegate(delegate);
        vm.prank(owner);
        adapter.setDelegate(delegate);
        assertEq(_layerZero().endpointOn(ALPHA).delegates(address(adapter)), delegate);
    }

    function test_RevertWhen_DeployedWithoutAnEndpoint() external {
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new LayerZeroAdapter(alphaRouter, ILayerZeroEndpoint(address(0)));
    }

    function test_NamesChainsAsLayerZeroDoes() external view {
        LayerZeroAdapter adapter = LayerZeroAdapter(payable(address(alphaAdapter)));
        uint32 eid = uint32(network.numberOf(BETA));
        assertEq(adapter.eidOf(BETA), eid);
        assertEq(adapter.chainOf(eid), BETA);
        assertEq(adapter.chainOf(7), 0);
    }

    function _origin(bytes32 sender) private view returns (ILayerZeroEndpoint.Origin memory) {
        return ILayerZeroEndpoint.Origin(uint32(network.numberOf(ALPHA)), sender, 1);
    }

    function _has(Vm.Log[] memory logs, bytes32 topic) private pure returns (bool) {
        for (uint256 index; index < logs.length; ++index) {
            if (logs[index].topics[0] == topic) return true;
        }
        return false;
    }

    /// @dev A stranger that pays for a message while it is being refunded makes LayerZero refuse it. The message stays payable there.
    function test_APayerCannotLockLayerZeroOutOfAMessage() external {
        Message memory message = _sendUnfunded();
        uint256 fee = _quote(message.payload.length, message.gasLimit);
        RefundedStranger stranger = new RefundedStranger(_layerZero().endpointOn(ALPHA));
        bytes memory options = abi.encodePacked(uint16(3), uint8(1), uint16(17), uint8(1), uint128(500_000));
        ILayerZeroEndpoint.MessagingParams memory own = ILayerZeroEndpoint.MessagingParams(
            uint32(network.numberOf(BETA)), _word(address(betaAdapter)), "noise", options, false
        );
        vm.deal(address(stranger), 10 ether);
        stranger.callWhileRefunded(
            own, address(alphaRouter), fee, abi.encodeCall(alphaRouter.fund, (message, address(stranger)))
        );
        assertTrue(stranger.succeeded(), "the others carry it, or this test shows nothing");

        vm.recordLogs();
        vm.prank(dapp);
        alphaRouter.fund{value: fee}(message, refundee);
        Parcel memory parcel = network.collect(vm.getRecordedLogs(), ALPHA, BETA, address(betaAdapter))[0];
        assertTrue(network.deliver(parcel), "LayerZero carries it too");
        assertTrue(_isReceived(message), "receipt");
    }

    function _layerZero() private view returns (LayerZeroNetwork) {
        return LayerZeroNetwork(address(network));
    }
}
