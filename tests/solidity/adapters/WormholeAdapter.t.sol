// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IWormhole, WormholeAdapter} from "../../../contracts/adapters/WormholeAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {IRelayerVault} from "../../../contracts/interfaces/IRelayerVault.sol";
import {RelayerVault} from "../../../contracts/relaying/RelayerVault.sol";
import {Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {AdapterBehaviour} from "./AdapterBehaviour.t.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";
import {WormholeNetwork} from "./networks/WormholeNetwork.sol";

contract WormholeAdapterTest is AdapterBehaviour {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new WormholeNetwork();
    }

    /// @dev Delivery is open to anyone: what counts is the guardians' signatures.
    function _isGmp(address) internal pure override returns (bool) {
        return false;
    }

    /// @dev The core keeps no account: what it brought before a revocation it may bring again.
    function _deliversTwice() internal pure override returns (bool) {
        return true;
    }

    function test_RevertWhen_TheCoreRefusesTheVaa() external {
        Message memory message = _invented("forged");
        vm.chainId(BETA);
        vm.expectRevert(abi.encodeWithSelector(WormholeAdapter.InvalidVaa.selector, "VM signature invalid"));
        network.knock(address(this), betaAdapter, ALPHA, _word(address(alphaAdapter)), message.encode(message.id()));
    }

    /// @dev Failure shape: revert and retry. And since the core keeps no account of deliveries, the same VAA can come again
    ///      after it was accepted: the router's receipt is what makes it a duplicate.
    function test_TheSameVaaDeliveredAgainIsAbsorbed() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        assertTrue(network.deliver(parcel));
        vm.expectEmit(address(betaAdapter));
        emit IAdapter.DuplicateAbsorbed(message.id(), network.gmp());
        assertTrue(network.deliver(parcel));
        assertEq(recipient.received(), 1);
    }

    /// @dev A VAA names no destination: anyone can bring it to the adapter of any chain.
    function test_RefusesAVaaForAnotherChain() external {
        Message memory message = _invented("hello");
        message.destinationChain = GAMMA;
        assertFalse(network.deliver(_say(address(alphaAdapter), ALPHA, message.encode(message.id()))));
    }

    function test_RevertWhen_DeployedWithoutACore() external {
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new WormholeAdapter(alphaRouter, IWormhole(address(0)), 1);
    }

    function _openVault() private returns (RelayerVault vault) {
        vault = new RelayerVault(alphaRouter);
        vm.startPrank(owner);
        vault.setPriceLimits(BETA, IRelayerVault.PriceLimits(1 gwei, 1 gwei, 1e12, 1e12, 100_000, 1 days));
        vault.setPrice(BETA, 1 gwei, 1 gwei, 1e12);
        WormholeAdapter(address(alphaAdapter)).setVault(vault);
        vm.stopPrank();
    }

    function testFuzz_RevertWhen_AnyoneButTheOwnerChoosesTheVault(address caller) external {
        vm.assume(caller != owner);
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyOwner.selector, caller));
        vm.prank(caller);
        WormholeAdapter(address(alphaAdapter)).setVault(IRelayerVault(address(1)));
    }

    function testFuzz_PaysTheVaultInTheSameRoute(uint16 length, uint32 gasLimit, uint64 surplus) external {
        length = uint16(bound(length, 0, 4000));
        gasLimit = uint32(bound(gasLimit, 0, 1_000_000));
        uint256 before = _quote(length, gasLimit);
        RelayerVault vault = _openVault();
        Route memory request = _request(address(recipient), new bytes(length), gasLimit);
        uint256 price = request.gmps[0].fee - before;
        uint256 envelope = MessageEncoding.HEADER_LENGTH + length;
        assertEq(price, vault.quote(BETA, alphaAdapter.deliveryGas(envelope, gasLimit), envelope), "the vault's price");
        request.gmps[0].fee += surplus;

        (Message memory message, Parcel memory parcel) = _send(request);
        (uint256 unspent,) = vault.paymentOf(message.id(), network.gmp(), refundee);
        assertEq(unspent, price, "paid for this message, this GMP and this refundee");
        assertEq(address(vault).balance, price);
        assertEq(refundee.balance, surplus, "the surplus came back");
        assertTrue(network.deliver(parcel));
    }

    function test_GivesNoQuoteWithoutAPriceThatIsYoungEnough() external {
        _openVault();
        vm.warp(block.timestamp + 1 days + 1);
        vm.expectPartialRevert(IRelayerVault.StalePrice.selector);
        alphaAdapter.quote(BETA, _word(address(betaRouter)), "envelope", 0);
    }

    function test_NamesChainsAsWormholeDoes() external view {
        WormholeAdapter adapter = WormholeAdapter(address(alphaAdapter));
        uint16 id = uint16(network.numberOf(BETA));
        assertEq(adapter.wormholeIdOf(BETA), id);
        assertEq(adapter.chainOf(id), BETA);
        assertEq(adapter.chainOf(7), 0);
    }
}
