// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpSet} from "../types/Gmp.sol";
import {GmpFee, Message, Retry} from "../types/Message.sol";

/// @notice What every dApp built on {RouterClient} offers to its owner and its retriers.
interface IRouterClient {
    /// @notice `sender` on `chain` may reach this dApp once `quorum` of `gmps` have delivered.
    event RouteAllowed(uint64 indexed chain, address indexed sender, uint8 quorum, GmpSet gmps);

    event RouteForbidden(uint64 indexed chain, address indexed sender);
    event RetrierSet(address indexed account, bool allowed);

    error ZeroRouter();
    error ZeroSender();

    /// @notice A route must ask for at least one receipt, and for no more than the GMPs it allows.
    error InvalidRoute(uint8 quorum, GmpSet gmps);

    error RouteNotAllowed(uint64 chain, address sender);

    /// @notice Too few of the GMPs that this dApp trusts for the route have delivered. The message waits at the router: when
    ///         more have, anyone may execute it.
    error TooFewTrustedReceipts(bytes32 messageId, uint8 receipts, uint8 quorum);

    error NotRetrier(address account);

    /// @notice Lets `sender` on `chain` reach this dApp. A second call replaces the first.
    /// @param quorum How many of `gmps` must have delivered a message. Counts besides what the message itself and the
    ///        router's policy ask for.
    /// @param gmps The GMPs that this dApp trusts for this route.
    function allowRoute(uint64 chain, address sender, uint8 quorum, GmpSet gmps) external;

    function forbidRoute(uint64 chain, address sender) external;

    /// @notice Lets `account` call {retry}.
    function setRetrier(address account, bool allowed) external;

    /// @notice Sends a message of this dApp again: the dApp is its sender, so only it can. `msg.value` pays the fees.
    function retry(Retry calldata request) external payable returns (uint32 attempt);

    /// @notice Asks the destination never to execute a message of this dApp; only its report says whether that came in time.
    ///         `msg.value` pays the fees, surplus goes back to the caller.
    function cancel(Message calldata message, GmpFee[] calldata gmps) external payable returns (bytes32 cancellationId);

    /// @notice Pays out what the router could not pay back to this dApp, which need not take money.
    function withdrawCredit(address payable to) external;

    /// @notice Sets what the router demands of messages from `chain` before it calls this dApp at all. Routes can ask for more.
    function setPolicy(uint64 chain, uint8 quorum, GmpSet gmps) external;

    /// @notice Quorum 0 means that the route is not allowed.
    function allowedRoute(uint64 chain, address sender) external view returns (uint8 quorum, GmpSet gmps);

    function isRetrier(address account) external view returns (bool);
}
