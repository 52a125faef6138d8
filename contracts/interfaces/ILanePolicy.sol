// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../types/Gmp.sol";

/// @notice The reasons for which a router's configuration stops a message, in either direction.
/// @dev {IGmpRegistry} sets the remote routers, {IPauses} the pauses.
interface ILanePolicy {
    /// @notice The chain is this one.
    error SameChain(uint64 chain);

    /// @notice That router of the chain was never a peer, or was revoked.
    error UnknownPeer(uint64 chain, bytes32 router);

    error LanePaused(uint64 chain, uint48 until);
    error GmpPaused(Gmp gmp, uint48 until);
}
