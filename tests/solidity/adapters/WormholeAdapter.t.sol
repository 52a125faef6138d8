// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IWormhole, WormholeAdapter} from "../../../contracts/adapters/WormholeAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {Message} from "../../../contracts/types/Message.sol";
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

    function test_NamesChainsAsWormholeDoes() external view {
        WormholeAdapter adapter = WormholeAdapter(address(alphaAdapter));
        uint16 id = uint16(network.numberOf(BETA));
        assertEq(adapter.wormholeIdOf(BETA), id);
        assertEq(adapter.chainOf(id), BETA);
        assertEq(adapter.chainOf(7), 0);
    }
}
