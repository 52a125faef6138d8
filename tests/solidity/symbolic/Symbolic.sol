// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

/// @dev What halmos knows beyond Foundry's cheat codes.
interface SymbolicVm {
    /// @dev Calldata of every function of a contract in turn, with symbolic arguments.
    function createCalldata(string calldata contractName) external pure returns (bytes memory);

    function createBytes(uint256 length, string calldata name) external pure returns (bytes memory);
}

/// @dev Base of the proofs. `check_X` is proven for all arguments; `control_X` is the same claim about a twin without the
///      check, or about a caller who may, and halmos must find arguments for which it fails. scripts/prove.py insists on both.
abstract contract Symbolic {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
    SymbolicVm internal constant svm = SymbolicVm(address(uint160(uint256(keccak256("svm cheat code")))));

    /// @dev What halmos makes for selectors that the contract does not know: a selector and 1024 symbolic bytes, in which it
    ///      can't follow offsets.
    uint256 private constant UNKNOWN_SELECTOR_LENGTH = 4 + 1024;

    /// @dev A call of any state-changing function of the contract with any arguments.
    function anyCallOf(string memory contractName) internal pure returns (bytes memory data) {
        data = svm.createCalldata(contractName);
        vm.assume(data.length != UNKNOWN_SELECTOR_LENGTH);
    }
}
