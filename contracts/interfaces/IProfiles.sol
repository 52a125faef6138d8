// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {DeliveryChoice, Profile} from "../types/Profile.sol";

/// @notice The attributes that Waybill supports in ERC-7786 messages: `abi.encodeCall` of one of these functions.
interface IAttributes {
    function gmps(uint16 set) external;
    function quorum(uint8 count) external;
    function gasLimit(uint64 gas) external;
    function ttl(uint32 duration) external;
    function kind(uint8 kind) external;
    function retriable(bool value) external;
    /// @notice ERC-7985's. True requests that the message can be cancelled, which is always possible; see {IRouterMessages-cancel}.
    function cancellable(bool value) external;
    /// @notice ERC-7985's. The recipient gets at least this gas: the profile's or {gasLimit}'s value, if that is larger.
    function minGasLimit(uint256 gas) external;
}

/// @notice Delivery options of ERC-7786 senders: the sender's profile for the chain, or else the chain's default. A message's
///         own attributes override both.
interface IProfiles {
    /// @notice `sender` is zero for the chain's default.
    event ProfileSet(address indexed sender, uint64 indexed chain, Profile profile);

    /// @notice `messageId` is zero for all messages of `sender`.
    event DeliveryChosen(address indexed sender, bytes32 indexed messageId, DeliveryChoice choice);

    /// @notice Only the owner may call this.
    error OnlyOwner(address caller);

    /// @notice The first delay is 0 or above the longest one; in milliseconds.
    error InvalidBackoff(uint32 base, uint32 most);

    /// @notice The quorum is 0 or above the number of GMPs.
    error InvalidProfile(Profile profile);

    /// @notice Neither the sender nor the chain has a profile.
    error NoProfile(address sender, uint64 chain);

    /// @notice The recipient is not the canonical ERC-7930 form of an address on an EVM chain.
    error InvalidRecipient(bytes recipient);

    /// @notice The attribute is not a selector followed by one word in range.
    error InvalidAttribute(bytes attribute);

    /// @notice Sets the caller's profile for messages to `chain`. An empty profile removes it.
    function setProfile(uint64 chain, Profile calldata profile) external;

    /// @notice Sets the profile of senders without one. Only for the router's owner.
    function setDefaultProfile(uint64 chain, Profile calldata profile) external;

    /// @notice The profile of messages from `sender` to `chain`; the zero sender returns the default.
    function profileOf(address sender, uint64 chain) external view returns (Profile memory);

    /// @notice Sets how relayers deliver a message of the caller, or all its messages if `messageId` is zero. It may be set in
    ///         the transaction that sends the message. A choice with `chosen` false removes it. Critical regulatory actions are
    ///         not affected.
    function chooseDelivery(bytes32 messageId, DeliveryChoice calldata choice) external;

    /// @notice The sender's choice for a message, or else for all its messages, or else one with `chosen` false.
    function deliveryOf(address sender, bytes32 messageId) external view returns (DeliveryChoice memory);

    /// @notice Whether a message may have the attribute, in which case Waybill honours every valid value. Any other attribute is
    ///         rejected with ERC-7786's UnsupportedAttribute, whatever its value.
    function supportsAttribute(bytes4 selector) external pure returns (bool);

    /// @notice The destination and options of a message.
    function resolve(address sender, bytes calldata recipient, bytes[] calldata attributes)
        external
        view
        returns (uint64 chain, address account, Profile memory profile);
}
