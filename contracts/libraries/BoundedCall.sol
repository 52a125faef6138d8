// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Calls that Solidity can't express: answers of bounded length, reasons passed on, calls handed over.
library BoundedCall {
    /// @dev Like `target.call{value: value, gas: gasLimit}(data)`, but copies nothing of the answer: {answer} does, where it is
    ///      read. That saves 110 gas of each call whose answer nobody reads.
    /// @param gasLimit Cut by the EVM at 63/64 of what is left.
    function tryCall(address target, uint256 value, uint256 gasLimit, bytes memory data)
        internal
        returns (bool success)
    {
        assembly ("memory-safe") {
            success := call(gasLimit, target, value, add(data, 0x20), mload(data), 0, 0)
        }
    }

    /// @dev The same for a call that changes nothing.
    function tryView(address target, uint256 gasLimit, bytes memory data) internal view returns (bool success) {
        assembly ("memory-safe") {
            success := staticcall(gasLimit, target, add(data, 0x20), mload(data), 0, 0)
        }
    }

    /// @dev What the last call answered, cut at `maxLength` bytes: a callee that returns a megabyte would otherwise make its
    ///      caller pay for it. Nothing may be called in between.
    function answer(uint256 maxLength) internal pure returns (bytes memory data) {
        assembly ("memory-safe") {
            let length := returndatasize()
            if gt(length, maxLength) { length := maxLength }
            data := mload(0x40)
            mstore(data, length)
            returndatacopy(add(data, 0x20), 0, length)
            mstore(0x40, and(add(add(data, length), 0x3f), not(0x1f)))
        }
    }

    /// @dev Reverts with exactly those bytes.
    function bubble(bytes memory reason) internal pure {
        assembly ("memory-safe") {
            revert(add(reason, 0x20), mload(reason))
        }
    }

    /// @dev Lets `implementation` answer the call under way, with this contract's state, and ends it with that answer.
    function delegate(address implementation) internal {
        assembly ("memory-safe") {
            let data := mload(0x40)
            calldatacopy(data, 0, calldatasize())
            let success := delegatecall(gas(), implementation, data, calldatasize(), 0, 0)
            returndatacopy(data, 0, returndatasize())
            if iszero(success) { revert(data, returndatasize()) }
            return(data, returndatasize())
        }
    }
}
