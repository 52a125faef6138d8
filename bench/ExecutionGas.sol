// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

/// @dev Needs `--isolate`, which makes each call of a test a transaction of its own.
abstract contract ExecutionGas is Test {
    /// @dev Of the last call, which was a transaction with that calldata.
    function _executionGas(bytes memory data) internal view returns (uint256 gas) {
        gas = vm.lastCallGas().gasTotalUsed - 21_000;
        for (uint256 index; index < data.length; ++index) {
            gas -= data[index] == 0 ? 4 : 16;
        }
    }
}
