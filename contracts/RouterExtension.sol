// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {Gateway} from "./Gateway.sol";
import {GmpRegistry} from "./GmpRegistry.sol";
import {Pauses} from "./Pauses.sol";
import {RouterMessages} from "./RouterMessages.sol";
import {RouterViews} from "./RouterViews.sol";

/// @title RouterExtension
/// @notice The rarely called half of a router: configuration, views, the ERC-7786 interface, cancellations and reports.
/// @dev The router creates it and delegates unknown calls to it. On its own it has no peers and carries no messages.
contract RouterExtension is GmpRegistry, Pauses, RouterViews, Gateway, RouterMessages {
    constructor() Ownable(msg.sender) {}
}
