// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Sending} from "./Sending.sol";
import {IAdapter} from "./interfaces/IAdapter.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {IQuotes} from "./interfaces/IQuotes.sol";
import {Message, MessageLibrary} from "./types/Message.sol";
import {GmpFee, Route} from "./types/Route.sol";

/// @dev What sending costs; {IQuotes} says what it promises.
abstract contract Quotes is IQuotes, Sending {
    /// @inheritdoc IQuotes
    function quoteRoute(Route calldata request) external view returns (uint256 total, GmpFee[] memory fees) {
        fees = request.gmps;
        Message memory message = _compose(request);
        message.nonce = _lanes[message.destinationChain].sent.nextNonce();
        total = _quote(fees, message);
    }

    /// @inheritdoc IQuotes
    function quoteRetry(Message calldata message, GmpFee[] calldata gmps)
        external
        view
        returns (uint256 total, GmpFee[] memory fees)
    {
        fees = gmps;
        total = _quote(fees, MessageLibrary.load(message));
    }

    /// @dev Writes each GMP's fee beside it.
    function _quote(GmpFee[] memory gmps, Message memory message) internal view returns (uint256 total) {
        bytes memory envelope = message.encode(message.id());
        for (uint256 index; index < gmps.length; ++index) {
            address adapter = _speakers[gmps[index].gmp].adapter;
            if (adapter == address(0)) revert IMessageSender.GmpNotEnabled(gmps[index].gmp);
            gmps[index].fee = IAdapter(adapter)
                .quote(message.destinationChain, message.destinationRouter, envelope, message.gasLimit);
            total += gmps[index].fee;
        }
    }
}
