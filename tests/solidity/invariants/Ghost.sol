// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Kind, Message} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {World} from "./World.sol";

/// @dev What must never be seen to happen. An action or an event that shows it counts it; {Campaign} wants none.
enum Rule {
    ID_REUSED,
    NONCE_SKIPPED,
    ID_IS_NOT_THE_CONTENTS,
    RETRIED_BY_ANOTHER,
    RETRIED_WHAT_MAY_NOT_BE,
    ATTEMPT_MISNUMBERED,
    DISPATCHED_WHAT_WAS_NOT_WAITING,
    CANCELLED_BY_ANOTHER,
    REFUSED_A_SOUND_ROUTE,
    RECEIPT_FROM_NOWHERE,
    RECEIPT_COUNTED_TWICE,
    RECEIPT_LOST,
    RECEIPTS_MISCOUNTED,
    COUNTED_WHILE_PAUSED,
    ALTERED_CONTENT_ACCEPTED,
    REFUSED_A_SOUND_DELIVERY,
    EXECUTED_BELOW_THE_QUORUM,
    EXECUTED_AFTER_ITS_TIME,
    EXECUTED_ELSEWHERE,
    ENDED_TWICE,
    EXPIRED_EARLY,
    STRANDED,
    UNTRUE_OUTCOME,
    OUTCOME_CHANGED,
    PAID_WRONGLY,
    CONFIGURED_BY_A_STRANGER,
    LOCKED_OUT
}

/// @dev What the tests know of a message.
struct Record {
    Message message;
    /// @dev A router created it; else some GMP made it up.
    bool created;
    /// @dev The router that created it.
    uint8 source;
    bool retriable;
    bool unfunded;
    /// @dev GMPs that a payer can still have it sent over.
    uint16 waiting;
    bool cancelled;
    uint32 attempts;
}

/// @dev A bookkeeping beside the routers': from what the actions did and the events said, never from the routers' own views.
///      The rules are written down a second time here, from the documentation.
abstract contract Ghost is World {
    mapping(Rule rule => uint256 times) public violations;

    // ---- messages

    bytes32[] public ids;
    mapping(bytes32 messageId => Record) internal records;
    mapping(bytes32 messageId => bool) internal isKnown;
    /// @dev GMPs that delivered what nobody had given them, one bit each.
    mapping(bytes32 messageId => uint16 gmps) public liars;

    // ---- sending, by router

    mapping(uint8 router => uint64) public createdCount;
    mapping(uint8 router => uint32) public createdSum;
    mapping(uint8 router => mapping(address account => uint256 wei_)) public credit;
    mapping(uint8 router => uint256 wei_) public credits;
    mapping(uint8 router => uint256 wei_) public forced;
    mapping(uint8 router => mapping(address sender => address)) internal retrier;
    mapping(uint8 router => mapping(bytes32 messageId => Execution)) public outcome;

    // ---- receiving, by router

    /// @dev The epoch in which the GMP delivered, plus one.
    mapping(uint8 router => mapping(bytes32 messageId => mapping(uint8 gmp => uint256))) internal deliveredIn;
    mapping(uint8 router => mapping(bytes32 messageId => Execution)) public end;
    mapping(uint8 router => uint64) public executedCount;
    mapping(uint8 router => uint192) public executedSum;

    // ---- configuration, by router

    mapping(uint8 router => mapping(uint8 gmp => bool)) public enabled;
    mapping(uint8 router => mapping(uint8 gmp => uint256)) public epoch;
    mapping(uint8 router => mapping(uint8 gmp => uint256)) public gmpPausedUntil;
    mapping(uint8 router => uint256) public lanePausedUntil;
    mapping(uint8 router => uint8) public floor;
    mapping(uint8 router => mapping(address account => uint8)) public policyQuorum;
    mapping(uint8 router => mapping(address account => uint16)) public policyGmps;
    /// @dev The router that new messages go to, plus one.
    mapping(uint8 router => uint8) public peer;
    mapping(uint8 router => mapping(uint8 other => bool)) public isPeer;

    constructor() {
        for (uint8 r; r < ROUTERS; ++r) {
            for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
                enabled[r][gmp] = true;
            }
            peer[r] = r == 0 ? 2 : 1;
            floor[r] = 1;
            for (uint8 other; other < ROUTERS; ++other) {
                isPeer[r][other] = chainOf(other) != chainOf(r);
            }
        }
    }

    function violate(Rule rule) internal {
        ++violations[rule];
    }

    function expect(bool holds, Rule rule) internal {
        if (!holds) violate(rule);
    }

    // ---- messages

    function idsLength() external view returns (uint256) {
        return ids.length;
    }

    function record(bytes32 messageId) external view returns (Record memory) {
        return records[messageId];
    }

    function know(bytes32 messageId, Message memory message) internal {
        if (isKnown[messageId]) return;
        isKnown[messageId] = true;
        ids.push(messageId);
        records[messageId].message = message;
    }

    // ---- the rules, a second time

    function bit(uint8 gmp) internal pure returns (uint16) {
        return uint16(1) << (gmp - 1);
    }

    function sizeOf(uint16 set) internal pure returns (uint8 members) {
        for (uint8 gmp = 1; gmp <= 16; ++gmp) {
            if (set & bit(gmp) != 0) ++members;
        }
    }

    /// @dev GMPs that delivered in the epoch that is theirs now.
    function delivered(uint8 r, bytes32 messageId) public view returns (uint16 set) {
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            bool present = deliveredIn[r][messageId][gmp] == epoch[r][gmp] + 1;
            if (enabled[r][gmp] && present) set |= bit(gmp);
        }
    }

    function isPaused(uint8 r, uint8 gmp) public view returns (bool) {
        return time < gmpPausedUntil[r][gmp];
    }

    /// @dev Those of them that count now.
    function counted(uint8 r, bytes32 messageId) public view returns (uint16 set) {
        set = delivered(r, messageId);
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            if (isPaused(r, gmp)) set &= ~bit(gmp);
        }
    }

    /// @dev What must be reached now, and who counts for it.
    function demand(uint8 r, Message memory message) internal view returns (uint8 quorum, uint16 allowed) {
        bytes32 affected = message.recipient;
        if (message.kind >= Kind.CANCELLATION) {
            (Message memory original,,) = abi.decode(message.payload, (Message, bytes32, Execution));
            affected = message.kind == Kind.CANCELLATION ? original.recipient : original.sender;
        }
        address account = address(uint160(uint256(affected)));
        (quorum, allowed) = (policyQuorum[r][account], policyGmps[r][account]);
        if (quorum == 0) (quorum, allowed) = (floor[r], type(uint16).max);
    }

    /// @dev How many receipts count for the message now, and how many must: all for its quorum, those allowed for what is demanded.
    function progress(uint8 r, bytes32 messageId) internal view returns (uint8 receipts, uint8 quorum) {
        (uint8 demanded, uint16 allowed) = demand(r, records[messageId].message);
        uint8 trusted = sizeOf(counted(r, messageId) & allowed);
        (receipts, quorum) = (sizeOf(counted(r, messageId)), records[messageId].message.quorum);
        if (receipts < quorum) return (receipts, quorum);
        if (trusted < demanded) return (trusted, demanded);
        if (demanded > quorum) quorum = demanded;
    }

    /// @dev What the router says of it with a receipt: what lane and recipient demand, once the message's own quorum is there.
    function progressTold(uint8 r, bytes32 messageId) internal view returns (uint8 receipts, uint8 quorum) {
        quorum = records[messageId].message.quorum;
        receipts = sizeOf(counted(r, messageId));
        if (receipts >= quorum) return progress(r, messageId);
    }

    function isExpired(bytes32 messageId) public view returns (bool) {
        Message storage message = records[messageId].message;
        return message.ttl != 0 && time > uint256(message.sentAt) + message.ttl;
    }

    function isLaneOpen(uint8 r) internal view returns (bool) {
        return time >= lanePausedUntil[r];
    }
}
