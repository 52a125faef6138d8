// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {MessageReceiver} from "./MessageReceiver.sol";
import {MessageSender} from "./MessageSender.sol";
import {RouterExtension} from "./RouterExtension.sol";
import {IRouterViews} from "./interfaces/IRouterViews.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";

/// @title Router
/// @notice One per chain. Sends messages over several GMPs, retries them on request, and executes incoming messages once
///         enough GMPs agree. {IRouter} is the complete interface and documentation. Frequently called functions are in this
///         contract, the others in the extension, which works on this contract's storage. Neither can be replaced.
contract Router is MessageSender, MessageReceiver {
    address public immutable extension = address(new RouterExtension());

    constructor(address owner) Ownable(owner) {}

    /// @dev Ether without a message could only be a misdirected refund, which the router could not return.
    receive() external payable {
        revert IRouterViews.UnexpectedValue(msg.value);
    }

    fallback() external payable {
        BoundedCall.delegate(extension);
    }
}
