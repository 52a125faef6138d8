// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {LanePolicy} from "./LanePolicy.sol";
import {IAdapter} from "./interfaces/IAdapter.sol";
import {ILanePolicy} from "./interfaces/ILanePolicy.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";
import {Gmp, GmpSet, GmpTable, NO_GMPS} from "./types/Gmp.sol";
import {
    DispatchFailure,
    GmpFee,
    Kind,
    MAX_GAS_LIMIT,
    MIN_TTL,
    Message,
    MessageEncoding,
    Route
} from "./types/Message.sol";
import {LaneWord, SentMessage, SentMessageLibrary, SentTotal} from "./types/MessageRecords.sol";

/// @dev How a router creates messages, hands them to GMPs and gives back what was not needed. The contracts that inherit it
///      decide who may ask for that: {MessageSender} in the router, {Gateway} and {RouterMessages} in its extension.
abstract contract SenderBase is LanePolicy {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev One dispatch of a message over a set of GMPs, and which of them refused it.
    struct Attempt {
        bytes32 messageId;
        uint32 number;
        uint256 required;
        address refundTo;
        DispatchFailure[] failures;
        GmpTable table;
    }

    /// @dev In bytes. So much over sixteen GMPs stays below a quarter of a block of 30 million gas (bench/).
    uint256 internal constant MAX_PAYLOAD = 32_768;

    /// @dev More of an adapter's revert reason is not worth its gas in an event or error.
    uint256 internal constant MAX_REASON = 256;

    /// @dev What every adapter is given, in gas: more than any of the five GMPs needs. The same for all, so that a caller
    ///      who gives little gas can't choose which of them fail.
    uint256 private constant ADAPTER_GAS = 700_000;

    /// @dev The same for each byte of the envelope: copies, hashes and the GMP's own event.
    uint256 private constant ADAPTER_GAS_PER_BYTE = 64;

    /// @dev What calling an adapter itself costs at most, in gas: a cold account, a value, and what leads up to it.
    uint256 private constant CALL_GAS = 15_000;

    /// @dev Adapters and refundees are called with the guard up. A recipient that routes while it receives is not caught by
    ///      it: sending and receiving are guarded apart.
    modifier nonReentrantSend() {
        if (_sending != 0) revert IMessageSender.SendingReentered();
        _sending = 1;
        _;
        _sending = 0;
    }

    // ---- creating a message

    /// @dev Writes all members of a message but its nonce, as a request of the caller asks for.
    /// @return lane The lane's word, for {_register}.
    function _compose(Message memory message, Route calldata request, GmpTable table)
        internal
        view
        returns (LaneWord lane)
    {
        _setOrigin(message, msg.sender.toBytes32(), request.destinationChain);
        message.recipient = request.recipient;
        message.gasLimit = request.gasLimit;
        message.ttl = request.ttl;
        message.kind = request.kind;
        message.quorum = request.quorum;
        message.replaces = request.replaces;
        message.payload = MessageEncoding.toMemory(request.payload);
        lane = _setDestination(message, table);
    }

    /// @dev Makes a message one from here and now.
    function _setOrigin(Message memory message, bytes32 sender, uint64 chain) internal view {
        message.sourceChain = uint64(block.chainid);
        message.sourceRouter = address(this).toBytes32();
        message.sender = sender;
        message.destinationChain = chain;
        message.sentAt = uint64(block.timestamp);
    }

    /// @dev Names the router that a dApp's message is for; refuses what could never be executed there.
    /// @return word The lane's, for {_register}.
    function _setDestination(Message memory message, GmpTable table) internal view returns (LaneWord word) {
        if (message.destinationChain == block.chainid) revert ILanePolicy.SameChain(message.destinationChain);
        if (message.recipient == 0) revert IMessageSender.ZeroRecipient();
        // Every peer is an EVM router, so a recipient that is no EVM address could never be called.
        message.recipient.toAddress();
        Kind kind = message.kind;
        if (kind >= Kind.CANCELLATION) revert IMessageSender.ReservedKind(kind);
        uint32 ttl = message.ttl;
        if (ttl == 0) {
            bool mayLiveForEver = kind == Kind.PLAIN || kind == Kind.REGULATORY_ACTION_CRITICAL;
            if (!mayLiveForEver) revert IMessageSender.TtlRequired(kind);
        } else {
            if (kind == Kind.REGULATORY_ACTION_CRITICAL) revert IMessageSender.TtlNotAllowed(kind, ttl);
            if (ttl < MIN_TTL) revert IMessageSender.TtlTooShort(ttl, MIN_TTL);
        }
        if (message.gasLimit > MAX_GAS_LIMIT) revert IMessageSender.GasLimitTooHigh(message.gasLimit, MAX_GAS_LIMIT);
        if (message.payload.length > MAX_PAYLOAD) {
            revert IMessageSender.PayloadTooLong(message.payload.length, MAX_PAYLOAD);
        }
        LaneState storage lane = _lanes[message.destinationChain];
        word = lane.word;
        address peer = word.peer();
        if (peer == address(0)) revert IMessageSender.NoPeer(message.destinationChain);
        _requireNotPaused(table, message.destinationChain, lane);
        message.destinationRouter = peer.toBytes32();
    }

    /// @dev Gives a composed message its id and its place on the lane, and dispatches it for the first time.
    function _create(
        Message memory message,
        LaneWord lane,
        Attempt memory attempt,
        GmpFee[] calldata gmps,
        bool retriable
    ) internal returns (bytes32 messageId) {
        address sender = message.sender.toAddress();
        messageId = _register(message, sender, lane);
        attempt.messageId = messageId;
        if (retriable) _sent[messageId] = SentMessageLibrary.retriableBy(sender);
        _emitAndDispatch(message, attempt, gmps, retriable);
    }

    /// @dev Gives a composed message the lane's next nonce, and with it its id.
    /// @param sender The message's, as an address.
    /// @param lane The word of the lane that it goes over, as it is now.
    function _register(Message memory message, address sender, LaneWord lane) internal returns (bytes32 messageId) {
        SentTotal total = lane.sent();
        message.nonce = total.nextNonce();
        messageId = message.id();
        _lanes[message.destinationChain].word = lane.withSent(total.plus(messageId));
        emit IMessageSender.MessageIdCreated(messageId, sender, message.nonce);
    }

    // ---- a message that was sent before

    /// @dev What is kept of a message that is said to have that id.
    function _loadSent(Message memory message, bytes32 stated) internal view returns (SentMessage) {
        bytes32 messageId = message.id();
        if (messageId != stated) revert IMessageSender.MessageIdMismatch(stated, messageId);
        return _sent[messageId];
    }

    /// @dev Refuses what its destination would not execute any more, or what can't get there. The message's router was checked when
    ///      the message was created. Its lane is read again only if a lane may be closed now, which saves a retry 2,100 gas.
    function _requireAlive(Message memory message, bytes32 messageId, SentMessage sent, GmpTable table) internal view {
        if (message.sourceChain != block.chainid) {
            revert IMessageSender.WrongSource(message.sourceChain, message.sourceRouter);
        }
        if (sent.isCancelled()) revert IMessageSender.AlreadyCancelled(messageId);
        if (_hasExpired(message)) revert IMessageSender.Expired(messageId, message.sentAt, message.ttl);
        if (table.mayLanesBeClosedAt(block.timestamp)) {
            _requireLane(table, message.destinationChain, message.destinationRouter);
        }
    }

    // ---- dispatching

    /// @dev Attempt 0, of a message that has no id yet. Refuses arguments that make no sense, as far as that shows before the
    ///      GMPs are looked at.
    /// @param minDispatched 0 stands for all of the GMPs.
    function _newAttempt(uint8 minDispatched, address refundTo, GmpFee[] calldata gmps)
        internal
        view
        returns (Attempt memory attempt)
    {
        if (gmps.length == 0) revert IMessageSender.NoGmps();
        if (refundTo == address(0)) revert IMessageSender.ZeroRefundAddress();
        if (minDispatched > gmps.length) revert IMessageSender.InvalidMinDispatched(minDispatched, 1, gmps.length);
        attempt.required = minDispatched == 0 ? gmps.length : minDispatched;
        attempt.refundTo = refundTo;
        attempt.table = _gmps;
    }

    /// @dev Dispatches first: the event names the GMPs that took the message.
    function _emitAndDispatch(Message memory message, Attempt memory attempt, GmpFee[] calldata gmps, bool retriable)
        internal
    {
        (GmpSet took, bytes memory envelope) = _dispatch(attempt, gmps, message);
        emit IMessageSender.MessageRouted(attempt.messageId, message.destinationChain, retriable, took, envelope);
    }

    /// @dev Each GMP is called on its own: one that fails gives its fee back and does not stop the others.
    /// @return took The GMPs that have the message now.
    /// @return envelope What they have.
    function _dispatch(Attempt memory attempt, GmpFee[] calldata gmps, Message memory message)
        internal
        returns (GmpSet took, bytes memory envelope)
    {
        bytes memory data;
        (data, envelope) = _encodeDispatch(attempt, message);
        took = _dispatchToEach(attempt, gmps, data);
    }

    /// @dev What every adapter is called with, and the envelope that lies in it.
    function _encodeDispatch(Attempt memory attempt, Message memory message)
        internal
        pure
        returns (bytes memory data, bytes memory envelope)
    {
        return MessageEncoding.packDispatch(
            IAdapter.dispatch.selector, MessageEncoding.VERSION, attempt.messageId, message, attempt.refundTo
        );
    }

    function _dispatchToEach(Attempt memory attempt, GmpFee[] calldata gmps, bytes memory data)
        private
        returns (GmpSet took)
    {
        GmpTable table = _quickTable(attempt.table);
        GmpSet named;
        uint256 fees;
        uint256 refund;
        for (uint256 index; index < gmps.length; ++index) {
            GmpFee calldata part = gmps[index];
            Gmp gmp = part.gmp;
            uint256 fee = part.fee;
            GmpSet one = gmp.toSet();
            if (named.intersect(one) != NO_GMPS) revert IMessageSender.DuplicateGmp(gmp);
            named = named.unite(one);
            fees += fee;
            if (_dispatchTo(attempt, table, gmp, fee, data)) took = took.unite(one);
            else refund += fee;
        }
        // Looked at last, since a wrong sum undoes all of the above.
        if (fees != msg.value) revert IMessageSender.FeesDifferFromValue(fees, msg.value);
        if (took != named) {
            _requireEnough(took.count(), attempt.required, attempt.failures);
            if (refund != 0) _refund(attempt.refundTo, refund);
        }
    }

    /// @return took Whether the GMP has the message now. It gets a fixed amount of gas, or the whole call fails.
    function _dispatchTo(Attempt memory attempt, GmpTable table, Gmp gmp, uint256 fee, bytes memory data)
        internal
        returns (bool took)
    {
        address adapter = _activeAdapter(table, gmp);
        if (adapter == address(0)) {
            _noteFailure(attempt, gmp, _inactiveReason(gmp));
        } else {
            took = BoundedCall.tryCall(adapter, fee, _requireAdapterGas(gmp, data.length), data);
            if (!took) _noteFailure(attempt, gmp, BoundedCall.answer(MAX_REASON));
        }
    }

    function _noteFailure(Attempt memory attempt, Gmp gmp, bytes memory reason) private {
        attempt.failures = _withFailure(attempt.failures, gmp, reason);
        emit IMessageSender.DispatchFailed(attempt.messageId, gmp, attempt.number, reason);
    }

    /// @dev The table for sends: while any GMP may be paused, without the numbers of adapters, so that all slots are looked at.
    function _quickTable(GmpTable table) internal view returns (GmpTable) {
        return table.pausedAt(block.timestamp) == NO_GMPS ? table : table.withoutCreated();
    }

    /// @dev Who speaks for a GMP now, or zero. The address of an adapter that the router created follows from its number, without a
    ///      look at its slot: that saves 1,850 gas for each GMP of a send.
    /// @param table What {_quickTable} makes of the router's.
    function _activeAdapter(GmpTable table, Gmp gmp) internal view returns (address adapter) {
        uint8 number = table.createdAs(gmp);
        if (number != 0) {
            adapter = _createdAddress(gmp, number);
        } else {
            AdapterSlot storage slot = _adapterSlots[gmp];
            if (block.timestamp >= slot.pausedUntil) adapter = slot.adapter;
        }
    }

    /// @dev Why a GMP is not sent over now.
    function _inactiveReason(Gmp gmp) internal view returns (bytes memory) {
        AdapterSlot storage slot = _adapterSlots[gmp];
        if (slot.adapter == address(0)) return abi.encodeWithSelector(IMessageSender.GmpNotEnabled.selector, gmp);
        return abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, gmp, slot.pausedUntil);
    }

    /// @return given The gas that an adapter is given with a call of that length; there is so much, whatever the EVM keeps back.
    function _requireAdapterGas(Gmp gmp, uint256 length) internal view returns (uint256 given) {
        uint256 available = gasleft();
        // No length and no gas comes near what would overflow.
        unchecked {
            given = ADAPTER_GAS + ADAPTER_GAS_PER_BYTE * length;
            // The EVM takes what the call itself costs, and hands on at most 63/64 of the rest.
            uint256 needed = given + (given + 62) / 63 + CALL_GAS;
            if (available < needed) revert IMessageSender.InsufficientDispatchGas(gmp, available, needed);
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

    function _requireEnough(uint256 count, uint256 minimum, DispatchFailure[] memory failures) internal pure {
        if (count < minimum) revert IMessageSender.TooFewDispatched(count, minimum, failures);
    }

    /// @dev A refundee that can't be paid must not be able to stop the message: its money waits for {withdraw}.
    function _refund(address account, uint256 amount) internal {
        bool success = BoundedCall.tryCall(account, amount, gasleft(), "");
        if (success) return;
        _credits[account] += amount;
        emit IMessageSender.Credited(account, amount);
    }
}
