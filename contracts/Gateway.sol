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
import {Gmp, GmpSet, HIGHEST_GMP} from "./types/Gmp.sol";
import {Message, MessageLibrary} from "./types/Message.sol";
import {Profile} from "./types/Profile.sol";
import {GmpFee, Retry} from "./types/Route.sol";
import {SentMessage, SentMessageLibrary} from "./types/SentMessage.sol";

/// @dev The router's ERC-7786 face; {IGateway} says what it promises.
abstract contract Gateway is IGateway, Quotes {
    using Addresses for address;

    /// @dev The extension's maker is the router whose owner decides about defaults.
    IProfiles public immutable profiles = new Profiles(Ownable(msg.sender));

    /// @inheritdoc IERC7786GatewaySource
    function sendMessage(bytes calldata recipient, bytes calldata payload, bytes[] calldata attributes)
        external
        payable
        returns (bytes32 sendId)
    {
        (Message memory message, Profile memory profile) = _composeFrom(recipient, payload, attributes);
        bytes32 messageId = _keepUnfunded(message, profile);
        if (msg.value == 0) sendId = messageId;
        else _fund(messageId, message, profile);
        bytes memory sender = InteroperableAddress.formatEvmV1(block.chainid, msg.sender);
        emit MessageSent(sendId, sender, recipient, payload, msg.value, attributes);
    }

    /// @inheritdoc IGateway
    function dispatch(Retry calldata request) external payable sendingOnce {
        bytes32 messageId = request.messageId;
        Message memory message = MessageLibrary.load(request.message);
        SentMessage sent = _resume(message, messageId);
        if (!sent.isUnfunded()) revert IMessageSender.NotUnfunded(messageId);
        _requireAlive(message, messageId, sent);
        // Nobody may choose for the sender: a payer that named a GMP of its own could leave the message short of its quorum.
        GmpSet chosen = sent.gmps().intersect(_openGmps(_gmps));
        GmpSet named = _setOf(request.gmps);
        if (named != chosen) revert IMessageSender.WrongGmps(named, chosen);
        Attempt memory attempt = _newAttempt(request.minDispatched, request.refundTo);
        attempt.messageId = messageId;
        _requireWay(attempt, request.gmps, message.quorum);
        bool retriable = sent.isRetriable();
        _sent[messageId] = retriable ? SentMessageLibrary.retriableBy(sent.sender()) : SentMessage.wrap(0);
        _depart(message, attempt, request.gmps, retriable);
    }

    /// @inheritdoc IERC7786GatewaySource
    function supportsAttribute(bytes4 selector) external view returns (bool) {
        return profiles.supportsAttribute(selector);
    }

    function _composeFrom(bytes calldata recipient, bytes calldata payload, bytes[] calldata attributes)
        private
        view
        returns (Message memory message, Profile memory profile)
    {
        uint64 chain;
        address account;
        (chain, account, profile) = profiles.resolve(msg.sender, recipient, attributes);
        _draft(message, msg.sender.toBytes32(), chain);
        message.recipient = account.toBytes32();
        message.payload = payload;
        message.gasLimit = profile.gasLimit;
        message.ttl = profile.ttl;
        message.kind = profile.kind;
        message.quorum = profile.quorum;
        _address(message);
    }

    function _keepUnfunded(Message memory message, Profile memory profile)
        private
        sendingOnce
        returns (bytes32 messageId)
    {
        messageId = _register(message);
        _sent[messageId] = SentMessageLibrary.unfundedOf(msg.sender, profile.gmps, profile.retriable);
        bytes memory envelope = message.encode(messageId);
        emit IMessageSender.MessageUnfunded(
            messageId, message.destinationChain, profile.retriable, profile.gmps, envelope
        );
    }

    /// @dev Pays for the message just created out of the call's value, as anyone else might do later.
    function _fund(bytes32 messageId, Message memory message, Profile memory profile) private {
        GmpFee[] memory gmps = _listOf(profile.gmps.intersect(_openGmps(_gmps)));
        uint256 fees = _quote(gmps, message);
        if (msg.value < fees) revert InsufficientValue(msg.value, fees);
        this.dispatch{value: fees}(Retry(messageId, message, profile.quorum, gmps, msg.sender));
        if (msg.value > fees) _refund(msg.sender, msg.value - fees);
    }

    function _setOf(GmpFee[] calldata gmps) private pure returns (GmpSet set) {
        for (uint256 index; index < gmps.length; ++index) {
            set = set.with(gmps[index].gmp);
        }
    }

    function _listOf(GmpSet set) private pure returns (GmpFee[] memory gmps) {
        gmps = new GmpFee[](set.count());
        uint256 index;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            if (set.contains(Gmp.wrap(number))) gmps[index++].gmp = Gmp.wrap(number);
        }
    }
}
