// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {MessageReceiver} from "./MessageReceiver.sol";
import {MessageSender} from "./MessageSender.sol";
import {RouterExtension} from "./RouterExtension.sol";
import {IRouterViews} from "./interfaces/IRouterViews.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";

/// @title Router
/// @notice One per chain. Sends messages over several GMPs, sends them again when asked, and executes what arrives once
///         enough GMPs agree. {IRouter} is its whole interface and documentation. What is called often is here. What is
///         called seldom is in the extension, which works on this contract's state. Neither can be exchanged.
contract Router is MessageSender, MessageReceiver {
    address public immutable extension = address(new RouterExtension());

    constructor(address owner) Ownable(owner) {}

    /// @dev Money without a message could only be a refund that went the wrong way. The router could not give it back.
    receive() external payable {
        revert IRouterViews.UnexpectedValue(msg.value);
    }

    fallback() external payable {
        BoundedCall.delegate(extension);
    }
}
