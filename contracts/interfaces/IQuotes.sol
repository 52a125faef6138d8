// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpFee, Message, Route} from "../types/Message.sol";

/// @notice The current costs of sending, in wei. A quote is valid for one message until a GMP changes its fee.
/// @dev A GMP that is paused, removed or unable to quote is quoted 0 and does not count, because it would not accept the message. The
///      same applies to one that charges more than 2^40 - 1 gwei (about 1,099 ether), so that one GMP's fee cannot stop the
///      others. If too few are left, it reverts as sending would, with {IMessageSender-TooFewDispatched}.
///      Most GMPs charge by the payload's length and the gas limit: a quote for 5 bytes does not cover 7. Quote exactly the message
///      that is sent. With too low a fee, that GMP rejects the message ({IMessageSender-TooFewDispatched} has the reason).
interface IQuotes {
    /// @notice The cost of {IMessageSender-route} for the caller. At least its `minDispatched` GMPs must have a quote.
    /// @return total The value to send with the call.
    /// @return fees The GMPs in the given order with their fees, ready to be sent.
    function quoteRoute(Route calldata request) external view returns (uint256 total, GmpFee[] memory fees);

    /// @notice The cost of retrying a message over those GMPs, or of sending an unfunded one. At least one of them must have a
    ///         quote.
    function quoteRetry(Message calldata message, GmpFee[] calldata gmps)
        external
        view
        returns (uint256 total, GmpFee[] memory fees);
}
