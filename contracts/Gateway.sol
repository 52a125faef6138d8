// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Profiles} from "./Profiles.sol";
import {Quotes} from "./Quotes.sol";
import {IGateway} from "./interfaces/IGateway.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {IProfiles} from "./interfaces/IProfiles.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Gmp, GmpSet, GmpTable, HIGHEST_GMP, NO_GMPS} from "./types/Gmp.sol";
import {GmpFee, Message, MessageEncoding} from "./types/Message.sol";
import {SentMessage, SentMessageLibrary} from "./types/MessageRecords.sol";
import {Profile} from "./types/Profile.sol";

/// @dev The router's ERC-7786 interface, as {IGateway} specifies it.
abstract contract Gateway is IGateway, Quotes {
    using Addresses for address;

    /// @dev The extension's creator is the router, whose owner sets the defaults.
    IProfiles public immutable profiles = new Profiles(Ownable(msg.sender));

    /// @inheritdoc IERC7786GatewaySource
    function sendMessage(bytes calldata recipient, bytes calldata payload, bytes[] calldata attributes)
        external
        payable
        nonReentrantSend
        returns (bytes32 sendId)
    {
        (bytes32 messageId, Message memory message, Profile memory profile) =
            _registerFrom(recipient, payload, attributes);
        SentMessage sent =
            SentMessageLibrary.unfundedOf(msg.sender, profile.gmps, profile.retriable, profile.maxFeeGwei);
        _sent[messageId] = sent;
        emit IMessageSender.MessageUnfunded(
            messageId, message.destinationChain, profile.retriable, profile.gmps, message.encode(messageId)
        );
        if (msg.value == 0) sendId = messageId;
        else _fund(messageId, message, sent, msg.sender);
        bytes memory sender = InteroperableAddress.formatEvmV1(block.chainid, msg.sender);
        emit MessageSent(sendId, sender, recipient, payload, msg.value, attributes);
    }

    /// @inheritdoc IGateway
    function fund(Message calldata request, address refundTo) external payable nonReentrantSend {
        Message memory message = MessageEncoding.load(request);
        bytes32 messageId = message.id();
        SentMessage sent = _sent[messageId];
        if (sent.gmps() == NO_GMPS) revert IMessageSender.NotUnfunded(messageId);
        if (refundTo == address(0)) revert IMessageSender.ZeroRefundAddress();
        _requireAlive(message, messageId, sent, _gmps);
        _fund(messageId, message, sent, refundTo);
    }

    /// @inheritdoc IERC7786GatewaySource
    function supportsAttribute(bytes4 selector) external view returns (bool) {
        return profiles.supportsAttribute(selector);
    }

    function _registerFrom(bytes calldata recipient, bytes calldata payload, bytes[] calldata attributes)
        private
        returns (bytes32 messageId, Message memory message, Profile memory profile)
    {
        uint64 chain;
        address account;
        (chain, account, profile) = profiles.resolve(msg.sender, recipient, attributes);
        _setOrigin(message, msg.sender.toBytes32(), chain);
        message.recipient = account.toBytes32();
        message.payload = payload;
        message.gasLimit = profile.gasLimit;
        message.ttl = profile.ttl;
        message.kind = profile.kind;
        message.quorum = profile.quorum;
        messageId = _register(message, msg.sender, _setDestination(message, _gmps));
    }

    /// @dev Sends a message over all its GMPs, each at its current fee. The payer chooses neither GMPs nor fees, because an underpaid
    ///      GMP would reject the message. A GMP that fails to accept it now, even if the payer caused that, can be paid again
    ///      later. The first payment must reach the quorum.
    function _fund(bytes32 messageId, Message memory message, SentMessage sent, address refundTo) private {
        bool isFirst = sent.isUnfunded();
        if (!isFirst) sent = sent.withOneMoreAttempt();
        Attempt memory attempt;
        (attempt.messageId, attempt.number, attempt.refundTo) = (messageId, sent.attempts(), refundTo);
        attempt.required = isFirst ? message.quorum : 1;
        (GmpSet took, uint256 spent, bytes memory envelope) = _dispatchPaid(attempt, message, sent);
        sent = sent.fundedBut(sent.gmps().minus(took));
        // A message that can be neither retried nor funded needs no record.
        _sent[messageId] = sent.isRetriable() || sent.gmps() != NO_GMPS ? sent : SentMessage.wrap(0);
        if (msg.value > spent) _refund(refundTo, msg.value - spent);
        uint64 chain = message.destinationChain;
        if (isFirst) emit IMessageSender.MessageRouted(messageId, chain, sent.isRetriable(), took, envelope);
        else emit IMessageSender.MessageRetried(messageId, chain, attempt.number, took);
    }

    /// @return took The GMPs that accepted the message.
    /// @return spent The fees paid to them, in wei.
    /// @return envelope The envelope that they carry.
    function _dispatchPaid(Attempt memory attempt, Message memory message, SentMessage sent)
        private
        returns (GmpSet took, uint256 spent, bytes memory envelope)
    {
        GmpFee[] memory gmps = _toList(sent.gmps());
        spent = _quote(gmps, message, attempt.required, sent.maxFee());
        if (msg.value < spent) revert InsufficientValue(msg.value, spent);
        bytes memory data;
        (data, envelope) = _encodeDispatch(attempt, message);
        GmpTable table = _quickTable(_gmps);
        for (uint256 index; index < gmps.length; ++index) {
            (Gmp gmp, uint256 fee) = (gmps[index].gmp, gmps[index].fee);
            if (_dispatchTo(attempt, table, gmp, fee, data)) took = took.with(gmp);
            else spent -= fee;
        }
        _requireEnough(took.count(), attempt.required, attempt.failures);
    }

    function _toList(GmpSet set) private pure returns (GmpFee[] memory gmps) {
        gmps = new GmpFee[](set.count());
        uint256 index;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            if (set.contains(Gmp.wrap(number))) gmps[index++].gmp = Gmp.wrap(number);
        }
    }
}
