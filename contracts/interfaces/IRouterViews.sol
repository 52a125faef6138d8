// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet} from "../types/Gmp.sol";
import {Execution} from "../types/MessageRecords.sol";

/// @notice A router's records of messages, senders and credits.
interface IRouterViews {
    /// @notice `retrier` may retry the messages of `sender`; zero: only the sender may.
    event RetrierAppointed(address indexed sender, address indexed retrier);

    event Withdrawn(address indexed account, address indexed to, uint256 amount);

    /// @notice The router accepts ether only with messages.
    error UnexpectedValue(uint256 value);

    /// @notice The account has no credit.
    error NothingToWithdraw(address account);
    /// @notice The recipient of the withdrawal rejected the ether.
    error TransferFailed(address to, uint256 amount);

    /// @notice Lets `retrier` retry all messages of the caller; zero removes the retrier.
    function appointRetrier(address retrier) external;

    /// @notice Credits the value to `account`. Adapters return unused fees this way; anyone may call it.
    function creditSurplus(address account) external payable;

    /// @notice Pays out the caller's credit.
    function withdraw(address payable to) external;

    /// @notice The account that may retry messages of `sender`, or zero.
    function retrierOf(address sender) external view returns (address);

    /// @notice The amount that {withdraw} would pay, in wei. The router holds exactly the sum of all credits.
    function creditOf(address account) external view returns (uint256);

    /// @notice The sender of a retriable or unfunded message, and its number of retries; zero for any other id.
    function sentMessage(bytes32 messageId) external view returns (address sender, uint32 attempts);

    /// @notice The number of messages created for a chain, and the sum of their ids mod 2^32.
    function sentTo(uint64 chain) external view returns (uint64 count, uint32 sum);

    /// @notice The GMPs whose receipts count now, and the message's execution state.
    function receiptsOf(bytes32 messageId) external view returns (GmpSet valid, Execution execution);

    /// @notice Whether that GMP's receipt is recorded, so that another delivery over it would be a duplicate.
    function hasReceived(bytes32 messageId, Gmp gmp) external view returns (bool);

    /// @notice The number of messages from a chain that were executed, and the sum of their ids mod 2^192.
    function executedFrom(uint64 chain) external view returns (uint64 count, uint192 sum);

    /// @notice The reported outcome of a retriable message that was sent from here; NONE until it is reported, and for any other
    ///         id. Refunds need `retriable`: the router keeps no record of other messages, so their reports only emit an event
    ///         ({IRouterMessages-OutcomeReported}).
    /// @dev Also recorded for an unfunded message ({IMessageSender-MessageUnfunded}).
    function outcomeOf(bytes32 messageId) external view returns (Execution);
}
