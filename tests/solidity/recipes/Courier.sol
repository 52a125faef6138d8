// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Address} from "@openzeppelin/contracts/utils/Address.sol";

import {Lane, Lanes} from "../../../contracts/client/Lanes.sol";
import {OrderedGuard} from "../../../contracts/client/OrderedGuard.sol";
import {RouterClient} from "../../../contracts/client/RouterClient.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, Retry} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";

/// @notice The dApp of docs/recipes.md: whoever pays may send a text to its counterpart on another chain.
contract Courier is RouterClient, OrderedGuard {
    Lane private _lane;
    uint64 private _sent;

    mapping(bytes32 messageId => address) public payerOf;
    string[] public texts;

    error NotYours(bytes32 messageId);
    error NotRefundable(bytes32 messageId, Execution outcome);

    constructor(IRouter router_, address owner_) RouterClient(router_, owner_) {}

    function setLane(Lane calldata lane) external onlyOwner {
        _lane = lane;
    }

    function send(string calldata text) external payable returns (bytes32 messageId) {
        bytes memory payload = abi.encode(++_sent, text);
        messageId = Lanes.send(router, _lane.request(Kind.PLAIN, payload, msg.sender), msg.value);
        payerOf[messageId] = msg.sender;
    }

    function sendAgain(Message calldata message, GmpSet gmps) external payable returns (uint32 attempt) {
        bytes32 messageId = message.id();
        if (payerOf[messageId] != msg.sender) revert NotYours(messageId);
        (Retry memory again, uint256 fees) = Lanes.retryOf(router, message, gmps, msg.sender);
        if (msg.value < fees) revert Lanes.ValueBelowFees(msg.value, fees);
        attempt = router.retryRoute{value: fees}(again);
        Address.sendValue(payable(msg.sender), msg.value - fees);
    }

    /// @dev Here the dApp would give back what it holds for the message.
    function settle(bytes32 messageId) external {
        if (payerOf[messageId] != msg.sender) revert NotYours(messageId);
        Execution outcome = router.outcomeOf(messageId);
        bool refundable = outcome == Execution.EXPIRED || outcome == Execution.CANCELLED;
        if (!refundable) revert NotRefundable(messageId, outcome);
        delete payerOf[messageId];
    }

    function _handle(bytes32, uint64 chain, address, bytes calldata payload) internal override {
        (uint64 sequence, string memory text) = abi.decode(payload, (uint64, string));
        _takeInOrder(bytes32(uint256(chain)), sequence);
        texts.push(text);
    }
}
