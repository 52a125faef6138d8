// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Kind, Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Symbolic} from "./Symbolic.sol";

/// @dev Calldata is what is decoded, so the codec stands behind a call.
contract Codec {
    function decode(bytes calldata envelope) external pure virtual returns (bytes32 stated, Message memory message) {
        return MessageEncoding.decode(envelope);
    }
}

/// @dev Reads one field from a byte too early.
contract MisreadingCodec is Codec {
    function decode(bytes calldata envelope) external pure override returns (bytes32 stated, Message memory message) {
        (stated, message) = MessageEncoding.decode(envelope);
        message.gasLimit = uint64(bytes8(envelope[184:]));
    }
}

/// @dev Lets kinds that do not exist pass as something.
contract CarelessCodec is Codec {
    function decode(bytes calldata envelope) external pure override returns (bytes32 stated, Message memory message) {
        if (envelope.length > 205 && uint8(envelope[205]) > uint8(type(Kind).max)) return (stated, message);
        return MessageEncoding.decode(envelope);
    }
}

/// @dev Payloads of 0, 32 and 65 bytes (the runner's `--default-bytes-lengths`): none, a word, and one that ends inside a word.
contract MessageProofs is Symbolic {
    Codec private codec = new Codec();
    Codec private misreading = new MisreadingCodec();
    Codec private careless = new CarelessCodec();

    function check_EqualIdsMeanEqualMessages(Message memory a, Message memory b) public view {
        _assertInjective(MessageEncoding.id, a, b);
    }

    function control_EqualIdsMeanEqualMessages(Message memory a, Message memory b) public view {
        _assertInjective(_idWithoutTtl, a, b);
    }

    function check_DecodingAnEnvelopeGivesTheMessageBack(Message memory message) public view {
        _assertRoundTrip(codec, message);
    }

    function control_DecodingAnEnvelopeGivesTheMessageBack(Message memory message) public view {
        _assertRoundTrip(misreading, message);
    }

    function check_UnsoundEnvelopesAreRefused() public view {
        _assertRefused(codec);
    }

    function control_UnsoundEnvelopesAreRefused() public view {
        _assertRefused(careless);
    }

    function _assertInjective(
        function(Message memory) internal view returns (bytes32) idOf,
        Message memory a,
        Message memory b
    ) private view {
        if (idOf(a) == idOf(b)) assert(_areEqual(a, b));
    }

    function _assertRoundTrip(Codec target, Message memory message) private view {
        bytes32 messageId = MessageEncoding.id(message);
        bytes memory envelope = MessageEncoding.encode(message, messageId);
        (bytes32 stated, Message memory decoded) = target.decode(envelope);
        assert(stated == messageId);
        assert(MessageEncoding.statedId(envelope) == messageId);
        assert(_areEqual(message, decoded));
    }

    /// @dev Too short, of another version, or of a kind that does not exist.
    function _assertRefused(Codec target) private view {
        uint256[5] memory lengths = [uint256(0), 1, 238, 239, 304];
        for (uint256 index; index < lengths.length; ++index) {
            bytes memory envelope = svm.createBytes(lengths[index], "envelope");
            bool isSound = envelope.length >= MessageEncoding.HEADER_LENGTH
                && uint8(envelope[0]) == MessageEncoding.VERSION && uint8(envelope[205]) <= uint8(type(Kind).max);
            (bool decoded,) = address(target).staticcall(abi.encodeCall(Codec.decode, (envelope)));
            assert(decoded == isSound);
        }
    }

    function _areEqual(Message memory a, Message memory b) private pure returns (bool) {
        return a.sourceChain == b.sourceChain && a.sourceRouter == b.sourceRouter && a.sender == b.sender
            && a.nonce == b.nonce && a.destinationChain == b.destinationChain
            && a.destinationRouter == b.destinationRouter && a.recipient == b.recipient && a.gasLimit == b.gasLimit
            && a.sentAt == b.sentAt && a.ttl == b.ttl && a.kind == b.kind && a.quorum == b.quorum
            && a.replaces == b.replaces && keccak256(a.payload) == keccak256(b.payload);
    }

    function _idWithoutTtl(Message memory message) private pure returns (bytes32) {
        (uint32 ttl, bytes32 messageId) = (message.ttl, 0);
        message.ttl = 0;
        messageId = MessageEncoding.id(message);
        message.ttl = ttl;
        return messageId;
    }
}
