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

/// @dev Fee quotes, as {IQuotes} specifies them.
abstract contract Quotes is IQuotes, SenderBase {
    /// @dev Wei, per message and GMP. A GMP with a higher fee counts as one without a quote.
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

    /// @dev Fills in each GMP's fee, and 0 for a GMP without a quote or with one above `most`; at least `minimum` GMPs must have a
    ///      quote. A failing or excessive quote does not affect the others.
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
            // Reverts on an invalid GMP number.
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

    /// @dev Calls the adapter with the same gas as for sending, so that the caller cannot choose which adapters answer.
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
