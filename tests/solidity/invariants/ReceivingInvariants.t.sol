// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {Campaign} from "./Campaign.sol";
import {Record, Rule} from "./Ghost.sol";
import {FickleRecipient} from "./doubles/FickleRecipient.sol";

/// @dev What holds of receipts, executions and ends, whatever happens in whatever order. docs/INVARIANTS.md names each by its id.
contract ReceivingInvariants is Campaign {
    // ---- receipts

    function invariant_ReceiptsAreTheDistinctGmpsThatDeliveredInTheirPresentEpoch() public {
        none(Rule.RECEIPTS_MISCOUNTED);
        for (uint8 r; r < ROUTERS; ++r) {
            handler.visit(r);
            for (uint256 index; index < handler.idsLength(); ++index) {
                bytes32 messageId = handler.ids(index);
                (GmpSet valid,) = router(r).receiptsOf(messageId);
                assertEq(GmpSet.unwrap(valid), handler.counted(r, messageId));
            }
        }
    }

    function invariant_ADuplicateIsKnownByItsReceipt() public view {
        none(Rule.RECEIPT_COUNTED_TWICE);
        for (uint256 index; index < handler.idsLength(); ++index) {
            bytes32 messageId = handler.ids(index);
            for (uint8 r; r < ROUTERS; ++r) {
                for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
                    bool expected = handler.delivered(r, messageId) & (uint16(1) << (gmp - 1)) != 0;
                    assertEq(router(r).hasReceived(messageId, Gmp.wrap(gmp)), expected);
                }
            }
        }
    }

    function invariant_NoReceiptComesFromNowhere() public view {
        none(Rule.RECEIPT_FROM_NOWHERE);
    }

    function invariant_NoReceiptIsLost() public view {
        none(Rule.RECEIPT_LOST);
    }

    function invariant_NothingIsCountedDuringAPause() public view {
        none(Rule.COUNTED_WHILE_PAUSED);
    }

    function invariant_AlteredContentIsRefused() public view {
        none(Rule.ALTERED_CONTENT_ACCEPTED);
    }

    function invariant_SoundDeliveriesAreTaken() public view {
        none(Rule.REFUSED_A_SOUND_DELIVERY);
    }

    // ---- execution

    function invariant_AMessageIsExecutedAtMostOnceOverAllRouters() public view {
        none(Rule.ENDED_TWICE);
        for (uint256 index; index < handler.idsLength(); ++index) {
            bytes32 messageId = handler.ids(index);
            uint256 executions;
            for (uint8 r; r < ROUTERS; ++r) {
                if (handler.end(r, messageId) == Execution.EXECUTED) ++executions;
            }
            assertLe(executions, 1);
            if (handler.record(messageId).message.kind < Kind.CANCELLATION) {
                assertEq(timesAccepted(messageId), executions, "calls that the recipient accepted");
            }
        }
    }

    function invariant_NothingExecutesBelowTheEffectiveQuorum() public view {
        none(Rule.EXECUTED_BELOW_THE_QUORUM);
    }

    /// @dev As many GMPs must have lied as the message itself asks for, whatever else is configured.
    function invariant_WhatNobodySentExecutesOnlyByAQuorumOfLiars() public view {
        for (uint256 index; index < handler.idsLength(); ++index) {
            Record memory entry = handler.record(handler.ids(index));
            if (entry.created) continue;
            for (uint8 r; r < ROUTERS; ++r) {
                if (handler.end(r, handler.ids(index)) != Execution.EXECUTED) continue;
                assertGe(GmpSet.wrap(handler.liars(handler.ids(index))).count(), entry.message.quorum);
            }
        }
    }

    function invariant_NothingExecutesAfterItsTime() public view {
        none(Rule.EXECUTED_AFTER_ITS_TIME);
        none(Rule.EXPIRED_EARLY);
    }

    function invariant_NothingExecutesAtAnotherRouterThanItsOwn() public view {
        none(Rule.EXECUTED_ELSEWHERE);
    }

    /// @dev Executed, expired, cancelled: none of them is ever left, a cancellation that came first included.
    function invariant_EndsAreFinal() public view {
        none(Rule.ENDED_TWICE);
        for (uint256 index; index < handler.idsLength(); ++index) {
            bytes32 messageId = handler.ids(index);
            for (uint8 r; r < ROUTERS; ++r) {
                (, Execution state) = router(r).receiptsOf(messageId);
                assertEq(uint8(state), uint8(handler.end(r, messageId)));
            }
        }
    }

    function invariant_WhatHasItsQuorumAndAWillingRecipientExecutes() public view {
        none(Rule.STRANDED);
    }

    function invariant_NoRecipientReentersTheReceivingHalf() public view {
        for (uint8 index; index < handler.RECIPIENTS(); ++index) {
            assertEq(handler.recipients(index).intrusions(), 0);
        }
    }

    function invariant_NothingIsExecutingBetweenCalls() public view {
        for (uint8 r; r < ROUTERS; ++r) {
            (bytes32 messageId, Kind kind, uint64 nonce, bytes32 replaces) = router(r).executing();
            assertEq(abi.encode(messageId, kind, nonce, replaces), new bytes(128));
        }
    }

    // ---- outcomes

    function invariant_OutcomesAreTrueUnlessGmpsLied() public view {
        none(Rule.UNTRUE_OUTCOME);
    }

    function invariant_AnOutcomeOnceReportedStays() public view {
        none(Rule.OUTCOME_CHANGED);
        for (uint256 index; index < handler.idsLength(); ++index) {
            for (uint8 r; r < ROUTERS; ++r) {
                Execution found = router(r).outcomeOf(handler.ids(index));
                assertEq(uint8(found), uint8(handler.outcome(r, handler.ids(index))));
            }
        }
    }

    function timesAccepted(bytes32 messageId) private view returns (uint256 times) {
        for (uint8 index; index < handler.RECIPIENTS(); ++index) {
            times += FickleRecipient(address(handler.recipients(index))).timesAccepted(messageId);
        }
    }
}
