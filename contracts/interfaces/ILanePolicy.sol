// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../types/Gmp.sol";

/// @notice Errors for messages that the router's configuration stops, in either direction.
/// @dev {IGmpRegistry} sets the remote routers, {IPauses} the pauses.
interface ILanePolicy {
    /// @notice The chain is the router's own chain.
    error SameChain(uint64 chain);

    /// @notice The router on that chain was never a peer, or was revoked.
    error UnknownPeer(uint64 chain, bytes32 router);

    /// @notice The lane is paused until `until`, Unix seconds.
    error LanePaused(uint64 chain, uint48 until);
    /// @notice The GMP is paused until `until`, Unix seconds.
    error GmpPaused(Gmp gmp, uint48 until);
}
