// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {Message, Retry} from "../../../contracts/types/Message.sol";
import {RouterWorld} from "./RouterWorld.sol";
import {UncheckedRouter} from "./UncheckedRouter.sol";

/// @dev Who may send a message again, and what.
contract SendingProofs is RouterWorld {
    function newRouter() internal override returns (address) {
        return address(new UncheckedRouter(OWNER));
    }

    function check_OnlyTheSenderAndItsRetrierRetry(address caller) public {
        if (_retries(caller)) assert(caller == ALICE || caller == RETRIER);
    }

    function control_OnlyTheSenderAndItsRetrierRetry(address caller) public {
        if (_retries(caller)) assert(caller == ALICE);
    }

    function check_ARetryIsTheSameMessage(uint64 gasLimit, Message memory message) public {
        _assertSameMessage(IMessageSender.retryRoute.selector, gasLimit, message);
    }

    function control_ARetryIsTheSameMessage(uint64 gasLimit, Message memory message) public {
        _assertSameMessage(UncheckedRouter.retryUnchecked.selector, gasLimit, message);
    }

    function check_ACancelledMessageIsNeverRetried(address caller) public {
        _assertNotRetried(caller, true);
    }

    function control_ACancelledMessageIsNeverRetried(address caller) public {
        _assertNotRetried(caller, false);
    }

    function check_AnExpiredMessageIsNeverRetried(uint48 time) public {
        (Message memory message, bytes32 messageId) = sent();
        vm.assume(time > message.sentAt + message.ttl);
        _assertNotRetriedAt(time, messageId, message);
    }

    function control_AnExpiredMessageIsNeverRetried(uint48 time) public {
        (Message memory message, bytes32 messageId) = sent();
        vm.assume(time >= message.sentAt + message.ttl);
        _assertNotRetriedAt(time, messageId, message);
    }

    function _retries(address caller) private returns (bool success) {
        vm.prank(ALICE);
        router.appointRetrier(RETRIER);
        (Message memory message, bytes32 messageId) = sent();
        return _tryRetry(caller, IMessageSender.retryRoute.selector, retryOf(messageId, message));
    }

    function _tryRetry(address caller, bytes4 selector, Retry memory request) private returns (bool success) {
        vm.prank(caller);
        (success,) = address(router).call(abi.encodeWithSelector(selector, request));
    }

    /// @dev The message sent is symbolic too: halmos knows hashes of symbolic data apart from each other, not from a number.
    function _assertSameMessage(bytes4 selector, uint64 gasLimit, Message memory message) private {
        (Message memory original, bytes32 messageId) = sentWith(gasLimit, svm.createBytes(32, "payload"));
        if (_tryRetry(ALICE, selector, retryOf(messageId, message))) {
            assert(message.nonce == original.nonce && message.sender == original.sender);
            assert(message.destinationChain == original.destinationChain && message.recipient == original.recipient);
            assert(message.destinationRouter == original.destinationRouter && message.kind == original.kind);
            assert(message.gasLimit == original.gasLimit && message.quorum == original.quorum);
            assert(message.sentAt == original.sentAt && message.ttl == original.ttl);
            assert(message.replaces == original.replaces && keccak256(message.payload) == keccak256(original.payload));
        }
    }

    function _assertNotRetried(address caller, bool cancelled) private {
        (Message memory message, bytes32 messageId) = sent();
        if (cancelled) {
            vm.prank(ALICE);
            router.cancel(message, 1, over(Gmp.wrap(3)), ALICE);
        }
        assert(!_tryRetry(caller, IMessageSender.retryRoute.selector, retryOf(messageId, message)));
    }

    function _assertNotRetriedAt(uint48 time, bytes32 messageId, Message memory message) private {
        vm.warp(time);
        assert(!_tryRetry(ALICE, IMessageSender.retryRoute.selector, retryOf(messageId, message)));
    }
}
