// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {DeliveryChoice, Profile} from "../types/Profile.sol";

/// @notice The attributes that Waybill understands in ERC-7786 messages: `abi.encodeCall` of one of these.
interface IAttributes {
    function gmps(uint16 set) external;
    function quorum(uint8 count) external;
    function gasLimit(uint64 gas) external;
    function ttl(uint32 duration) external;
    function kind(uint8 kind) external;
    function retriable(bool value) external;
    /// @notice ERC-7985's. True asks that the message can be cancelled, which every message can; see {IRouterMessages-cancel}.
    function cancellable(bool value) external;
    /// @notice ERC-7985's. The recipient gets this gas or more: what the profile or {gasLimit} says, unless that is less.
    function minGasLimit(uint256 gas) external;
}

/// @notice How the messages of ERC-7786 senders travel: by the sender's profile for the chain, or else by the chain's default.
///         A message's own attributes override both.
interface IProfiles {
    /// @notice `sender` is zero for the chain's default.
    event ProfileSet(address indexed sender, uint64 indexed chain, Profile profile);

    /// @notice `messageId` is zero for all messages of `sender`.
    event DeliveryChosen(address indexed sender, bytes32 indexed messageId, DeliveryChoice choice);

    error OnlyOwner(address caller);

    /// @notice Its waits begin at 0, or above the longest one; in milliseconds.
    error InvalidBackoff(uint32 base, uint32 most);

    /// @notice Quorum 0 or above the GMPs named.
    error InvalidProfile(Profile profile);

    /// @notice Neither the sender nor the chain has a profile.
    error NoProfile(address sender, uint64 chain);

    /// @notice Not the canonical ERC-7930 form of an address on an EVM chain.
    error InvalidRecipient(bytes recipient);

    /// @notice The attribute is not a selector and one word in range.
    error InvalidAttribute(bytes attribute);

    /// @notice The caller's profile for messages to `chain`. An empty one takes it back.
    function setProfile(uint64 chain, Profile calldata profile) external;

    /// @notice The profile of senders that have none. Only the router's owner may set it.
    function setDefaultProfile(uint64 chain, Profile calldata profile) external;

    /// @notice The profile that messages of `sender` to `chain` travel by; zero: the default alone.
    function profileOf(address sender, uint64 chain) external view returns (Profile memory);

    /// @notice What relayers are to do for a message of the caller, or for all its messages if `messageId` is zero. It may be chosen
    ///         in the transaction that sends the message. One that is not `chosen` takes it back. Critical regulatory actions are
    ///         delivered as ever.
    function chooseDelivery(bytes32 messageId, DeliveryChoice calldata choice) external;

    /// @notice What `sender` chose for a message, else for all its messages; else it is not `chosen`.
    function deliveryOf(address sender, bytes32 messageId) external view returns (DeliveryChoice memory);

    /// @notice Whether a message may name the attribute. Waybill then honours every valid value of it. Any other is refused with
    ///         ERC-7786's UnsupportedAttribute, whatever its value.
    function supportsAttribute(bytes4 selector) external pure returns (bool);

    /// @notice Where a message goes, and how.
    function resolve(address sender, bytes calldata recipient, bytes[] calldata attributes)
        external
        view
        returns (uint64 chain, address account, Profile memory profile);
}
