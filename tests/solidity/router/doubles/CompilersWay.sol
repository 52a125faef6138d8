// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {Message, MessageEncoding} from "../../../../contracts/types/Message.sol";

/// @dev Memory that was used and given up is not zeros.
function soilFreeMemory(uint256 length) pure {
    assembly ("memory-safe") {
        let free := mload(0x40)
        for { let at := free } lt(at, add(free, length)) { at := add(at, 0x20) } { mstore(at, not(0)) }
    }
}

/// @dev Copies out of calldata, so behind a call.
interface ICopies {
    function load(Message calldata source) external pure returns (Message memory);
}

/// @dev As the router does it, in memory that holds something else.
contract RouterCopies is ICopies {
    function load(Message calldata source) external pure returns (Message memory message) {
        soilFreeMemory(0x400);
        message = MessageEncoding.allocate()[0];
        MessageEncoding.copy(source, message);
    }
}

/// @dev What {RouterCopies} must do as well.
contract CompilersCopies is ICopies {
    function load(Message calldata source) external pure returns (Message memory) {
        return source;
    }
}

/// @dev What {MessageEncoding} must do as well, in halves: the EVM's stack can't reach all members at once.
library CompilersWay {
    function pack(uint8 version, bytes32 messageId, Message memory message) internal pure returns (bytes memory) {
        bytes memory first = abi.encodePacked(
            version,
            messageId,
            message.sourceChain,
            message.sourceRouter,
            message.sender,
            message.nonce,
            message.destinationChain,
            message.destinationRouter
        );
        bytes memory second = abi.encodePacked(
            message.recipient,
            message.gasLimit,
            message.sentAt,
            message.ttl,
            message.kind,
            message.quorum,
            message.replaces,
            message.payload
        );
        return bytes.concat(first, second);
    }

    function packCall(uint8 version, bytes32 messageId, Message memory message, address refundTo)
        internal
        pure
        returns (bytes memory)
    {
        bytes memory envelope = pack(version, messageId, message);
        return abi.encodeCall(
            IAdapter.dispatch,
            (message.destinationChain, message.destinationRouter, envelope, message.gasLimit, refundTo)
        );
    }

    function wordAt(bytes calldata data, uint256 offset) internal pure returns (bytes32) {
        return bytes32(data[offset:offset + 32]);
    }

    function statedSourceRouter(bytes memory envelope) internal pure returns (bytes32 router) {
        for (uint256 index = 41; index < 73; ++index) {
            router = (router << 8) | bytes32(uint256(uint8(envelope[index])));
        }
    }

    function hash(bytes32 typeHash, uint8 version, Message memory message, bytes32 payloadHash)
        internal
        pure
        returns (bytes32)
    {
        bytes memory first = abi.encode(
            typeHash,
            version,
            message.sourceChain,
            message.sourceRouter,
            message.sender,
            message.nonce,
            message.destinationChain,
            message.destinationRouter
        );
        bytes memory second = abi.encode(
            message.recipient,
            message.gasLimit,
            message.sentAt,
            message.ttl,
            message.kind,
            message.quorum,
            message.replaces,
            payloadHash
        );
        return keccak256(bytes.concat(first, second));
    }
}
