// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Router} from "../../../contracts/Router.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {Message, Retry} from "../../../contracts/types/Message.sol";
import {Execution, Receipts} from "../../../contracts/types/MessageRecords.sol";

/// @dev What halmos may call in the controls of claims about any calldata.
interface IBackdoors {
    function recordUnchecked(bytes32 messageId, Gmp gmp) external;
    function pauseUnchecked(uint64 chain, uint48 until) external;
}

/// @dev The router with doors beside those that check: what each function would do without its check.
contract UncheckedRouter is IBackdoors, Router {
    constructor(address owner) Router(owner) {}

    function recordUnchecked(bytes32 messageId, Gmp gmp) external {
        _receipts[messageId] = _receipts[messageId].record(gmp, _gmps.epochs());
    }

    function endUnchecked(bytes32 messageId, Execution execution) external {
        _receipts[messageId] = _receipts[messageId].withExecution(execution);
    }

    function pauseUnchecked(uint64 chain, uint48 until) external {
        _lanes[chain].pausedUntil = until;
        _gmps = _gmps.withLanesClosed(uint16(until / 1 days));
    }

    function retryUnchecked(Retry calldata request) external {
        Message memory message = request.message;
        _requireAlive(message, request.messageId, _sent[request.messageId], _gmps);
        _sent[request.messageId] = _sent[request.messageId].withOneMoreAttempt();
    }

    function credit(address account) external payable {
        _credits[account] += msg.value;
    }

    function withdrawUnchecked(address payable to) external {
        (bool success,) = to.call{value: _credits[msg.sender]}("");
        require(success);
    }
}
