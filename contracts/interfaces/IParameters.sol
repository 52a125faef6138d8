// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

import {GmpSet} from "../types/Gmp.sol";

/// @notice Values that operators obey but cannot set, such as alert thresholds and policy limits. Only governance changes them.
/// @dev Owner and governor number their changes in one sequence, from 1 and increasing. Each parameter stores the number of the
///      change that set it, and only a change with a greater number replaces it. The order in which messages arrive therefore
///      does not matter: a delayed grant cannot undo the revocation that followed it.
interface IParameters is IERC7786Recipient {
    event ParameterSet(bytes32 indexed name, uint256 value, uint64 number);

    /// @notice A message was older than the parameter's last change, which stays.
    event ChangeSuperseded(bytes32 indexed name, uint256 value, uint64 number, uint64 present);

    /// @notice Messages of `account` on `chain` are now obeyed once `quorum` of `gmps` have delivered them. Messages of any other
    ///         account are rejected.
    event GovernorSet(uint64 indexed chain, address indexed account, uint8 quorum, GmpSet gmps);

    /// @notice Only the router may call this.
    error NotRouter(address caller);

    /// @notice The message comes from an account other than the governor; `sender` is an ERC-7930 address.
    error NotGovernor(bytes sender);

    /// @notice The message's kind is not GOVERNANCE_EXECUTE.
    error NotGovernanceMessage(bytes32 messageId);

    /// @notice A governor must be an account, and its messages need at least one receipt.
    error InvalidGovernor(uint64 chain, address account, uint8 quorum);

    /// @notice There are not as many values as names.
    error LengthsDiffer(uint256 names, uint256 values);
    /// @notice A change's number is zero.
    error ZeroNumber();

    /// @notice The value has never been set.
    error UnknownParameter(bytes32 name);

    /// @notice The ownership cannot be renounced.
    error RenouncingDisabled();

    /// @notice Sets values; only for the owner. A message's payload is the ABI-encoded arguments of this call.
    /// @dev The owner's call sets all values, whatever their numbers, so that a governor cannot lock the owner out with the number
    ///      2^64 - 1. A message sets only values that are not superseded, and emits the others.
    function set(uint64 number, bytes32[] calldata names, uint256[] calldata values) external;

    /// @notice Changes the governor, or the receipts that its messages need; only for the owner.
    function setGovernor(uint64 chain, address account, uint8 quorum, GmpSet gmps) external;

    function valueOf(bytes32 name) external view returns (uint256);

    /// @notice The number of the change that set a parameter; 0 if none has.
    function numberOf(bytes32 name) external view returns (uint64);
}
