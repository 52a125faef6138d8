// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

import {GmpSet} from "../types/Gmp.sol";

/// @notice Values that operators obey and do not set: alert thresholds, policy limits. They change by governance alone.
/// @dev Owner and governor number their changes in one count, from 1 and growing. Each parameter keeps the number of the change
///      that set it, and only a change with a greater number replaces it. So the order in which messages arrive makes no
///      difference. A grant that a stranger held up can't undo the revocation that followed it.
interface IParameters is IERC7786Recipient {
    event ParameterSet(bytes32 indexed name, uint256 value, uint64 number);

    /// @notice A message came after a later change of that parameter, which stays.
    event ChangeSuperseded(bytes32 indexed name, uint256 value, uint64 number, uint64 present);

    /// @notice Messages of `account` on `chain` are obeyed from now on, once `quorum` of `gmps` have delivered them. Those of
    ///         any other account are refused.
    event GovernorSet(uint64 indexed chain, address indexed account, uint8 quorum, GmpSet gmps);

    error NotRouter(address caller);

    /// @notice The message comes from another account than the governor. ERC-7930.
    error NotGovernor(bytes sender);

    /// @notice The message is of another kind than GOVERNANCE_EXECUTE.
    error NotGovernanceMessage(bytes32 messageId);

    /// @notice A governor must be an account, and its messages need at least one receipt.
    error InvalidGovernor(uint64 chain, address account, uint8 quorum);

    error LengthsDiffer(uint256 names, uint256 values);
    error ZeroNumber();

    /// @notice The value has never been set.
    error UnknownParameter(bytes32 name);

    error RenouncingDisabled();

    /// @notice Sets values; only for the owner. A message's payload is the arguments of this call, `abi.encode`d.
    /// @dev The owner's call sets all of them, whatever numbers are there: a governor that numbers a change 2^64 - 1 must not lock the
    ///      owner out. A message sets what is not superseded and says what is.
    function set(uint64 number, bytes32[] calldata names, uint256[] calldata values) external;

    /// @notice Names another governor, or asks for other receipts of its messages; only for the owner.
    function setGovernor(uint64 chain, address account, uint8 quorum, GmpSet gmps) external;

    function valueOf(bytes32 name) external view returns (uint256);

    /// @notice The number of the change that set a parameter; 0 if none has.
    function numberOf(bytes32 name) external view returns (uint64);
}
