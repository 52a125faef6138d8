// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice Makes several calls in one transaction: each with its own gas, none able to undo, hinder or starve another.
/// @dev For relayers, whose deliveries share the cost of a transaction that way. Anyone may call it, with any calls. It has no
///      owner, no storage, no money and no approvals, so a caller gains no right by it. It must never be given one: a right of
///      this address is a right of everyone. GMPs see it as `msg.sender`; it is of use only where a delivery does not depend on
///      that.
interface IBoundedMulticall {
    /// @param target Who is called, without value.
    /// @param gasLimit The gas that the call gets: neither less nor more.
    /// @param data The call's data.
    struct Call {
        address target;
        uint256 gasLimit;
        bytes data;
    }

    /// @notice All calls were made.
    /// @dev The last event of the outermost {multicall}: of several in one transaction, which a callee may cause, the last counts.
    /// @param succeeded One bit for each call, the lowest for the first: whether it ended without a revert.
    event CallsMade(uint256 succeeded);

    /// @notice What is left is too little to give the call its gas. Nothing is done then: a call that gets less than it was
    ///         meant to have may succeed by half.
    /// @param available Gas that is left.
    error InsufficientCallGas(uint256 index, uint256 available, uint256 gasLimit);

    /// @notice More than 256 calls.
    error TooManyCalls(uint256 count);

    /// @notice Each call reverted, or there was none: nothing has happened, and the transaction says so.
    error NoCallSucceeded();

    /// @notice Makes the calls in their order. What they answer is not copied.
    /// @return succeeded As in {CallsMade}.
    function multicall(Call[] calldata calls) external returns (uint256 succeeded);
}
