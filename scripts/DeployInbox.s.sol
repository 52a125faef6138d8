// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Inbox} from "@waybill/contracts/examples/Inbox.sol";
import {Script, console} from "forge-std/Script.sol";

/// @title DeployInbox
/// @notice Deploys a recipient that believes the router of the chain it is on, as the deployments file names it.
contract DeployInbox is Script {
    error ChainNotDeployed(uint256 chainId, string file);

    function run() external returns (Inbox inbox) {
        address router = routerHere(vm.envOr("DEPLOYMENT", string("deployments/devnet.json")));
        vm.startBroadcast();
        inbox = new Inbox(router, msg.sender);
        vm.stopBroadcast();
        console.log("router", router);
        console.log("inbox ", address(inbox));
    }

    /// @dev The router of the chain that the script runs on.
    function routerHere(string memory file) internal view returns (address) {
        string memory deployment = vm.readFile(file);
        for (uint256 i = 0; vm.keyExistsJson(deployment, _key(i, "chainId")); ++i) {
            if (vm.parseJsonUint(deployment, _key(i, "chainId")) == block.chainid) {
                return vm.parseJsonAddress(deployment, _key(i, "router"));
            }
        }
        revert ChainNotDeployed(block.chainid, file);
    }

    function _key(uint256 chain, string memory field) private pure returns (string memory) {
        return string.concat(".chains[", vm.toString(chain), "].", field);
    }
}
