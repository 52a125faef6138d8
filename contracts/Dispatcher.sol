// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Rules} from "./Rules.sol";
import {IAdapter} from "./interfaces/IAdapter.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";
import {Words} from "./libraries/Words.sol";
import {Gmp, GmpSet, NO_GMPS} from "./types/Gmp.sol";
import {Message, MessageLibrary} from "./types/Message.sol";
import {DispatchFailure, GmpFee} from "./types/Route.sol";

/// @dev Hands envelopes to GMPs and gives back what was not needed. Which message, and whether it may be sent, is decided by
///      the contracts above.
abstract contract Dispatcher is Rules {
    /// @dev One way of a message over a set of GMPs, and which of them refused it.
    struct Attempt {
        bytes32 messageId;
        uint32 number;
        uint8 required;
        address refundTo;
        DispatchFailure[] failures;
    }

    /// @dev More of an adapter's revert reason is not worth its gas in an event or error.
    uint256 private constant MAX_REASON = 256;

    /// @dev What every adapter is given, in gas: more than any of the five GMPs needs. The same for all, so that a caller
    ///      who is mean with gas can't choose which of them fail.
    uint256 private constant ADAPTER_GAS = 700_000;

    /// @dev The same for each byte of the envelope: copies, hashes and the GMP's own event.
    uint256 private constant ADAPTER_GAS_PER_BYTE = 64;

    /// @dev Adapters and refundees are called with the guard up. A recipient that routes while it receives is not caught by
    ///      it: sending and receiving are guarded apart.
    modifier sendingOnce() {
        if (_sending != 0) revert IMessageSender.SendingReentered();
        _sending = 1;
        _;
        _sending = 0;
    }

    /// @dev Refuses a way of sending that makes no sense, as far as that shows before the GMPs are looked at.
    function _requireWay(Attempt memory attempt, GmpFee[] calldata gmps, uint8 least) internal pure {
        if (gmps.length == 0) revert IMessageSender.NoGmps();
        if (attempt.refundTo == address(0)) revert IMessageSender.ZeroRefundAddress();
        uint8 required = attempt.required;
        if (required < least || required > gmps.length) {
            revert IMessageSender.InvalidMinDispatched(required, least, gmps.length);
        }
    }

    /// @dev Each GMP is called on its own: one that fails gives its fee back and hinders nobody.
    /// @return took The GMPs that have the message now.
    /// @return envelope What they have.
    function _dispatch(Attempt memory attempt, GmpFee[] calldata gmps, Message memory message)
        internal
        returns (GmpSet took, bytes memory envelope)
    {
        bytes memory data;
        (data, envelope) = Words.packCall(
            IAdapter.dispatch.selector, MessageLibrary.VERSION, attempt.messageId, message, attempt.refundTo
        );
        took = _handToEach(attempt, gmps, data);
    }

    function _handToEach(Attempt memory attempt, GmpFee[] calldata gmps, bytes memory data)
        private
        returns (GmpSet took)
    {
        GmpSet named;
        uint256 fees;
        uint256 refund;
        for (uint256 index; index < gmps.length; ++index) {
            GmpFee calldata part = gmps[index];
            Gmp gmp = part.gmp;
            uint256 fee = part.fee;
            GmpSet one = gmp.alone();
            if (named.intersect(one) != NO_GMPS) revert IMessageSender.DuplicateGmp(gmp);
            named = named.unite(one);
            fees += fee;
            if (_handOver(attempt, gmp, fee, data)) took = took.unite(one);
            else refund += fee;
        }
        // Looked at last, since a wrong sum undoes all of the above.
        if (fees != msg.value) revert IMessageSender.FeesDifferFromValue(fees, msg.value);
        if (took == named) return took;
        if (took.count() < attempt.required) {
            revert IMessageSender.TooFewDispatched(took.count(), attempt.required, attempt.failures);
        }
        if (refund != 0) _refund(attempt.refundTo, refund);
    }

    /// @return took Whether the GMP has the message now. It gets a fixed amount of gas, or the whole call fails.
    function _handOver(Attempt memory attempt, Gmp gmp, uint256 fee, bytes memory data) private returns (bool took) {
        Speaker storage speaker = _speakers[gmp];
        (address adapter, uint48 pausedUntil) = (speaker.adapter, speaker.pausedUntil);
        if (adapter == address(0)) revert IMessageSender.GmpNotEnabled(gmp);
        _requireOpen(gmp, pausedUntil);
        uint256 needed;
        // No length and no gas comes near what would overflow.
        unchecked {
            needed = ADAPTER_GAS + ADAPTER_GAS_PER_BYTE * data.length;
            // The EVM hands on at most 63/64 of what is left.
            if (gasleft() * 63 / 64 < needed) revert IMessageSender.InsufficientDispatchGas(gmp, gasleft(), needed);
        }
        bytes memory reason;
        (took, reason) = BoundedCall.tryCall(adapter, fee, needed, data, MAX_REASON);
        if (!took) _noteFailure(attempt, gmp, reason);
    }

    function _noteFailure(Attempt memory attempt, Gmp gmp, bytes memory reason) private {
        DispatchFailure[] memory known = attempt.failures;
        DispatchFailure[] memory failures = new DispatchFailure[](known.length + 1);
        for (uint256 index; index < known.length; ++index) {
            failures[index] = known[index];
        }
        failures[known.length] = DispatchFailure(gmp, reason);
        attempt.failures = failures;
        emit IMessageSender.DispatchFailed(attempt.messageId, gmp, attempt.number, reason);
    }

    /// @dev Attempt 0, of a message that has no id yet.
    function _newAttempt(uint8 minDispatched, address refundTo) internal pure returns (Attempt memory attempt) {
        (attempt.required, attempt.refundTo) = (minDispatched, refundTo);
    }

    /// @dev A refundee that can't be paid must not be able to stop the message: its money waits for {withdraw}.
    function _refund(address account, uint256 amount) internal {
        (bool success,) = BoundedCall.tryCall(account, amount, gasleft(), "", 0);
        if (success) return;
        _credits[account] += amount;
        emit IMessageSender.Credited(account, amount);
    }
}
