// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpSet} from "../types/Gmp.sol";

/// @notice The quorum that a recipient requires. The quorum in a message is only an honest sender's choice, because a faulty GMP
///         can forge the whole message. The larger of it and the value set here, on the destination, applies.
interface IRecipientPolicy {
    /// @notice Messages from `chain` to `recipient` need `quorum` receipts from `gmps`; with quorum 0, the lane's floor applies.
    event PolicySet(address indexed recipient, uint64 indexed chain, uint8 quorum, GmpSet gmps);

    /// @notice Messages from `chain` to recipients without a policy need `floor` receipts.
    event FloorSet(uint64 indexed chain, uint8 floor);

    /// @notice A policy requires more receipts than it allows GMPs, or names GMPs but requires no receipt.
    error InvalidPolicy(uint8 quorum, GmpSet gmps);

    /// @notice A floor must be between 1 and 16: 0 would require nothing, and more than 16 could never be reached.
    error InvalidFloor(uint8 floor);

    /// @notice Sets the caller's policy for messages from `chain`. It may be below the lane's floor, at the caller's own risk.
    ///         Quorum 0 without GMPs removes it.
    /// @dev Applies at once, also to messages in flight: the policy at the time of execution counts.
    function setPolicy(uint64 chain, uint8 quorum, GmpSet gmps) external;

    /// @notice Sets the minimum quorum for recipients without a policy, 1…16. The revoker may raise it; the owner may also lower
    ///         it.
    /// @dev With a floor of 1, a single faulty GMP can call any recipient without a policy, as any sender.
    function setFloor(uint64 chain, uint8 floor) external;

    /// @notice Quorum 0 means that the recipient has no policy.
    function policyOf(address recipient, uint64 chain) external view returns (uint8 quorum, GmpSet gmps);

    /// @notice The lane's floor; 0 if no peer was ever set, so that no message arrives.
    function floorOf(uint64 chain) external view returns (uint8);
}
