// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Lane, Lanes} from "../../../../contracts/client/Lanes.sol";
import {RouterClient} from "../../../../contracts/client/RouterClient.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";
import {Kind, Message, Retry} from "../../../../contracts/types/Message.sol";

/// @notice The smallest client: remembers the last message, sends what it is told to, and can refuse retries.
contract PlainClient is RouterClient {
    uint256 public handled;
    bytes32 public lastId;
    uint64 public lastChain;
    address public lastSender;
    bytes public lastPayload;
    bool private _refusing;

    error RetryRefused();

    constructor(IRouter router_, address owner_) RouterClient(router_, owner_) {}

    receive() external payable {}

    function send(Lane memory lane, bytes calldata payload) external payable returns (bytes32) {
        return Lanes.send(router, lane.request(Kind.PLAIN, payload, msg.sender), msg.value);
    }

    function refuseRetries() external {
        _refusing = true;
    }

    function _handle(bytes32 messageId, uint64 chain, address sender, bytes calldata payload) internal override {
        ++handled;
        (lastId, lastChain, lastSender, lastPayload) = (messageId, chain, sender, payload);
    }

    function _beforeRetry(Retry calldata) internal view override {
        if (_refusing) revert RetryRefused();
    }
}

/// @notice The vulnerable twin: asks nobody who they are.
contract TrustingClient is PlainClient {
    constructor(IRouter router_, address owner_) PlainClient(router_, owner_) {}

    function _requireTrusted(bytes32, uint64, address) internal view override {}
}
