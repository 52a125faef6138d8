// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

import {Message} from "../types/Message.sol";
import {IProfiles} from "./IProfiles.sol";

/// @notice The router as an ERC-7786 gateway. Recipients are ERC-7930 addresses of EVM chains in their canonical form.
/// @dev A call with value is dispatched at once, at today's fees; what is left over goes back to the sender. A call without
///      value leaves the message unfunded: `sendId` is its id, and anyone may {fund} it.
interface IGateway is IERC7786GatewaySource {
    /// @notice The value is not zero but less than the fees of the GMPs, in wei.
    error InsufficientValue(uint256 value, uint256 fees);

    /// @notice How messages travel whose senders do not say.
    function profiles() external view returns (IProfiles);

    /// @notice Sends an unfunded message over the GMPs that its sender's profile named, each at the fee that it asks for now. Open
    ///         to anyone who pays: who does chooses the moment, and nothing else.
    /// @dev GMPs that are paused, gone, fail or ask for more than the sender's cap are left out ({IMessageSender-DispatchFailed}); as
    ///      many as the quorum must take it. For those that were left out anyone may fund it again; each further time is an
    ///      attempt like a retry, and one GMP must take it.
    /// @param message Unchanged; {IQuotes-quoteRetry} over its sender's GMPs says what it costs.
    /// @param refundTo Who gets what of the value is not needed.
    function fund(Message calldata message, address refundTo) external payable;
}
