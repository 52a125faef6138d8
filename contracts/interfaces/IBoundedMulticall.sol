// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Makes several calls in one transaction, each with its own gas; none can revert, block or starve another.
/// @dev For relayers, whose deliveries share a transaction's cost. Anyone may make any calls through it. It has no owner, storage,
///      funds or approvals, so that callers gain no rights. Never grant it any: a right of this address is everyone's right. GMPs
///      see it as `msg.sender`, so it is only useful where a delivery does not depend on the sender.
interface IBoundedMulticall {
    /// @param target The address to call, without value.
    /// @param gasLimit The exact gas for the call.
    /// @param data The calldata.
    struct Call {
        address target;
        uint256 gasLimit;
        bytes data;
    }

    /// @notice All calls were made.
    /// @dev The last event of the outermost {multicall}. A callee may cause further ones in the transaction; only the last one
    ///      counts.
    /// @param succeeded One bit per call, the lowest for the first call: whether it did not revert.
    event CallsMade(uint256 succeeded);

    /// @notice The remaining gas is too little to give the call its exact gas. Everything reverts, because a call with less gas
    ///         than intended may succeed only in part.
    /// @param available The remaining gas.
    error InsufficientCallGas(uint256 index, uint256 available, uint256 gasLimit);

    /// @notice There are more than 256 calls.
    error TooManyCalls(uint256 count);

    /// @notice Every call reverted, or there were no calls. Nothing has changed.
    error NoCallSucceeded();

    /// @notice Makes the calls in order. Their return data is not copied.
    /// @return succeeded As in {CallsMade}.
    function multicall(Call[] calldata calls) external returns (uint256 succeeded);
}
