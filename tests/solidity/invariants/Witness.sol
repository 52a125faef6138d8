// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {VmSafe} from "forge-std/Vm.sol";

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {IRouterViews} from "../../../contracts/interfaces/IRouterViews.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouterMessages} from "../../../contracts/interfaces/IRouterMessages.sol";
import {Kind, Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {Ghost, Record, Rule} from "./Ghost.sol";
import {FickleRecipient} from "./doubles/FickleRecipient.sol";

/// @dev Reads what the routers say, as an index would, keeps the books by it, and objects to what must not be.
abstract contract Witness is Ghost {
    /// @dev What is being handed over, so that a receipt can be told from one that comes out of nowhere.
    struct Arrival {
        uint8 router;
        uint8 gmp;
        bytes32 messageId;
    }

    Arrival internal arrival;
    bool internal wasAbsorbed;
    bool internal wasRecorded;
    /// @dev An attempt that somebody pays for is no retry.
    bool internal isFunding;
    /// @dev How often an event was seen; a run in which nothing happens proves nothing.
    mapping(bytes32 topic => uint256 times) public seen;

    /// @dev Opens the ears; {listen} closes them.
    function onRouter(uint8 r) internal {
        onChainOf(r);
        vm.recordLogs();
    }

    /// @dev What a call said that was undone as a whole: the recording keeps it nevertheless.
    function forget() internal {
        vm.getRecordedLogs();
    }

    function listen() internal {
        VmSafe.Log[] memory logs = vm.getRecordedLogs();
        _eraseUndoneCallbacks(logs);
        for (uint256 index; index < logs.length; ++index) {
            VmSafe.Log memory log = logs[index];
            if (log.topics.length == 0) continue;
            ++seen[log.topics[0]];
            uint8 r = indexOf(log.emitter);
            if (log.topics[0] == IAdapter.DuplicateAbsorbed.selector) wasAbsorbed = true;
            else if (r != ROUTERS) hear(r, log);
        }
    }

    /// @dev A recipient's call back that failed, or whose recipient was undone after it, has said nothing.
    function _eraseUndoneCallbacks(VmSafe.Log[] memory logs) private pure {
        uint256 start = logs.length;
        for (uint256 index; index < logs.length; ++index) {
            bytes32 topic = logs[index].topics.length == 0 ? bytes32(0) : logs[index].topics[0];
            if (topic == FickleRecipient.CallingBack.selector) start = index;
            bool undone = topic == IMessageReceiver.ExecutionFailed.selector
                || topic == IMessageReceiver.ExecutionDeferred.selector
                || (topic == FickleRecipient.CalledBack.selector && !abi.decode(logs[index].data, (bool)));
            if (!undone) continue;
            for (; start < index; ++start) {
                logs[start].emitter = address(0);
            }
            start = logs.length;
        }
    }

    function hear(uint8 r, VmSafe.Log memory log) private {
        bytes32 topic = log.topics[0];
        if (log.topics.length < 2) return;
        bytes32 subject = log.topics[1];
        if (topic == IMessageSender.MessageIdCreated.selector) heardCreated(r, subject, log.data);
        else if (topic == IMessageSender.MessageRouted.selector) heardRouted(subject, log.data, false);
        else if (topic == IMessageSender.MessageUnfunded.selector) heardRouted(subject, log.data, true);
        else if (topic == IMessageSender.MessageRetried.selector) heardRetried(subject, log.data);
        else if (topic == IMessageReceiver.MessageReceived.selector) heardReceived(r, subject, log);
        else if (topic == IMessageReceiver.MessageExecuted.selector) heardExecuted(r, subject);
        else if (topic == IMessageReceiver.MessageExpired.selector) heardExpired(r, subject);
        else if (topic == IRouterMessages.MessageCancelled.selector) heardEnd(r, subject, Execution.CANCELLED);
        else if (topic == IRouterMessages.CancellationRequested.selector) records[subject].cancelled = true;
        else if (topic == IRouterMessages.OutcomeReported.selector) heardOutcome(r, subject, log.data);
        else heardMoney(r, topic, address(uint160(uint256(subject))), log.data);
    }

    function heardMoney(uint8 r, bytes32 topic, address account, bytes memory data) private {
        if (topic == IMessageSender.Credited.selector) {
            uint256 amount = abi.decode(data, (uint256));
            credit[r][account] += amount;
            credits[r] += amount;
        } else if (topic == IRouterViews.Withdrawn.selector) {
            uint256 amount = abi.decode(data, (uint256));
            expect(amount == credit[r][account], Rule.PAID_WRONGLY);
            credits[r] -= credit[r][account];
            credit[r][account] = 0;
        }
    }

    // ---- sending

    function heardCreated(uint8 r, bytes32 messageId, bytes memory data) private {
        expect(!records[messageId].created, Rule.ID_REUSED);
        expect(abi.decode(data, (uint64)) == ++createdCount[r], Rule.NONCE_SKIPPED);
        unchecked {
            createdSum[r] += uint32(uint256(messageId));
        }
        records[messageId].created = true;
        records[messageId].source = r;
    }

    function heardRouted(bytes32 messageId, bytes memory data, bool unfunded) private {
        (bool retriable, uint16 gmps, bytes memory envelope) = abi.decode(data, (bool, uint16, bytes));
        (bytes32 stated, Message memory message) = this.open(envelope);
        expect(stated == messageId && MessageEncoding.id(message) == messageId, Rule.ID_IS_NOT_THE_CONTENTS);
        know(messageId, message);
        Record storage entry = records[messageId];
        entry.retriable = retriable;
        entry.unfunded = unfunded;
        entry.waiting = unfunded ? gmps : entry.waiting & ~gmps;
    }

    function open(bytes calldata envelope) external pure returns (bytes32 stated, Message memory message) {
        return MessageEncoding.decode(envelope);
    }

    function heardRetried(bytes32 messageId, bytes memory data) private {
        (uint32 attempt, uint16 gmps) = abi.decode(data, (uint32, uint16));
        Record storage entry = records[messageId];
        expect(attempt == ++entry.attempts, Rule.ATTEMPT_MISNUMBERED);
        if (!isFunding) return;
        entry.waiting &= ~gmps;
        // The router forgets a message that can be neither retried nor paid for again.
        if (entry.waiting == 0 && !entry.retriable) entry.attempts = 0;
    }

    // ---- receiving

    function heardReceived(uint8 r, bytes32 messageId, VmSafe.Log memory log) private {
        uint8 gmp = uint8(uint256(log.topics[3]));
        bool announced = arrival.router == r && arrival.gmp == gmp && arrival.messageId == messageId;
        expect(announced && !wasRecorded, Rule.RECEIPT_FROM_NOWHERE);
        wasRecorded = true;
        expect(isLaneOpen(r) && !isPaused(r, gmp), Rule.COUNTED_WHILE_PAUSED);
        uint16 before = delivered(r, messageId);
        expect(before & bit(gmp) == 0, Rule.RECEIPT_COUNTED_TWICE);
        deliveredIn[r][messageId][gmp] = epoch[r][gmp] + 1;
        (uint8 receipts, uint8 quorum,) = abi.decode(log.data, (uint8, uint8, bytes32));
        (uint8 expected, uint8 needed) = progressTold(r, messageId);
        expect(receipts == expected && quorum == needed, Rule.RECEIPTS_MISCOUNTED);
    }

    function heardExecuted(uint8 r, bytes32 messageId) private {
        Message memory message = records[messageId].message;
        (uint8 receipts, uint8 quorum) = progress(r, messageId);
        expect(receipts >= quorum && quorum != 0, Rule.EXECUTED_BELOW_THE_QUORUM);
        expect(!isExpired(messageId), Rule.EXECUTED_AFTER_ITS_TIME);
        bool isPlace = indexOf(message.destinationRouter) == r && message.destinationChain == chainOf(r);
        uint8 source = indexOf(message.sourceRouter);
        expect(isPlace && source != ROUTERS && isPeer[r][source] && isLaneOpen(r), Rule.EXECUTED_ELSEWHERE);
        ++executedCount[r];
        unchecked {
            executedSum[r] += uint192(uint256(messageId));
        }
        heardEnd(r, messageId, Execution.EXECUTED);
    }

    function heardExpired(uint8 r, bytes32 messageId) private {
        expect(isExpired(messageId), Rule.EXPIRED_EARLY);
        heardEnd(r, messageId, Execution.EXPIRED);
    }

    function heardEnd(uint8 r, bytes32 messageId, Execution state) private {
        expect(end[r][messageId] == Execution.NONE, Rule.ENDED_TWICE);
        end[r][messageId] = state;
    }

    /// @dev `arrival` or the executed message is the report; without a liar it tells the truth.
    function heardOutcome(uint8 r, bytes32 messageId, bytes memory data) private {
        Execution said = abi.decode(data, (Execution));
        expect(outcome[r][messageId] == Execution.NONE, Rule.OUTCOME_CHANGED);
        Record memory entry = records[messageId];
        if (entry.created && entry.source == r && (entry.retriable || entry.unfunded)) outcome[r][messageId] = said;
        if (liars[arrival.messageId] != 0) return;
        uint8 destination = indexOf(records[messageId].message.destinationRouter);
        expect(destination != ROUTERS && end[destination][messageId] == said, Rule.UNTRUE_OUTCOME);
    }
}
