// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ERC7786Recipient} from "@openzeppelin/contracts/crosschain/ERC7786Recipient.sol";
import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

/// @title Inbox
/// @notice The smallest useful recipient: it stores the messages that the router brings. It can be closed, to show what happens
///         to a message that its recipient rejects.
contract Inbox is ERC7786Recipient, Ownable {
    address public immutable router;

    /// @notice While the inbox is closed, every message is rejected.
    bool public closed;

    /// @notice How many messages arrived.
    uint256 public received;

    /// @notice How often a message arrived; never more than once.
    mapping(bytes32 messageId => uint256 times) public timesReceived;

    /// @notice The newest message's payload.
    bytes public lastPayload;

    event Received(bytes32 indexed messageId, bytes sender, bytes payload);
    event ClosedSet(bool closed);

    /// @notice The inbox is closed.
    error Closed();

    constructor(address router_, address owner) Ownable(owner) {
        router = router_;
    }

    /// @notice Opens or closes the inbox.
    function setClosed(bool closed_) external onlyOwner {
        closed = closed_;
        emit ClosedSet(closed_);
    }

    /// @dev The router is the gateway for senders on every chain; who sent a message does not matter to this example.
    function _isAuthorizedGateway(address gateway, bytes calldata) internal view override returns (bool) {
        return gateway == router;
    }

    function _processMessage(address, bytes32 messageId, bytes calldata sender, bytes calldata payload)
        internal
        override
    {
        if (closed) revert Closed();
        ++received;
        ++timesReceived[messageId];
        lastPayload = payload;
        emit Received(messageId, sender, payload);
    }
}
