// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IBoundedMulticall} from "../interfaces/IBoundedMulticall.sol";
import {BoundedCall} from "../libraries/BoundedCall.sol";

/// @notice See {IBoundedMulticall}.
contract BoundedMulticall is IBoundedMulticall {
    /// @dev The number of bits in {CallsMade}.
    uint256 private constant MOST_CALLS = 256;

    /// @dev The gas that the EVM charges for accessing an account before it computes the remaining gas, with a small margin.
    uint256 private constant REACH_GAS = 5_000;

    /// @inheritdoc IBoundedMulticall
    function multicall(Call[] calldata calls) external returns (uint256 succeeded) {
        if (calls.length > MOST_CALLS) revert TooManyCalls(calls.length);
        for (uint256 index; index < calls.length; ++index) {
            if (_make(calls[index], index)) succeeded |= 1 << index;
        }
        if (succeeded == 0) revert NoCallSucceeded();
        emit CallsMade(succeeded);
    }

    function _make(Call calldata call, uint256 index) private returns (bool success) {
        bytes memory data = call.data;
        uint256 available = gasleft();
        // The EVM forwards at most 63/64 of the remaining gas, and silently less than requested.
        if (available < REACH_GAS) revert InsufficientCallGas(index, available, call.gasLimit);
        unchecked {
            if ((available - REACH_GAS) * 63 / 64 < call.gasLimit) {
                revert InsufficientCallGas(index, available, call.gasLimit);
            }
        }
        success = BoundedCall.tryCall(call.target, 0, call.gasLimit, data);
    }
}
