// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RouterGasHarness} from "./RouterGasHarness.sol";

/// @dev Writes what `make bench-gas` prints.
contract RouterGas is RouterGasHarness {
    string private constant RESULT = "gas";

    function test_Measure() public {
        Gas memory gas = _measure();
        vm.serializeUint(RESULT, "send_retriable", gas.sendRetriable);
        vm.serializeUint(RESULT, "send", gas.send);
        vm.serializeUint(RESULT, "resend", gas.resend);
        vm.writeJson(vm.serializeUint(RESULT, "receive_3of3", gas.receive3of3), "build/bench/gas.json");
        vm.writeJson(vm.serializeUint("caps", "largest_send", _largestSend()), "build/bench/caps.json");
    }

    function test_MeasureFloor() public {
        string memory result = "floor";
        (Gas memory gas, uint256[] memory batch) = _measureFloor();
        vm.serializeUint(result, "send_retriable", gas.sendRetriable);
        vm.serializeUint(result, "send", gas.send);
        vm.serializeUint(result, "batch_of_ten", batch);
        vm.writeJson(vm.serializeUint(result, "resend", gas.resend), "build/bench/floor.json");
    }
}
