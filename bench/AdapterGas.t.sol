// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {TwoRouters} from "../tests/solidity/adapters/TwoRouters.sol";
import {AxelarNetwork} from "../tests/solidity/adapters/networks/AxelarNetwork.sol";
import {CcipNetwork} from "../tests/solidity/adapters/networks/CcipNetwork.sol";
import {GmpNetwork} from "../tests/solidity/adapters/networks/GmpNetwork.sol";
import {HyperlaneNetwork} from "../tests/solidity/adapters/networks/HyperlaneNetwork.sol";
import {LayerZeroNetwork} from "../tests/solidity/adapters/networks/LayerZeroNetwork.sol";
import {WormholeNetwork} from "../tests/solidity/adapters/networks/WormholeNetwork.sol";
import {Route} from "../contracts/types/Message.sol";
import {ExecutionGas} from "./ExecutionGas.sol";

/// @notice What a retriable send over one real GMP costs: router, adapter and the GMP's own contracts, with the fee that it asks
///         for, by the rules of {RouterGasHarness}.
abstract contract AdapterGas is TwoRouters, ExecutionGas {
    function _name() internal pure virtual returns (string memory);

    function test_Measure() public {
        bytes memory payload = abi.encode(uint256(0x5a));
        // What the first message of a lane pays for once is paid for.
        _send(payload, 50_000);
        Route memory request = _request(address(recipient), payload, 50_000);
        uint256 fee = _fees(request.gmps);
        vm.prank(dapp);
        alphaRouter.route{value: fee}(request);
        uint256 gas = _executionGas(abi.encodeCall(alphaRouter.route, (request)));
        vm.writeJson(vm.toString(gas), string.concat("build/bench/adapters/", _name(), ".json"));
    }
}

contract HyperlaneGas is AdapterGas {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new HyperlaneNetwork();
    }

    function _name() internal pure override returns (string memory) {
        return "hyperlane";
    }
}

contract AxelarGas is AdapterGas {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new AxelarNetwork();
    }

    function _name() internal pure override returns (string memory) {
        return "axelar";
    }
}

contract WormholeGas is AdapterGas {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new WormholeNetwork();
    }

    function _name() internal pure override returns (string memory) {
        return "wormhole";
    }
}

contract LayerZeroGas is AdapterGas {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new LayerZeroNetwork();
    }

    function _name() internal pure override returns (string memory) {
        return "layerzero";
    }
}

contract CcipGas is AdapterGas {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new CcipNetwork();
    }

    function _name() internal pure override returns (string memory) {
        return "ccip";
    }
}
