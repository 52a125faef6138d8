// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet} from "../types/Gmp.sol";
import {Execution} from "../types/MessageRecords.sol";

/// @notice What a router remembers of messages, senders and money.
interface IRouterViews {
    /// @notice `retrier` may retry the messages of `sender`; zero: only the sender may.
    event RetrierAppointed(address indexed sender, address indexed retrier);

    event Withdrawn(address indexed account, address indexed to, uint256 amount);

    /// @notice The router takes money with messages only.
    error UnexpectedValue(uint256 value);

    error NothingToWithdraw(address account);
    error TransferFailed(address to, uint256 amount);

    /// @notice Lets `retrier` retry all messages of the caller; zero takes that back.
    function appointRetrier(address retrier) external;

    /// @notice Adds the value to what `account` may withdraw. Adapters give back so what their GMP did not need; anyone may give.
    function creditSurplus(address account) external payable;

    /// @notice Pays out what refunds to the caller could not.
    function withdraw(address payable to) external;

    /// @notice The account that may retry messages of `sender`, or zero.
    function retrierOf(address sender) external view returns (address);

    /// @notice What {withdraw} would pay, in wei. The router holds exactly the sum of all credits.
    function creditOf(address account) external view returns (uint256);

    /// @notice Who sent a retriable or unfunded message and how often it was retried; zero for any other id.
    function sentMessage(bytes32 messageId) external view returns (address sender, uint32 attempts);

    /// @notice How many messages were created for a chain, and the sum of their ids mod 2^32.
    function sentTo(uint64 chain) external view returns (uint64 count, uint32 sum);

    /// @notice The GMPs whose receipts count now, and how far the message has come.
    function receiptsOf(bytes32 messageId) external view returns (GmpSet valid, Execution execution);

    /// @notice Whether that GMP's receipt is there, so that a delivery over it would be a duplicate.
    function hasReceived(bytes32 messageId, Gmp gmp) external view returns (bool);

    /// @notice How many messages from a chain were executed, and the sum of their ids mod 2^192.
    function executedFrom(uint64 chain) external view returns (uint64 count, uint192 sum);

    /// @notice How a retriable message that was sent from here ended, as far as it was reported; NONE until then, and NONE for
    ///         any other id. Refunds need `retriable`: of other messages the router keeps nothing that shows they were ever
    ///         sent, so their reports are events only ({IRouterMessages-OutcomeReported}).
    /// @dev Also noted for a message that still waits for its fee ({IMessageSender-MessageUnfunded}).
    function outcomeOf(bytes32 messageId) external view returns (Execution);
}
