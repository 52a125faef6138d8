// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

/// @notice Values that operators obey and do not set: alert thresholds, policy limits. They change by governance alone.
interface IParameters is IERC7786Recipient {
    event ParameterSet(bytes32 indexed name, uint256 value);

    /// @notice Neither the timelock nor the router.
    error NotGovernance(address caller);

    /// @notice The message comes from another account than the governor. ERC-7930.
    error NotGovernor(bytes sender);

    /// @notice The message is of another kind than GOVERNANCE_EXECUTE.
    error NotGovernanceMessage(bytes32 messageId);

    error LengthsDiffer(uint256 names, uint256 values);

    /// @notice The value has never been set.
    error UnknownParameter(bytes32 name);

    /// @notice Sets values; only for the timelock. A message's payload is the arguments of this call, `abi.encode`d.
    function set(bytes32[] calldata names, uint256[] calldata values) external;

    function valueOf(bytes32 name) external view returns (uint256);
}
