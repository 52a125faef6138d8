// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {CcipAdapter, ICcipReceiver, ICcipRouter} from "../../../contracts/adapters/CcipAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {DirtyAddress} from "../../../contracts/libraries/Addresses.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {LimitedPayload} from "./LimitedPayload.t.sol";
import {CcipNetwork} from "./networks/CcipNetwork.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";

contract CcipAdapterTest is LimitedPayload {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new CcipNetwork();
    }

    function _isGmp(address caller) internal view override returns (bool) {
        return caller == address(_ccip().routerOn(BETA));
    }

    function testFuzz_RevertWhen_CcipReceiveIsNotCalledByTheRouter(address caller) external {
        vm.assume(!_isGmp(caller));
        ICcipReceiver.IncomingMessage memory message;
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyGmp.selector, caller));
        vm.prank(caller);
        CcipAdapter(address(betaAdapter)).ccipReceive(message);
    }

    /// @dev Failure shape: failure state and manual execution, by anyone, with as much gas or more.
    function test_ARefusedDeliveryFailsAndCanBeExecutedManually() external {
        (, Parcel memory parcel) = _send("hello", 100_000);
        _distrustAlpha();
        assertFalse(network.deliver(parcel), "consumed");
        assertEq(_ccip().stateOf(parcel), _ccip().FAILURE(), "state");

        _trustAlpha();
        _ccip().executeByOracles(parcel);
        assertEq(_ccip().stateOf(parcel), _ccip().FAILURE(), "the oracles try only once");
        _ccip().executeManually(parcel, _ccip().gasLimitOf(parcel) + 1);
        assertEq(_ccip().stateOf(parcel), _ccip().SUCCESS(), "state");
        assertEq(recipient.received(), 1, "executed once");
    }

    /// @dev CCIP lets nobody deliver with less gas than was asked for, so this GMP can't bring too little: the suite's case
    ///      becomes "nobody can make it so".
    function test_Consumes_WhenTheDeliveryBringsTooLittleGas() external override {
        (Message memory message, Parcel memory parcel) = _send("hello", 2_000_000);
        _distrustAlpha();
        assertFalse(network.deliver(parcel), "consumed");
        CcipNetwork ccip = _ccip();
        uint256 tooLittle = ccip.gasLimitOf(parcel) - 1;
        vm.expectRevert();
        ccip.executeManually(parcel, tooLittle);
        assertFalse(_isReceived(message), "receipt");
    }

    function testFuzz_TheMessageCarriesTheGasAskedFor(uint16 length, uint32 gasLimit) external {
        gasLimit = uint32(bound(gasLimit, 0, 2_000_000));
        bytes memory payload = new bytes(bound(length, 0, 4000));
        (, Parcel memory parcel) = _send(payload, gasLimit);
        uint256 asked = alphaAdapter.deliveryGas(MessageEncoding.HEADER_LENGTH + payload.length, gasLimit);
        assertEq(_ccip().gasLimitOf(parcel), asked);
    }

    /// @dev A sender's ordered messages count up; one that waits would hold back those behind it.
    function test_AsksForNoOrder() external {
        _send("first", 100_000);
        (, Parcel memory second) = _send("second", 100_000);
        assertEq(_ccip().nonceOf(second), 0);
    }

    /// @dev A fact that relayers must know: an off-ramp takes the roots of one source without gaps.
    function test_AnUncommittedMessageHoldsBackThoseBehindIt() external {
        (, Parcel memory first) = _send("first", 100_000);
        (, Parcel memory second) = _send("second", 100_000);
        assertFalse(network.deliver(second), "second consumed before first is committed");
        assertTrue(network.deliver(first), "first consumed");
        assertTrue(network.deliver(second), "second consumed");
    }

    /// @dev CCIP skips a recipient that does not say so, and calls the message delivered.
    function test_DeclaresThatItReceives() external view {
        CcipAdapter adapter = CcipAdapter(address(betaAdapter));
        assertTrue(adapter.supportsInterface(0x85572ffb), "CCIP's receiver");
        assertTrue(adapter.supportsInterface(0x01ffc9a7), "ERC-165");
        assertFalse(adapter.supportsInterface(0xffffffff), "the invalid interface");
    }

    function testFuzz_RevertWhen_TheRemoteAdapterIsNoEvmAddress(bytes32 remote) external {
        vm.assume(uint256(remote) >> 160 != 0);
        uint256 number = network.numberOf(GAMMA);
        vm.expectRevert(abi.encodeWithSelector(DirtyAddress.selector, remote));
        network.connect(owner, alphaAdapter, GAMMA, bytes32(uint256(1)), remote, number);
    }

    function test_RevertWhen_DeployedWithoutARouter() external {
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new CcipAdapter(alphaRouter, ICcipRouter(address(0)));
    }

    function test_NamesChainsAsCcipDoes() external view {
        CcipAdapter adapter = CcipAdapter(address(alphaAdapter));
        uint64 selector = uint64(network.numberOf(BETA));
        assertEq(adapter.selectorOf(BETA), selector);
        assertEq(adapter.chainOf(selector), BETA);
        assertEq(adapter.chainOf(7), 0);
    }

    function _ccip() private view returns (CcipNetwork) {
        return CcipNetwork(address(network));
    }
}
