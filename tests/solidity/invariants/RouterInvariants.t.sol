// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {IGmpRegistry} from "../../../contracts/interfaces/IGmpRegistry.sol";
import {IRouterViews} from "../../../contracts/interfaces/IRouterViews.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouterMessages} from "../../../contracts/interfaces/IRouterMessages.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {Campaign} from "./Campaign.sol";
import {Rule} from "./Ghost.sol";
import {Handler} from "./Handler.sol";
import {FickleRecipient} from "./doubles/FickleRecipient.sol";

/// @dev What holds of money and configuration, whatever happens in whatever order, and that everything does happen.
contract RouterInvariants is Campaign {
    using Addresses for address;

    Handler[] private lives;
    string private missing;

    /// @dev The invariants would hold in a world where nothing happens. In this one, everything does.
    function test_TheActionsReachEveryState() public {
        uint256 seed = 1;
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
        reached(IRouterViews.Withdrawn.selector, "withdrawn");
        reached(IAdapter.DuplicateAbsorbed.selector, "duplicate absorbed");
        reached(IMessageReceiver.MessageExecuted.selector, "executed");
        reached(IMessageReceiver.ExecutionFailed.selector, "recipient refused");
        reached(IMessageReceiver.MessageExpired.selector, "expired");
        reached(IMessageReceiver.LateReceipt.selector, "late receipt");
        reached(IRouterMessages.MessageCancelled.selector, "cancelled");
        reached(IRouterMessages.OutcomeReported.selector, "reported");
        reached(IGmpRegistry.AdapterRevoked.selector, "revoked");
        reached(FickleRecipient.CalledBack.selector, "called back");
        assertEq(missing, "", "never seen");
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
}
