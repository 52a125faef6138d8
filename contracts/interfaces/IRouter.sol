// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IGateway} from "./IGateway.sol";
import {IGmpRegistry} from "./IGmpRegistry.sol";
import {ILanePolicy} from "./ILanePolicy.sol";
import {IMessageReceiver} from "./IMessageReceiver.sol";
import {IMessageSender} from "./IMessageSender.sol";
import {IOwnable} from "./IOwnable.sol";
import {IPauses} from "./IPauses.sol";
import {IQuotes} from "./IQuotes.sol";
import {IRecipientPolicy} from "./IRecipientPolicy.sol";
import {IRoles} from "./IRoles.sol";
import {IRouterMessages} from "./IRouterMessages.sol";
import {IRouterViews} from "./IRouterViews.sol";

/// @notice Carries messages between chains over several GMPs at once. The complete interface of {Router}.
interface IRouter is
    IMessageSender,
    IMessageReceiver,
    IGateway,
    IQuotes,
    IRouterMessages,
    IRouterViews,
    ILanePolicy,
    IGmpRegistry,
    IPauses,
    IRecipientPolicy,
    IRoles,
    IOwnable
{}
