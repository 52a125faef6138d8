// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Calls that Solidity can't express: with bounded return data, with forwarded reverts, and with a delegated answer.
library BoundedCall {
    /// @dev Like `target.call{value: value, gas: gasLimit}(data)`, but does not copy the return data; {answer} copies it where it
    ///      is needed. That saves 110 gas for each call whose return data nobody reads.
    /// @param gasLimit The EVM forwards at most 63/64 of the remaining gas.
    function tryCall(address target, uint256 value, uint256 gasLimit, bytes memory data)
        internal
        returns (bool success)
    {
        assembly ("memory-safe") {
            success := call(gasLimit, target, value, add(data, 0x20), mload(data), 0, 0)
        }
    }

    /// @dev Like {call}, but as a static call.
    function tryView(address target, uint256 gasLimit, bytes memory data) internal view returns (bool success) {
        assembly ("memory-safe") {
            success := staticcall(gasLimit, target, add(data, 0x20), mload(data), 0, 0)
        }
    }

    /// @dev Returns the return data of the last call, truncated to `maxLength` bytes: otherwise a callee that returns a megabyte
    ///      would make its caller pay for the copy. No other call may be made in between.
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

    /// @dev Delegates the current call to `implementation` with this contract's state, and ends it with that result.
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
