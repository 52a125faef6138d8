// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpSet} from "../types/Gmp.sol";
import {GmpFee, Message, Retry} from "../types/Message.sol";

/// @notice The functions that every dApp built on {RouterClient} offers to its owner and its retriers.
interface IRouterClient {
    /// @notice Messages from `sender` on `chain` are accepted once `quorum` of `gmps` have delivered them.
    event RouteAllowed(uint64 indexed chain, address indexed sender, uint8 quorum, GmpSet gmps);

    event RouteForbidden(uint64 indexed chain, address indexed sender);
    event RetrierSet(address indexed account, bool allowed);

    /// @notice The router is the zero address.
    error ZeroRouter();
    /// @notice The sender of a route is the zero address.
    error ZeroSender();

    /// @notice A route must require at least one receipt, and no more receipts than it allows GMPs.
    error InvalidRoute(uint8 quorum, GmpSet gmps);

    /// @notice The owner has not allowed messages from this sender on this chain.
    error RouteNotAllowed(uint64 chain, address sender);

    /// @notice Too few of the GMPs that this dApp trusts for the route have delivered the message. It waits at the router; once
    ///         more have delivered, anyone may execute it.
    error TooFewTrustedReceipts(bytes32 messageId, uint8 receipts, uint8 quorum);

    /// @notice Only an account that the owner has set as a retrier may call this.
    error NotRetrier(address account);

    /// @notice Allows messages from `sender` on `chain`. A second call replaces the first.
    /// @param quorum The number of `gmps` that must have delivered a message, in addition to what the message itself and the
    ///        router's policy require.
    /// @param gmps The GMPs that this dApp trusts for this route.
    function allowRoute(uint64 chain, address sender, uint8 quorum, GmpSet gmps) external;

    function forbidRoute(uint64 chain, address sender) external;

    /// @notice Lets `account` call {retry}.
    function setRetrier(address account, bool allowed) external;

    /// @notice Retries a message of this dApp, which is its sender. `msg.value` pays the fees.
    function retry(Retry calldata request) external payable returns (uint32 attempt);

    /// @notice Asks the destination never to execute a message of this dApp. Only the destination's report shows whether the
    ///         request arrived in time. `msg.value` pays the fees; the surplus is returned to the caller.
    function cancel(Message calldata message, GmpFee[] calldata gmps) external payable returns (bytes32 cancellationId);

    /// @notice Withdraws this dApp's credit at the router: refunds that the router could not pay to it.
    function withdrawCredit(address payable to) external;

    /// @notice Sets the receipts that the router requires of messages from `chain` before it calls this dApp. Routes can require
    ///         more.
    function setPolicy(uint64 chain, uint8 quorum, GmpSet gmps) external;

    /// @notice Quorum 0 means that the route is not allowed.
    function allowedRoute(uint64 chain, address sender) external view returns (uint8 quorum, GmpSet gmps);

    function isRetrier(address account) external view returns (bool);
}
