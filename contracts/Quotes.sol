// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {SenderBase} from "./SenderBase.sol";
import {IAdapter} from "./interfaces/IAdapter.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {IQuotes} from "./interfaces/IQuotes.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";
import {Gmp} from "./types/Gmp.sol";
import {DispatchFailure, GmpFee, Message, MessageEncoding, Route} from "./types/Message.sol";
import {LaneWord} from "./types/MessageRecords.sol";

/// @dev What sending costs; {IQuotes} says what it promises.
abstract contract Quotes is IQuotes, SenderBase {
    /// @dev In wei, for one message over one GMP. A GMP that asks for more counts as one that gives no quote.
    uint256 private constant MAX_FEE = uint256(type(uint40).max) * 1 gwei;

    /// @inheritdoc IQuotes
    function quoteRoute(Route calldata request) external view returns (uint256 total, GmpFee[] memory fees) {
        fees = request.gmps;
        Message memory message = MessageEncoding.allocate()[0];
        LaneWord lane = _compose(message, request, _gmps);
        message.nonce = lane.sent().nextNonce();
        total = _quote(fees, message, request.minDispatched == 0 ? fees.length : request.minDispatched, MAX_FEE);
    }

    /// @inheritdoc IQuotes
    function quoteRetry(Message calldata message, GmpFee[] calldata gmps)
        external
        view
        returns (uint256 total, GmpFee[] memory fees)
    {
        fees = gmps;
        total = _quote(fees, MessageEncoding.load(message), 1, MAX_FEE);
    }

    /// @dev Writes each GMP's fee next to it, and 0 for a GMP that gives no quote or one above `most`; at least `minimum` must give
    ///      one. No quote, however absurd, stops the others.
    function _quote(GmpFee[] memory gmps, Message memory message, uint256 minimum, uint256 most)
        internal
        view
        returns (uint256 total)
    {
        if (gmps.length == 0) revert IMessageSender.NoGmps();
        bytes memory data = abi.encodeCall(
            IAdapter.quote,
            (message.destinationChain, message.destinationRouter, message.encode(message.id()), message.gasLimit)
        );
        DispatchFailure[] memory failures;
        for (uint256 index; index < gmps.length; ++index) {
            Gmp gmp = gmps[index].gmp;
            // Refuses what is no GMP's number.
            gmp.toSet();
            (bool told, uint256 fee, bytes memory reason) = _quoteOne(gmp, data);
            if (told && fee > most) {
                reason = abi.encodeWithSelector(IMessageSender.FeeAboveCap.selector, gmp, fee, most);
                (told, fee) = (false, 0);
            }
            if (!told) failures = _withFailure(failures, gmp, reason);
            gmps[index].fee = fee;
            total += fee;
        }
        _requireEnough(gmps.length - failures.length, minimum, failures);
    }

    /// @dev Asks with as much gas as an adapter gets to send: who calls can't choose which of them answer.
    function _quoteOne(Gmp gmp, bytes memory data) private view returns (bool told, uint256 fee, bytes memory answer) {
        address adapter = _activeAdapter(_quickTable(_gmps), gmp);
        if (adapter == address(0)) return (false, 0, _inactiveReason(gmp));
        uint256 gas = _requireAdapterGas(gmp, data.length);
        told = BoundedCall.tryView(adapter, gas, data);
        answer = BoundedCall.answer(MAX_REASON);
        told = told && answer.length == 32;
        if (told) fee = uint256(bytes32(answer));
    }
}
