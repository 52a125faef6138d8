// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BaseAdapter} from "../../../contracts/adapters/BaseAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {Message} from "../../../contracts/types/Message.sol";
import {TwoRouters} from "./TwoRouters.sol";
import {Parcel} from "./networks/GmpNetwork.sol";

/// @notice Who may connect an adapter to which others, and what follows; a part of what every adapter must do.
abstract contract AdapterConnections is TwoRouters {
    function test_RefusesADisconnectedAdapter_InBothDirections() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        vm.expectEmit(address(betaAdapter));
        emit IAdapter.Disconnected(ALPHA, _word(address(alphaRouter)), _word(address(alphaAdapter)));
        vm.prank(owner);
        betaAdapter.disconnect(ALPHA, _word(address(alphaAdapter)));

        assertFalse(network.deliver(parcel), "consumed by the GMP");
        assertFalse(_isReceived(message), "receipt");
        assertEq(betaAdapter.remoteAdapterOf(ALPHA, _word(address(alphaRouter))), 0);
        vm.expectRevert(abi.encodeWithSelector(IAdapter.NotConnected.selector, ALPHA, _word(address(alphaRouter))));
        betaAdapter.quote(ALPHA, _word(address(alphaRouter)), "", 0);

        _connect(betaAdapter, ALPHA, alphaRouter, address(alphaAdapter));
        assertTrue(network.deliver(parcel), "consumed after connecting again");
    }

    /// @dev Trust is taken away without the delay that giving it has.
    function test_TheRevokerDisconnectsAndDoesNotConnect() external {
        address revoker = makeAddr("revoker");
        vm.prank(owner);
        betaRouter.setRevoker(revoker);
        vm.prank(revoker);
        betaAdapter.disconnect(ALPHA, _word(address(alphaAdapter)));
        assertEq(betaAdapter.remoteAdapterOf(ALPHA, _word(address(alphaRouter))), 0);

        uint256 number = network.numberOf(ALPHA);
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyOwner.selector, revoker));
        network.connect(revoker, betaAdapter, ALPHA, _word(address(alphaRouter)), _word(address(alphaAdapter)), number);
    }

    function test_StillHearsAReplacedRemoteAdapter() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        BaseAdapter successor = BaseAdapter(address(network.deployAdapter(ALPHA, alphaRouter)));
        vm.expectEmit(address(betaAdapter));
        emit IAdapter.Connected(ALPHA, _word(address(alphaRouter)), _word(address(successor)));
        _connect(betaAdapter, ALPHA, alphaRouter, address(successor));
        assertEq(betaAdapter.remoteAdapterOf(ALPHA, _word(address(alphaRouter))), _word(address(successor)));

        assertTrue(network.deliver(parcel), "consumed by the GMP");
        assertTrue(_isReceived(message), "receipt");

        vm.expectEmit(address(betaAdapter));
        emit IAdapter.Disconnected(ALPHA, _word(address(alphaRouter)), _word(address(alphaAdapter)));
        vm.prank(owner);
        betaAdapter.disconnect(ALPHA, _word(address(alphaAdapter)));
        assertEq(
            betaAdapter.remoteAdapterOf(ALPHA, _word(address(alphaRouter))),
            _word(address(successor)),
            "cutting the predecessor off leaves the successor"
        );
    }

    function test_RevertWhen_DisconnectingAnUnknownAdapter() external {
        vm.expectRevert(abi.encodeWithSelector(IAdapter.UntrustedRemote.selector, BETA, bytes32(uint256(1))));
        vm.prank(owner);
        alphaAdapter.disconnect(BETA, bytes32(uint256(1)));
    }

    function testFuzz_RevertWhen_SomebodyElseThanTheOwnerConnects(address caller) external {
        // No call comes from the zero address, which is what the revoker is before there is one.
        vm.assume(caller != owner && caller != address(0));
        uint256 number = network.numberOf(GAMMA);
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyOwner.selector, caller));
        network.connect(caller, alphaAdapter, GAMMA, bytes32(uint256(1)), bytes32(uint256(2)), number);
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyOwner.selector, caller));
        vm.prank(caller);
        alphaAdapter.disconnect(BETA, _word(address(betaAdapter)));
    }

    function test_RevertWhen_ConnectingZeros() external {
        uint256 number = network.numberOf(GAMMA);
        bytes32 one = bytes32(uint256(1));
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        network.connect(owner, alphaAdapter, 0, one, one, number);
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        network.connect(owner, alphaAdapter, GAMMA, 0, one, number);
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        network.connect(owner, alphaAdapter, GAMMA, one, 0, number);
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        network.connect(owner, alphaAdapter, GAMMA, one, one, 0);
    }

    function test_RevertWhen_TheRemoteAdapterSpeaksForAnotherRouter() external {
        bytes32 adapter = _word(address(betaAdapter));
        bytes memory expected =
            abi.encodeWithSelector(IAdapter.RemoteAlreadyConnected.selector, BETA, adapter, _word(address(betaRouter)));
        uint256 number = network.numberOf(BETA);
        vm.expectRevert(expected);
        network.connect(owner, alphaAdapter, BETA, bytes32(uint256(1)), adapter, number);
    }

    /// @dev Two chains under one number would make one of them speak for the other.
    function test_RevertWhen_TheNumberBelongsToAnotherChain() external {
        uint256 number = network.numberOf(BETA);
        vm.expectRevert(abi.encodeWithSelector(BaseAdapter.ChainNumberTaken.selector, GAMMA, BETA));
        network.connect(owner, alphaAdapter, GAMMA, bytes32(uint256(1)), bytes32(uint256(2)), number);
    }

    /// @dev What travels under the old number would be stranded.
    function test_RevertWhen_TheChainHasAnotherNumber() external {
        uint256 number = network.numberOf(GAMMA);
        vm.expectRevert(abi.encodeWithSelector(BaseAdapter.ChainNumberFixed.selector, BETA));
        network.connect(owner, alphaAdapter, BETA, _word(address(betaRouter)), _word(address(betaAdapter)), number);
    }
}
