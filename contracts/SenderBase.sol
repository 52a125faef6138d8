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

/// @dev Creates messages, hands them to GMPs and refunds unused fees. The inheriting contracts decide who may send:
///      {MessageSender} in the router, {Gateway} and {RouterMessages} in its extension.
abstract contract SenderBase is LanePolicy {
    using Addresses for address;
    using Addresses for bytes32;

    /// @dev One dispatch of a message over a set of GMPs, with the GMPs that rejected it.
    struct Attempt {
        bytes32 messageId;
        uint32 number;
        uint256 required;
        address refundTo;
        DispatchFailure[] failures;
        GmpTable table;
    }

    /// @dev In bytes. A payload of this size over sixteen GMPs needs less than a quarter of a block of 30 million gas (bench/).
    uint256 internal constant MAX_PAYLOAD = 32_768;

    /// @dev Longer revert reasons of an adapter are truncated, because they are not worth their gas in an event or error.
    uint256 internal constant MAX_REASON = 256;

    /// @dev Gas for every adapter, more than any of the five GMPs needs. It is fixed, so that a caller who provides little gas
    ///      cannot choose which adapters fail.
    uint256 private constant ADAPTER_GAS = 700_000;

    /// @dev Additional gas per byte of the envelope, for copies, hashes and the GMP's own event.
    uint256 private constant ADAPTER_GAS_PER_BYTE = 64;

    /// @dev Maximum gas of the adapter call itself: a cold account, a value, and the code before it.
    uint256 private constant CALL_GAS = 15_000;

    /// @dev Adapters and refundees are called with the lock held. Routing from a recipient during its delivery is allowed, because
    ///      sending and receiving have separate locks.
    modifier nonReentrantSend() {
        if (_sending != 0) revert IMessageSender.SendingReentered();
        _sending = 1;
        _;
        _sending = 0;
    }

    // ---- creating a message

    /// @dev Fills in a message from the caller's request, except for its nonce.
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

    /// @dev Sets the message's source and time.
    function _setOrigin(Message memory message, bytes32 sender, uint64 chain) internal view {
        message.sourceChain = uint64(block.chainid);
        message.sourceRouter = address(this).toBytes32();
        message.sender = sender;
        message.destinationChain = chain;
        message.sentAt = uint64(block.timestamp);
    }

    /// @dev Sets the destination router of a dApp's message; reverts if the message could never be executed there.
    /// @return word The lane's word, for {_register}.
    function _setDestination(Message memory message, GmpTable table) internal view returns (LaneWord word) {
        if (message.destinationChain == block.chainid) revert ILanePolicy.SameChain(message.destinationChain);
        if (message.recipient == 0) revert IMessageSender.ZeroRecipient();
        // Every peer is an EVM router, so a recipient that is not an EVM address could never be called.
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

    /// @dev Assigns a composed message its id and nonce on the lane, and dispatches it for the first time.
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

    /// @dev Assigns a composed message the lane's next nonce and thereby its id.
    /// @param sender The message's sender, as an address.
    /// @param lane The current word of the lane.
    function _register(Message memory message, address sender, LaneWord lane) internal returns (bytes32 messageId) {
        SentTotal total = lane.sent();
        message.nonce = total.nextNonce();
        messageId = message.id();
        _lanes[message.destinationChain].word = lane.withSent(total.plus(messageId));
        emit IMessageSender.MessageIdCreated(messageId, sender, message.nonce);
    }

    // ---- a message that was sent before

    /// @dev Returns the record of a message with that stated id.
    function _loadSent(Message memory message, bytes32 stated) internal view returns (SentMessage) {
        bytes32 messageId = message.id();
        if (messageId != stated) revert IMessageSender.MessageIdMismatch(stated, messageId);
        return _sent[messageId];
    }

    /// @dev Reverts if the destination would no longer execute the message, or if the lane is closed. The message's router was checked
    ///      on creation. Its lane is read again only if a lane may be closed now, which saves a retry 2,100 gas.
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

    /// @dev Attempt 0, of a message without an id. Reverts on invalid arguments, as far as they can be checked before the GMPs are
    ///      called.
    /// @param minDispatched 0 stands for all GMPs.
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

    /// @dev Dispatches first, because the event names the GMPs that accepted the message.
    function _emitAndDispatch(Message memory message, Attempt memory attempt, GmpFee[] calldata gmps, bool retriable)
        internal
    {
        (GmpSet took, bytes memory envelope) = _dispatch(attempt, gmps, message);
        emit IMessageSender.MessageRouted(attempt.messageId, message.destinationChain, retriable, took, envelope);
    }

    /// @dev Calls each GMP independently: one that fails returns its fee and does not affect the others.
    /// @return took The GMPs that accepted the message.
    /// @return envelope The envelope that they carry.
    function _dispatch(Attempt memory attempt, GmpFee[] calldata gmps, Message memory message)
        internal
        returns (GmpSet took, bytes memory envelope)
    {
        bytes memory data;
        (data, envelope) = _encodeDispatch(attempt, message);
        took = _dispatchToEach(attempt, gmps, data);
    }

    /// @dev The calldata for every adapter, and the envelope in it.
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
        // Checked last, since a wrong sum reverts everything above.
        if (fees != msg.value) revert IMessageSender.FeesDifferFromValue(fees, msg.value);
        if (took != named) {
            _requireEnough(took.count(), attempt.required, attempt.failures);
            if (refund != 0) _refund(attempt.refundTo, refund);
        }
    }

    /// @return took Whether the GMP accepted the message. It gets a fixed amount of gas, or the whole call reverts.
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

    /// @dev The table for sends; while any GMP may be paused, it omits the adapters' numbers, so that all slots are read.
    function _quickTable(GmpTable table) internal view returns (GmpTable) {
        return table.pausedAt(block.timestamp) == NO_GMPS ? table : table.withoutCreated();
    }

    /// @dev Returns a GMP's current adapter, or zero. The address of an adapter that the router created follows from its number,
    ///      without reading its slot, which saves 1,850 gas for each GMP of a send.
    /// @param table The result of {_quickTable}.
    function _activeAdapter(GmpTable table, Gmp gmp) internal view returns (address adapter) {
        uint8 number = table.createdAs(gmp);
        if (number != 0) {
            adapter = _createdAddress(gmp, number);
        } else {
            AdapterSlot storage slot = _adapterSlots[gmp];
            if (block.timestamp >= slot.pausedUntil) adapter = slot.adapter;
        }
    }

    /// @dev Returns why a GMP cannot be used now.
    function _inactiveReason(Gmp gmp) internal view returns (bytes memory) {
        AdapterSlot storage slot = _adapterSlots[gmp];
        if (slot.adapter == address(0)) return abi.encodeWithSelector(IMessageSender.GmpNotEnabled.selector, gmp);
        return abi.encodeWithSelector(ILanePolicy.GmpPaused.selector, gmp, slot.pausedUntil);
    }

    /// @return given The gas for an adapter call of that length; enough remains, whatever the EVM retains.
    function _requireAdapterGas(Gmp gmp, uint256 length) internal view returns (uint256 given) {
        uint256 available = gasleft();
        // Lengths and gas are far from overflowing.
        unchecked {
            given = ADAPTER_GAS + ADAPTER_GAS_PER_BYTE * length;
            // The EVM charges the call itself, and forwards at most 63/64 of the rest.
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

    /// @dev A refundee that cannot be paid must not block the message, so its money waits for {withdraw}.
    function _refund(address account, uint256 amount) internal {
        bool success = BoundedCall.tryCall(account, amount, gasleft(), "");
        if (success) return;
        _credits[account] += amount;
        emit IMessageSender.Credited(account, amount);
    }
}
