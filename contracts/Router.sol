// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {MessageSender} from "./MessageSender.sol";
import {RouterExtension} from "./RouterExtension.sol";
import {RouterMessageHandling} from "./RouterMessageHandling.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";

/// @title Router
/// @notice One per chain. Sends messages over several GMPs, sends them again when asked, and executes what arrives once
///         enough GMPs agree. {IRouter} is its whole interface and documentation: what is called often is here, what is
///         called seldom in the extension, which works on this contract's state. Neither can be exchanged.
contract Router is MessageSender, RouterMessageHandling {
    address public immutable extension = address(new RouterExtension());

    constructor(address owner) Ownable(owner) {}

    /// @dev Only refunds that went the wrong way could come here: it belongs to nobody.
    receive() external payable {
        revert ILedger.UnexpectedValue(msg.value);
    }

    fallback() external payable {
        BoundedCall.delegate(extension);
    }
}
