// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

import {Message} from "../types/Message.sol";
import {IProfiles} from "./IProfiles.sol";

/// @notice The router as an ERC-7786 gateway. Recipients are ERC-7930 addresses of EVM chains in canonical form.
/// @dev A call with value dispatches the message at once, at the current fees, and refunds the rest to the sender. A call without
///      value leaves the message unfunded: `sendId` is its id, and anyone may {fund} it.
interface IGateway is IERC7786GatewaySource {
    /// @notice The value is neither zero nor enough for the GMPs' fees, in wei.
    error InsufficientValue(uint256 value, uint256 fees);

    /// @notice The default profiles of senders without a profile.
    function profiles() external view returns (IProfiles);

    /// @notice Sends an unfunded message over the GMPs of its sender's profile, each at its current fee. Anyone may pay; the
    ///         payer chooses the time and nothing else.
    /// @dev GMPs that are paused, removed, failing or above the sender's cap are left out ({IMessageSender-DispatchFailed}); at least
    ///      the quorum must accept the message. Anyone may fund the missing GMPs later; each further call is an attempt like a
    ///      retry, and one GMP must accept it.
    /// @param message The unchanged message; {IQuotes-quoteRetry} over its sender's GMPs returns the cost.
    /// @param refundTo The account that gets the unused value.
    function fund(Message calldata message, address refundTo) external payable;
}
