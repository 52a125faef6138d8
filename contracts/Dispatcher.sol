// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Rules} from "./Rules.sol";
import {IAdapter} from "./interfaces/IAdapter.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {IPauses} from "./interfaces/IPauses.sol";
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
        uint256 required;
        address refundTo;
        DispatchFailure[] failures;
    }

    /// @dev More of an adapter's revert reason is not worth its gas in an event or error.
    uint256 internal constant MAX_REASON = 256;

    /// @dev What every adapter is given, in gas: more than any of the five GMPs needs. The same for all, so that a caller
    ///      who is mean with gas can't choose which of them fail.
    uint256 private constant ADAPTER_GAS = 700_000;

    /// @dev The same for each byte of the envelope: copies, hashes and the GMP's own event.
    uint256 private constant ADAPTER_GAS_PER_BYTE = 64;

    /// @dev What calling an adapter itself costs at most, in gas: a cold account, a value, and what leads up to it.
    uint256 private constant CALL_GAS = 15_000;

    /// @dev Adapters and refundees are called with the guard up. A recipient that routes while it receives is not caught by
    ///      it: sending and receiving are guarded apart.
    modifier sendingOnce() {
        if (_sending != 0) revert IMessageSender.SendingReentered();
        _sending = 1;
        _;
        _sending = 0;
    }

    /// @dev Attempt 0, of a message that has no id yet. Refuses a way of sending that makes no sense, as far as that shows
    ///      before the GMPs are looked at.
    /// @param minDispatched 0 stands for all of the GMPs.
    function _newAttempt(uint8 minDispatched, address refundTo, GmpFee[] calldata gmps)
        internal
        pure
        returns (Attempt memory attempt)
    {
        if (gmps.length == 0) revert IMessageSender.NoGmps();
        if (refundTo == address(0)) revert IMessageSender.ZeroRefundAddress();
        if (minDispatched > gmps.length) revert IMessageSender.InvalidMinDispatched(minDispatched, 1, gmps.length);
        attempt.required = minDispatched == 0 ? gmps.length : minDispatched;
        attempt.refundTo = refundTo;
    }

    /// @dev Each GMP is called on its own: one that fails gives its fee back and hinders nobody.
    /// @return took The GMPs that have the message now.
    /// @return envelope What they have.
    function _dispatch(Attempt memory attempt, GmpFee[] calldata gmps, Message memory message)
        internal
        returns (GmpSet took, bytes memory envelope)
    {
        bytes memory data;
        (data, envelope) = _dispatchCall(attempt, message);
        took = _handToEach(attempt, gmps, data);
    }

    /// @dev What every adapter is called with, and the envelope that lies in it.
    function _dispatchCall(Attempt memory attempt, Message memory message)
        internal
        pure
        returns (bytes memory data, bytes memory envelope)
    {
        return Words.packCall(
            IAdapter.dispatch.selector, MessageLibrary.VERSION, attempt.messageId, message, attempt.refundTo
        );
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
        _requireEnough(took.count(), attempt.required, attempt.failures);
        if (refund != 0) _refund(attempt.refundTo, refund);
    }

    function _requireEnough(uint256 count, uint256 minimum, DispatchFailure[] memory failures) internal pure {
        if (count < minimum) revert IMessageSender.TooFewDispatched(count, minimum, failures);
    }

    /// @return took Whether the GMP has the message now. It gets a fixed amount of gas, or the whole call fails.
    function _handOver(Attempt memory attempt, Gmp gmp, uint256 fee, bytes memory data) internal returns (bool took) {
        Speaker storage speaker = _speakers[gmp];
        (address adapter, uint48 pausedUntil) = (speaker.adapter, speaker.pausedUntil);
        bytes memory reason;
        if (_isOpen(adapter, pausedUntil)) {
            (took, reason) = BoundedCall.tryCall(adapter, fee, _requireAdapterGas(gmp, data.length), data, MAX_REASON);
            if (took) return true;
        } else {
            reason = _whyClosed(gmp, adapter, pausedUntil);
        }
        attempt.failures = _withFailure(attempt.failures, gmp, reason);
        emit IMessageSender.DispatchFailed(attempt.messageId, gmp, attempt.number, reason);
    }

    /// @dev Whether a GMP with that adapter and pause is sent over now.
    function _isOpen(address adapter, uint48 pausedUntil) internal view returns (bool) {
        return adapter != address(0) && block.timestamp >= pausedUntil;
    }

    function _whyClosed(Gmp gmp, address adapter, uint48 pausedUntil) internal pure returns (bytes memory) {
        if (adapter == address(0)) return abi.encodeWithSelector(IMessageSender.GmpNotEnabled.selector, gmp);
        return abi.encodeWithSelector(IPauses.GmpPaused.selector, gmp, pausedUntil);
    }

    /// @return needed The gas that an adapter is given with a call of that length; there is so much, whatever the EVM keeps back.
    function _requireAdapterGas(Gmp gmp, uint256 length) internal view returns (uint256 needed) {
        uint256 available = gasleft();
        // No length and no gas comes near what would overflow.
        unchecked {
            needed = ADAPTER_GAS + ADAPTER_GAS_PER_BYTE * length;
            // The EVM takes what the call itself costs, and hands on at most 63/64 of the rest.
            if (available * 63 < needed * 64 + CALL_GAS * 63) {
                revert IMessageSender.InsufficientDispatchGas(gmp, available, needed);
            }
        }
    }

    function _withFailure(DispatchFailure[] memory known, Gmp gmp, bytes memory reason)
        internal
        pure
        returns (DispatchFailure[] memory failures)
    {
        failures = new DispatchFailure[](known.length + 1);
        for (uint256 index; index < known.length; ++index) {
            failures[index] = known[index];
        }
        failures[known.length] = DispatchFailure(gmp, reason);
    }

    /// @dev A refundee that can't be paid must not be able to stop the message: its money waits for {withdraw}.
    function _refund(address account, uint256 amount) internal {
        (bool success,) = BoundedCall.tryCall(account, amount, gasleft(), "", 0);
        if (success) return;
        _credits[account] += amount;
        emit IMessageSender.Credited(account, amount);
    }
}
