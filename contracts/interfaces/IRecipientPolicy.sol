// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpSet} from "../types/Gmp.sol";

/// @notice What a recipient demands before it is called. The quorum in a message is an honest sender's wish: a GMP that lies
///         forges the whole message. What counts is the larger of it and what is set here, on the destination.
interface IRecipientPolicy {
    /// @notice Messages from `chain` to `recipient` need `quorum` receipts of `gmps`; quorum 0: the lane's floor applies.
    event PolicySet(address indexed recipient, uint64 indexed chain, uint8 quorum, GmpSet gmps);

    /// @notice Messages from `chain` to recipients without a policy need `floor` receipts.
    event FloorSet(uint64 indexed chain, uint8 floor);

    /// @notice A policy asks for more receipts than it allows GMPs, or for none of some.
    error InvalidPolicy(uint8 quorum, GmpSet gmps);

    /// @notice A floor of 0 would demand nothing, and one above 16 could never be reached.
    error InvalidFloor(uint8 floor);

    /// @notice The caller's policy for messages from `chain`. It may ask for less than the lane's floor: that is the caller's
    ///         own risk. Quorum 0 and no GMPs take it back.
    /// @dev Applies at once, also to messages on their way: what counts is what is demanded when a message would be executed.
    function setPolicy(uint64 chain, uint8 quorum, GmpSet gmps) external;

    /// @notice The least quorum for recipients without a policy, 1…16. The revoker may raise it, the owner may also lower it.
    /// @dev With a floor of 1, one GMP that lies can call any recipient that has no policy, as any sender.
    function setFloor(uint64 chain, uint8 floor) external;

    /// @notice Quorum 0 means that the recipient has no policy.
    function policyOf(address recipient, uint64 chain) external view returns (uint8 quorum, GmpSet gmps);

    /// @notice The lane's floor; 0 where no peer was ever set, so that nothing arrives.
    function floorOf(uint64 chain) external view returns (uint8);
}
