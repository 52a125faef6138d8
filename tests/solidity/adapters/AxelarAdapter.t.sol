// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AxelarAdapter, IAxelarGasService, IAxelarGateway} from "../../../contracts/adapters/AxelarAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {DirtyAddress} from "../../../contracts/libraries/Addresses.sol";
import {MessageEncoding} from "../../../contracts/types/Message.sol";
import {AdapterBehaviour} from "./AdapterBehaviour.t.sol";
import {AxelarNetwork} from "./networks/AxelarNetwork.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";

contract AxelarAdapterTest is AdapterBehaviour {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new AxelarNetwork();
    }

    /// @dev Execution is open to anyone: what counts is the gateway's approval.
    function _isGmp(address) internal pure override returns (bool) {
        return false;
    }

    function test_RevertWhen_TheGatewayHasNotApproved() external {
        vm.expectRevert(abi.encodeWithSelector(AxelarAdapter.NotApproved.selector, bytes32("command")));
        AxelarAdapter(address(betaAdapter)).execute("command", "chain-31337", "0x00", "payload");
    }

    /// @dev Failure shape: the approval stands until an execution succeeds.
    function test_TheApprovalOutlivesARefusedExecution() external {
        (, Parcel memory parcel) = _send("hello", 100_000);
        vm.prank(owner);
        betaAdapter.disconnect(ALPHA, _word(address(alphaAdapter)));
        assertFalse(network.deliver(parcel), "consumed");
        assertTrue(_axelar().isApproved(parcel), "approved still");

        _connect(betaAdapter, ALPHA, alphaRouter, address(alphaAdapter));
        assertTrue(network.deliver(parcel), "consumed");
        assertFalse(_axelar().isApproved(parcel), "approved still");
    }

    function testFuzz_TheGasServiceIsPaidForTheGasAskedFor(uint16 length, uint32 gasLimit) external {
        bytes memory payload = new bytes(bound(length, 0, 4000));
        uint256 asked = alphaAdapter.deliveryGas(MessageEncoding.HEADER_LENGTH + payload.length, gasLimit);
        uint256 estimate = _axelar().gasServices(ALPHA).estimateGasFee("chain-31338", "", payload, asked, "");
        assertEq(_quote(payload.length, gasLimit), estimate);
    }

    function test_Sends_WhenTheGasServiceAsksForNothing() external {
        _axelar().setPrices(ALPHA, BETA, 0, 0);
        assertEq(_quote(5, 100_000), 0, "fee");
        (, Parcel memory parcel) = _send("hello", 100_000);
        assertTrue(network.deliver(parcel), "sent");
    }

    function testFuzz_RevertWhen_TheRemoteAdapterIsNoEvmAddress(bytes32 remote) external {
        vm.assume(uint256(remote) >> 160 != 0);
        vm.expectRevert(abi.encodeWithSelector(DirtyAddress.selector, remote));
        network.connect(owner, alphaAdapter, GAMMA, bytes32(uint256(1)), remote, 5);
    }

    function test_RevertWhen_DeployedWithoutAGatewayOrAGasService() external {
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new AxelarAdapter(alphaRouter, IAxelarGateway(address(0)), IAxelarGasService(address(1)));
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new AxelarAdapter(alphaRouter, IAxelarGateway(address(1)), IAxelarGasService(address(0)));
    }

    function test_NamesChainsAsAxelarDoes() external view {
        AxelarAdapter adapter = AxelarAdapter(address(alphaAdapter));
        assertEq(adapter.nameOf(BETA), "chain-31338");
        assertEq(adapter.chainOf(keccak256("chain-31338")), BETA);
        assertEq(adapter.chainOf(keccak256("")), 0);
    }

    function _axelar() private view returns (AxelarNetwork) {
        return AxelarNetwork(address(network));
    }
}
