// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {InMemoryGmp} from "../../../contracts/testing/InMemoryGmp.sol";
import {MessageEncoding} from "../../../contracts/types/Message.sol";
import {Campaign} from "./Campaign.sol";
import {Record, Rule} from "./Ghost.sol";

/// @dev What holds of ids, retries and dispatches, whatever happens in whatever order. docs/INVARIANTS.md names each by its id.
contract SendingInvariants is Campaign {
    /// @dev Neither a quote nor a stranger's moment keeps a GMP from a message that somebody pays for.
    function invariant_NobodyIsLockedOutOfAMessageThatWaits() public view {
        none(Rule.LOCKED_OUT);
    }

    function invariant_NoCallbackOfAGmpEntersTheRouter() public view {
        for (uint8 index; index < handler.GMPS(); ++index) {
            assertEq(handler.networks(index).intrusions(), 0);
        }
    }

    using Addresses for address;

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
            (uint64 count, uint32 sum) = router(r).sentTo(handler.chainBeyond(r));
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
                bytes32 messageId = MessageEncoding.statedId(handler.networks(gmp).parcel(index - 1).body);
                assertFalse(handler.record(messageId).unfunded, "carried before it was paid for");
            }
        }
    }

    /// @dev Also after the peer or the adapters changed: a message belongs to the router that its id names.
    function invariant_GmpsGetOnlyWhatARouterCreatedForTheRouterItIsFor() public view {
        for (uint8 gmp; gmp < GMPS; ++gmp) {
            for (uint256 index = handler.networks(gmp).count(); index > 0; --index) {
                InMemoryGmp.Parcel memory parcel = handler.networks(gmp).parcel(index - 1);
                Record memory entry = handler.record(MessageEncoding.statedId(parcel.body));
                assertTrue(entry.created, "carries what no router created");
                address destination = IAdapter(address(uint160(uint256(parcel.recipient)))).router();
                assertEq(destination.toBytes32(), entry.message.destinationRouter);
            }
        }
    }

    function invariant_SoundRoutesAreTaken() public view {
        none(Rule.REFUSED_A_SOUND_ROUTE);
    }
}
