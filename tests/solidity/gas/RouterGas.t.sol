// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RouterGasHarness} from "../../../bench/RouterGasHarness.sol";

contract RouterGasTest is RouterGasHarness {
    /// @dev Differences below it are not worth a line in a history: 1 %.
    uint256 private constant TOLERANCE = 0.01e18;

    string private constant HINT =
        "the router's gas is not that of snapshots/gas.json: look why, then `make snapshots`";

    /// forge-config: default.isolate = true
    function test_TheRouterCostsWhatItCostWhenTheSnapshotWasTaken() public {
        string memory snapshot = vm.readFile("snapshots/gas.json");
        Gas memory gas = _measure();
        assertAlike(gas.sendRetriable, vm.parseJsonUintArray(snapshot, ".send_retriable"));
        assertAlike(gas.send, vm.parseJsonUintArray(snapshot, ".send"));
        assertAlike(gas.resend, vm.parseJsonUintArray(snapshot, ".resend"));
        assertAlike(gas.receive3of3, vm.parseJsonUintArray(snapshot, ".receive_3of3"));
    }

    function assertAlike(uint256[] memory measured, uint256[] memory expected) private pure {
        assertEq(measured.length, expected.length);
        for (uint256 index; index < measured.length; ++index) {
            assertApproxEqRel(measured[index], expected[index], TOLERANCE, HINT);
        }
    }
}
