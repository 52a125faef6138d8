// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {Vm} from "forge-std/Vm.sol";

import {GatewayConformance} from "../../../contracts/conformance/GatewayConformance.sol";
import {Fault, LoopbackGateway} from "./doubles/LoopbackGateway.sol";

contract MyGateway is LoopbackGateway(Fault.NONE) {}

// What docs/gateway-conformance.md shows.

contract MyGatewayTest is GatewayConformance {
    MyGateway private gateway = new MyGateway();

    function _gateway() internal view override returns (IERC7786GatewaySource) {
        return gateway;
    }

    function _destinationChain() internal view override returns (uint256) {
        return block.chainid;
    }

    function _deliver(Vm.Log[] memory logs) internal override {
        gateway.deliver(logs[0].topics[1]); // its MessageSent names the sendId
    }
}
