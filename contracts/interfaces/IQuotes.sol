// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {GmpFee, Message, Route} from "../types/Message.sol";

/// @notice What sending costs now, in wei. A quote holds for one message for as long as the GMPs do not change their fees.
/// @dev A GMP that is paused, gone or unable to quote is quoted 0 and does not count: it would not take the message either. So is one
///      that asks for more than 2^40 - 1 gwei (about 1,099 ether): what one GMP asks for must not stop the others. If too
///      few are left, it reverts as sending would, {IMessageSender-TooFewDispatched}.
///      Most GMPs charge by the length of the payload and by the gas limit: a quote for 5 bytes does not pay for 7. Quote exactly
///      what is sent. A fee that is too low makes that GMP refuse the message ({IMessageSender-TooFewDispatched} says why).
interface IQuotes {
    /// @notice What {IMessageSender-route} would cost the caller. As many GMPs as its `minDispatched` must give a quote.
    /// @return total The value to send with the call.
    /// @return fees The GMPs in the order named, with what each asks for: ready to be sent.
    function quoteRoute(Route calldata request) external view returns (uint256 total, GmpFee[] memory fees);

    /// @notice What it would cost to send a message over those GMPs again, or for the first time if it is unfunded. One of them
    ///         must give a quote.
    function quoteRetry(Message calldata message, GmpFee[] calldata gmps)
        external
        view
        returns (uint256 total, GmpFee[] memory fees);
}
