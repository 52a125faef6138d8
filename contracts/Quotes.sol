// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Sending} from "./Sending.sol";
import {IAdapter} from "./interfaces/IAdapter.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {IQuotes} from "./interfaces/IQuotes.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";
import {Gmp} from "./types/Gmp.sol";
import {Message, MessageLibrary} from "./types/Message.sol";
import {DispatchFailure, GmpFee, Route} from "./types/Route.sol";

/// @dev What sending costs; {IQuotes} says what it promises.
abstract contract Quotes is IQuotes, Sending {
    /// @inheritdoc IQuotes
    function quoteRoute(Route calldata request) external view returns (uint256 total, GmpFee[] memory fees) {
        fees = request.gmps;
        Message memory message = _compose(request);
        message.nonce = _lanes[message.destinationChain].sent.nextNonce();
        total = _quote(fees, message, request.minDispatched == 0 ? fees.length : request.minDispatched);
    }

    /// @inheritdoc IQuotes
    function quoteRetry(Message calldata message, GmpFee[] calldata gmps)
        external
        view
        returns (uint256 total, GmpFee[] memory fees)
    {
        fees = gmps;
        total = _quote(fees, MessageLibrary.load(message), 1);
    }

    /// @dev Writes each GMP's fee beside it, and 0 beside those that can't tell; at least `minimum` must.
    function _quote(GmpFee[] memory gmps, Message memory message, uint256 minimum)
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
            gmp.alone();
            (bool told, uint256 fee, bytes memory reason) = _ask(gmp, data);
            if (!told) failures = _withFailure(failures, gmp, reason);
            gmps[index].fee = fee;
            total += fee;
        }
        _requireEnough(gmps.length - failures.length, minimum, failures);
    }

    /// @dev Asks with as much gas as an adapter gets to send: who calls can't choose which of them answer.
    function _ask(Gmp gmp, bytes memory data) private view returns (bool told, uint256 fee, bytes memory answer) {
        (address adapter, uint48 pausedUntil) = (_speakers[gmp].adapter, _speakers[gmp].pausedUntil);
        if (!_isOpen(adapter, pausedUntil)) return (false, 0, _whyClosed(gmp, adapter, pausedUntil));
        uint256 gas = _requireAdapterGas(gmp, data.length);
        (told, answer) = BoundedCall.tryView(adapter, gas, data, MAX_REASON);
        told = told && answer.length == 32;
        if (told) fee = uint256(bytes32(answer));
    }
}
