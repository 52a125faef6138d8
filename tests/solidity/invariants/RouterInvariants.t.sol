// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {IGmpRegistry} from "../../../contracts/interfaces/IGmpRegistry.sol";
import {ILedger} from "../../../contracts/interfaces/ILedger.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {IRouterMessages} from "../../../contracts/interfaces/IRouterMessages.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {InMemoryGmp} from "../../../contracts/testing/InMemoryGmp.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageLibrary} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/Receipts.sol";
import {Record, Rule} from "./Ghost.sol";
import {Handler} from "./Handler.sol";
import {FickleRecipient} from "./doubles/FickleRecipient.sol";

/// @dev What holds whatever senders, GMPs, recipients and owners do, in whatever order. docs/INVARIANTS.md names each by its id.
contract RouterInvariants is Test {
    using Addresses for address;

    uint8 private constant ROUTERS = 3;
    uint8 private constant GMPS = 4;

    Handler private handler;
    bytes4[] private selectors;
    Handler[] private lives;
    string private missing;

    function setUp() public {
        handler = new Handler();
        targetContract(address(handler));
        selectors = [
            handler.route.selector,
            handler.route.selector,
            handler.route.selector,
            handler.sendThroughGateway.selector,
            handler.retry.selector,
            handler.dispatch.selector,
            handler.cancel.selector,
            handler.report.selector,
            handler.appointRetrier.selector,
            handler.withdraw.selector,
            handler.withdraw.selector,
            handler.changeAccountsMood.selector,
            handler.changeAccountsMood.selector,
            handler.forceEther.selector,
            handler.deliver.selector,
            handler.deliverEverywhere.selector,
            handler.deliverEverywhere.selector,
            handler.deliverEverywhere.selector,
            handler.deliverWithLittleGas.selector,
            handler.breakGmp.selector,
            handler.breakGmp.selector,
            handler.breakGmp.selector,
            handler.lieInventing.selector,
            handler.lieAltering.selector,
            handler.lieUnderTheTrueId.selector,
            handler.lieRepeating.selector,
            handler.lieAboutAnEnd.selector,
            handler.execute.selector,
            handler.expire.selector,
            handler.changeRecipientsMood.selector,
            handler.makeRecipientCallBack.selector,
            handler.replaceAdapter.selector,
            handler.revokeAdapter.selector,
            handler.addAdapter.selector,
            handler.pauseGmp.selector,
            handler.endGmpPause.selector,
            handler.pauseLane.selector,
            handler.endLanePause.selector,
            handler.changePeer.selector,
            handler.revokePeer.selector,
            handler.setFloor.selector,
            handler.setPolicy.selector,
            handler.configureAsAStranger.selector,
            handler.warp.selector
        ];
        targetSelector(FuzzSelector(address(handler), selectors));
    }

    /// @dev The invariants would hold in a world where nothing happens. In this one, everything does.
    function test_TheActionsReachEveryState() public {
        uint256 seed = 7;
        for (uint256 step; step < 2_100; ++step) {
            // What has happened lately counts most, so many short lives show more than one long one.
            if (step % 150 == 0) lives.push(new Handler());
            seed = uint256(keccak256(abi.encode(seed)));
            bytes4 selector = selectors[seed % selectors.length];
            // Seconds and gas are large numbers, all else may be small.
            bool isLarge = selector == handler.warp.selector || selector == handler.deliverWithLittleGas.selector;
            uint256 unit = isLarge ? 100_003 : 1;
            bytes memory arguments =
                abi.encode(small(seed, 16) * unit, small(seed, 48) * unit, small(seed, 80) * unit, small(seed, 112));
            (bool success,) = address(lives[lives.length - 1]).call(abi.encodePacked(selector, arguments));
            assertTrue(success, "an action failed");
        }
        reached(IMessageSender.MessageRetried.selector, "retried");
        reached(IMessageSender.MessageUnfunded.selector, "unfunded");
        reached(IMessageSender.DispatchFailed.selector, "a GMP took nothing");
        reached(IMessageSender.Credited.selector, "credited");
        reached(ILedger.Withdrawn.selector, "withdrawn");
        reached(IAdapter.DuplicateAbsorbed.selector, "duplicate absorbed");
        reached(IMessageReceiver.MessageExecuted.selector, "executed");
        reached(IMessageReceiver.ExecutionFailed.selector, "recipient refused");
        reached(IMessageReceiver.MessageExpired.selector, "expired");
        reached(IMessageReceiver.ArrivedAfterEnd.selector, "arrived after the end");
        reached(IRouterMessages.MessageCancelled.selector, "cancelled");
        reached(IRouterMessages.OutcomeReported.selector, "reported");
        reached(IGmpRegistry.AdapterRevoked.selector, "revoked");
        reached(FickleRecipient.CalledBack.selector, "called back");
        assertEq(missing, "", "never seen");
    }

    // ---- messages and their ids

    function invariant_EveryIdIsNew() public view {
        none(Rule.ID_REUSED);
    }

    function invariant_NoncesHaveNoGaps() public view {
        none(Rule.NONCE_SKIPPED);
    }

    function invariant_AnIdIsTheHashOfWhatTheEventCarries() public view {
        none(Rule.ID_IS_NOT_THE_CONTENTS);
    }

    function invariant_TheLaneTotalOfTheSourceIsTheSumOfItsEvents() public view {
        for (uint8 r; r < ROUTERS; ++r) {
            (uint64 count, uint192 sum) = router(r).sentTo(handler.chainBeyond(r));
            assertEq(count, handler.createdCount(r));
            assertEq(sum, handler.createdSum(r));
        }
    }

    function invariant_TheLaneTotalOfTheDestinationIsTheSumOfItsEvents() public view {
        for (uint8 r; r < ROUTERS; ++r) {
            (uint64 count, uint192 sum) = router(r).executedFrom(handler.chainBeyond(r));
            assertEq(count, handler.executedCount(r));
            assertEq(sum, handler.executedSum(r));
        }
    }

    // ---- who may send again

    function invariant_OnlyTheSenderOrItsRetrierRetries() public view {
        none(Rule.RETRIED_BY_ANOTHER);
        none(Rule.CANCELLED_BY_ANOTHER);
    }

    function invariant_WhatMayNotBeRetriedIsNot() public view {
        none(Rule.RETRIED_WHAT_MAY_NOT_BE);
    }

    function invariant_AttemptsAreNumberedAsTheyAreMade() public view {
        none(Rule.ATTEMPT_MISNUMBERED);
        for (uint256 index; index < handler.idsLength(); ++index) {
            Record memory entry = handler.record(handler.ids(index));
            if (!entry.created) continue;
            (, uint32 attempts) = router(entry.source).sentMessage(handler.ids(index));
            assertEq(attempts, entry.attempts);
        }
    }

    function invariant_AnUnfundedMessageIsInNobodysHandsBeforeItsDispatch() public view {
        none(Rule.DISPATCHED_WHAT_WAS_NOT_WAITING);
        for (uint8 gmp; gmp < GMPS; ++gmp) {
            for (uint256 index = handler.networks(gmp).count(); index > 0; --index) {
                bytes32 messageId = MessageLibrary.statedId(handler.networks(gmp).parcel(index - 1).body);
                assertFalse(handler.record(messageId).unfunded, "carried before it was paid for");
            }
        }
    }

    /// @dev Also after the peer or the adapters changed: a message belongs to the router that its id names.
    function invariant_GmpsGetOnlyWhatARouterCreatedForTheRouterItIsFor() public view {
        for (uint8 gmp; gmp < GMPS; ++gmp) {
            for (uint256 index = handler.networks(gmp).count(); index > 0; --index) {
                InMemoryGmp.Parcel memory parcel = handler.networks(gmp).parcel(index - 1);
                Record memory entry = handler.record(MessageLibrary.statedId(parcel.body));
                assertTrue(entry.created, "carries what no router created");
                IRouter destination = IAdapterOfRouter(address(uint160(uint256(parcel.recipient)))).router();
                assertEq(address(destination).toBytes32(), entry.message.destinationRouter);
            }
        }
    }

    function invariant_SoundRoutesAreTaken() public view {
        none(Rule.REFUSED_A_SOUND_ROUTE);
    }

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

    function invariant_TheClockStandsStillExactlyDuringPauses() public {
        for (uint8 r; r < ROUTERS; ++r) {
            handler.visit(r);
            for (uint256 index; index < handler.idsLength(); ++index) {
                Message memory message = handler.record(handler.ids(index)).message;
                bool expected = handler.isExpired(r, handler.ids(index));
                assertEq(router(r).isExpired(handler.chainBeyond(r), message.sentAt, message.ttl), expected);
            }
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

    // ---- money

    function invariant_ARoutersBalanceIsTheSumOfItsCredits() public view {
        none(Rule.PAID_WRONGLY);
        for (uint8 r; r < ROUTERS; ++r) {
            assertEq(address(router(r)).balance, handler.credits(r) + handler.forced(r));
        }
    }

    function invariant_CreditsAreWhatCouldNotBePaidOut() public view {
        for (uint8 r; r < ROUTERS; ++r) {
            for (uint8 index; index < handler.ACCOUNTS(); ++index) {
                address account = address(handler.accounts(index));
                assertEq(router(r).creditOf(account), handler.credit(r, account));
            }
        }
    }

    function invariant_AdaptersHoldNothing() public view {
        for (uint256 index; index < handler.adaptersLength(); ++index) {
            assertEq(address(handler.adapters(index)).balance, 0);
        }
    }

    function invariant_NoMoneyIsMadeOrLost() public view {
        uint256 sum;
        uint256 given = handler.ACCOUNTS() * handler.WEALTH();
        for (uint8 r; r < ROUTERS; ++r) {
            sum += address(router(r)).balance;
            given += handler.forced(r);
        }
        for (uint8 index; index < handler.ACCOUNTS(); ++index) {
            sum += address(handler.accounts(index)).balance;
        }
        for (uint8 gmp; gmp < GMPS; ++gmp) {
            sum += address(handler.networks(gmp)).balance;
        }
        assertEq(sum, given);
    }

    // ---- configuration

    function invariant_OnlyTheOwnerConfigures() public view {
        none(Rule.CONFIGURED_BY_A_STRANGER);
        for (uint8 r; r < ROUTERS; ++r) {
            uint64 chain = handler.chainBeyond(r);
            uint8 peer = handler.peer(r);
            assertEq(router(r).peerOf(chain), peer == 0 ? bytes32(0) : address(router(peer - 1)).toBytes32());
            assertEq(router(r).floorOf(chain), handler.floor(r));
            assertEq(router(r).lanePausedUntil(chain), handler.lanePausedUntil(r));
            for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
                assertEq(router(r).adapterOf(Gmp.wrap(gmp)), handler.currentAdapter(r, gmp));
                assertEq(router(r).gmpPausedUntil(Gmp.wrap(gmp)), handler.gmpPausedUntil(r, gmp));
            }
        }
    }

    function invariant_EpochsGrowWithRevocationsAlone() public view {
        for (uint8 r; r < ROUTERS; ++r) {
            for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
                assertEq(router(r).epochOf(Gmp.wrap(gmp)), handler.epoch(r, gmp));
            }
        }
    }

    // ---- how

    function router(uint8 r) private view returns (IRouter) {
        return handler.routers(r);
    }

    function none(Rule rule) private view {
        assertEq(handler.violations(rule), 0);
    }

    function reached(bytes32 topic, string memory what) private {
        uint256 times;
        for (uint256 index; index < lives.length; ++index) {
            times += lives[index].seen(topic);
        }
        if (times == 0) missing = string.concat(missing, what, "; ");
    }

    /// @dev Some bits of the seed, few enough for every type of argument.
    function small(uint256 seed, uint8 shift) private pure returns (uint256) {
        return (seed >> shift) % 128;
    }

    function timesAccepted(bytes32 messageId) private view returns (uint256 times) {
        for (uint8 index; index < handler.RECIPIENTS(); ++index) {
            times += FickleRecipient(address(handler.recipients(index))).timesAccepted(messageId);
        }
    }
}

interface IAdapterOfRouter {
    function router() external view returns (IRouter);
}
