// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BaseAdapter} from "../../../contracts/adapters/BaseAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {IGmpRegistry} from "../../../contracts/interfaces/IGmpRegistry.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Message, Route} from "../../../contracts/types/Message.sol";
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

    /// @dev An adapter that was connected for another router, since revoked, is still trusted here: its word may count for that
    ///      router's messages alone.
    function test_ARevokedRoutersAdapterDoesNotVouchForTheCurrentOne() external {
        IRouter other = IRouter(makeAddr("alpha's other router"));
        address othersAdapter = makeAddr("its adapter");
        _connect(betaAdapter, ALPHA, other, othersAdapter);
        Message memory message = _invented("forged");
        Parcel memory parcel = _say(othersAdapter, ALPHA, message.encode(message.id()));
        assertFalse(network.deliver(parcel), "consumed by the GMP");
        assertFalse(_isReceived(message), "receipt");

        _setPeer(BETA, betaRouter, ALPHA, other);
        message.sourceRouter = _word(address(other));
        parcel = _say(othersAdapter, ALPHA, message.encode(message.id()));
        assertTrue(network.deliver(parcel), "its own router's message is consumed");
        assertTrue(_isReceived(message), "its own router's receipt");
    }

    /// @dev Shorter than what names a router: nothing behind it in memory may be taken for the router's address.
    function testFuzz_RefusesAnEnvelopeThatIsCutShort(uint8 length) external {
        Message memory message = _invented("forged");
        bytes memory envelope = message.encode(message.id());
        uint256 kept = bound(length, 0, 238);
        assembly ("memory-safe") {
            mstore(envelope, kept)
        }
        assertFalse(network.deliver(_say(address(alphaAdapter), ALPHA, envelope)), "consumed by the GMP");
    }

    // ---------------------------------------------------------------- replaced and revoked adapters

    /// @dev Whether the GMP delivers again what it has delivered already.
    function _deliversTwice() internal pure virtual returns (bool) {
        return false;
    }

    function _waitingForTheOther() private returns (Message memory message, Parcel memory parcel) {
        Route memory request = _request(address(recipient), "hello", 100_000);
        GmpFee[] memory gmps = new GmpFee[](2);
        (gmps[0], gmps[1]) = (request.gmps[0], GmpFee(OTHER_GMP, 0));
        (request.gmps, request.quorum) = (gmps, 2);
        return _send(request);
    }

    /// @dev A receipt that a revocation voided comes back over this GMP by a retry; by the old delivery only if the GMP keeps no
    ///      account of deliveries.
    function test_AVoidedReceiptComesBackByARetry() external {
        (Message memory message, Parcel memory parcel) = _waitingForTheOther();
        assertTrue(network.deliver(parcel), "consumed by the GMP");
        vm.startPrank(owner);
        betaRouter.revokeAdapter(network.gmp());
        betaRouter.addAdapter(network.gmp(), address(betaAdapter));
        vm.stopPrank();
        assertFalse(_isReceived(message), "voided");

        network.deliver(parcel);
        assertEq(_isReceived(message), _deliversTwice(), "receipt by the old delivery");
        assertTrue(network.deliver(_retry(message)), "the retry is consumed");
        assertTrue(_isReceived(message), "receipt by the retry");
    }

    /// @dev The GMP carries it to the adapter's address. The way back is to put that adapter in its place again.
    function test_WhatIsOnItsWayToAReplacedAdapterWaitsForIt() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        BaseAdapter successor = BaseAdapter(address(network.deployAdapter(BETA, betaRouter)));
        _connect(successor, ALPHA, alphaRouter, address(alphaAdapter));
        vm.startPrank(owner);
        betaRouter.replaceAdapter(network.gmp(), address(successor));
        vm.stopPrank();
        assertFalse(network.deliver(parcel), "consumed by the GMP");
        assertFalse(_isReceived(message), "receipt");

        vm.startPrank(owner);
        betaRouter.replaceAdapter(network.gmp(), address(betaAdapter));
        vm.stopPrank();
        assertTrue(network.deliver(parcel), "consumed when the adapter is back");
        assertEq(recipient.received(), 1, "executed");
    }

    /// @dev docs/security.md, "Replacing an adapter": the senders turn first, and what they send waits; then the place changes.
    function test_Runbook_ReplacingAnAdapterStrandsNothing() external {
        (Message memory first, Parcel memory toTheOld) = _send("first", 100_000);
        BaseAdapter old = betaAdapter;
        betaAdapter = BaseAdapter(address(network.deployAdapter(BETA, betaRouter)));
        _connect(betaAdapter, ALPHA, alphaRouter, address(alphaAdapter));
        _connect(alphaAdapter, BETA, betaRouter, address(betaAdapter));
        (Message memory second, Parcel memory toTheNew) = _send("second", 100_000);
        assertFalse(network.deliver(toTheNew), "consumed before the place changed");
        assertTrue(network.deliver(toTheOld), "the old adapter's last delivery");
        assertTrue(_isReceived(first), "receipt of the first");

        assertEq(betaRouter.adapterOf(network.gmp()), address(old));
        vm.startPrank(owner);
        betaRouter.replaceAdapter(network.gmp(), address(betaAdapter));
        vm.stopPrank();
        assertTrue(network.deliver(toTheNew), "consumed when delivered again");
        assertTrue(_isReceived(second), "receipt of the second");
        assertEq(recipient.received(), 2, "executed");
    }

    // ---------------------------------------------------------------- numbers

    /// @dev Two adapters of one GMP under two numbers would make it a quorum of two.
    function test_TheGmpGetsNoSecondNumber() external {
        BaseAdapter second = BaseAdapter(address(network.deployAdapter(ALPHA, alphaRouter)));
        assertGt(alphaAdapter.transport().code.length, 0, "a contract");
        bytes memory reason =
            abi.encodeWithSelector(IGmpRegistry.TransportAlreadyUsed.selector, alphaAdapter.transport(), network.gmp());
        vm.expectRevert(reason);
        vm.prank(owner);
        alphaRouter.addAdapter(Gmp.wrap(15), address(second));
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
