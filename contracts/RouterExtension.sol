// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {Gateway} from "./Gateway.sol";
import {GmpRegistry} from "./GmpRegistry.sol";
import {Pauses} from "./Pauses.sol";
import {RouterMessages} from "./RouterMessages.sol";
import {RouterViews} from "./RouterViews.sol";

/// @title RouterExtension
/// @notice The half of a router that is called seldom: configuration, questions, the ERC-7786 face, cancellations and reports.
/// @dev The router makes it, and delegates to it what it does not know itself. On its own it has no peers and carries nothing.
contract RouterExtension is GmpRegistry, Pauses, RouterViews, Gateway, RouterMessages {
    constructor() Ownable(msg.sender) {}
}
