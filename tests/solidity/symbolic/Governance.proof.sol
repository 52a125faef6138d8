// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRouterViews} from "../../../contracts/interfaces/IRouterViews.sol";
import {IPauses} from "../../../contracts/interfaces/IPauses.sol";
import {IRecipientPolicy} from "../../../contracts/interfaces/IRecipientPolicy.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterWorld} from "./RouterWorld.sol";
import {UncheckedRouter} from "./UncheckedRouter.sol";

/// @dev What roles may do and what holds whoever calls.
contract GovernanceProofs is RouterWorld {
    function newRouter() internal override returns (address) {
        return address(new UncheckedRouter(OWNER));
    }

    function check_NoPauseIsLongerThanTheLongest(address caller, uint48 until) public {
        _assertPausesBounded(IPauses.pauseLane.selector, caller, until);
    }

    function control_NoPauseIsLongerThanTheLongest(address caller, uint48 until) public {
        _assertPausesBounded(UncheckedRouter.pauseUnchecked.selector, caller, until);
    }

    function check_TheGuardianCannotChainPauses(uint48 firstEnd, uint48 time, uint48 secondEnd) public {
        _assertNotChained(GUARDIAN, firstEnd, time, secondEnd);
    }

    function control_TheGuardianCannotChainPauses(uint48 firstEnd, uint48 time, uint48 secondEnd) public {
        _assertNotChained(OWNER, firstEnd, time, secondEnd);
    }

    function check_TheTripwirePausesNoLongerThanItMay(uint48 until) public {
        vm.prank(TRIPWIRE);
        (bool success,) = address(router).call(abi.encodeCall(IPauses.pauseGmp, (Gmp.wrap(1), until)));
        if (success) assert(until <= block.timestamp + router.MAX_TRIPWIRE_PAUSE());
    }

    function control_TheTripwirePausesNoLongerThanItMay(uint48 until) public {
        vm.prank(GUARDIAN);
        (bool success,) = address(router).call(abi.encodeCall(IPauses.pauseGmp, (Gmp.wrap(1), until)));
        if (success) assert(until <= block.timestamp + router.MAX_TRIPWIRE_PAUSE());
    }

    function check_TheTripwireEndsNoPauseSooner(address other, uint48 first, uint48 time, uint48 second) public {
        vm.assume(other == OWNER || other == GUARDIAN);
        _assertNotSooner(TRIPWIRE, other, first, time, second);
    }

    function control_TheTripwireEndsNoPauseSooner(address other, uint48 first, uint48 time, uint48 second) public {
        vm.assume(other == OWNER || other == GUARDIAN);
        _assertNotSooner(OWNER, other, first, time, second);
    }

    function check_OnlyTheOwnerLowersAFloor(address caller, uint8 floor) public {
        if (_floorAfter(caller, floor) < 2) assert(caller == OWNER);
    }

    function control_OnlyTheOwnerLowersAFloor(address caller, uint8 floor) public {
        if (_floorAfter(caller, floor) != 2) assert(caller == OWNER);
    }

    function check_WithdrawalsPayNoMoreThanTheCredit(uint96 mine, uint96 others, address account) public {
        _assertPaidOnce(IRouterViews.withdraw.selector, mine, others, account);
    }

    function control_WithdrawalsPayNoMoreThanTheCredit(uint96 mine, uint96 others, address account) public {
        _assertPaidOnce(UncheckedRouter.withdrawUnchecked.selector, mine, others, account);
    }

    function check_AnEndedMessageStaysAsItEnded(uint8 state, uint8 action, uint48 time) public {
        vm.assume(state >= uint8(Execution.EXECUTED));
        _assertStays(state, action, time);
    }

    function control_AnEndedMessageStaysAsItEnded(uint8 state, uint8 action, uint48 time) public {
        _assertStays(state, action, time);
    }

    /// @dev Of the lane by the selector given, and of a GMP.
    function _assertPausesBounded(bytes4 pauseLane, address caller, uint48 until) private {
        vm.startPrank(caller);
        (bool ignored,) = address(router).call(abi.encodeWithSelector(pauseLane, THERE, until));
        (ignored,) = address(router).call(abi.encodeCall(IPauses.pauseGmp, (Gmp.wrap(1), until)));
        vm.stopPrank();
        uint256 latest = block.timestamp + router.MAX_PAUSE();
        assert(router.lanePausedUntil(THERE) <= latest && router.gmpPausedUntil(Gmp.wrap(1)) <= latest);
    }

    function _assertNotChained(address second, uint48 firstEnd, uint48 time, uint48 secondEnd) private {
        uint256 start = block.timestamp;
        vm.prank(GUARDIAN);
        router.pauseLane(THERE, firstEnd);
        vm.assume(time >= start);
        vm.warp(time);
        vm.prank(second);
        (bool success,) = address(router).call(abi.encodeCall(IPauses.pauseLane, (THERE, secondEnd)));
        uint256 most = router.MAX_PAUSE();
        if (success) assert(secondEnd <= start + most || time >= start + 2 * most);
    }

    function _assertNotSooner(address caller, address other, uint48 first, uint48 time, uint48 second) private {
        uint256 start = block.timestamp;
        vm.prank(other);
        router.pauseGmp(Gmp.wrap(1), first);
        vm.assume(time >= start && time < first);
        vm.warp(time);
        vm.prank(caller);
        (bool ignored,) = address(router).call(abi.encodeCall(IPauses.pauseGmp, (Gmp.wrap(1), second)));
        ignored;
        assert(router.gmpPausedUntil(Gmp.wrap(1)) >= first);
    }

    function _floorAfter(address caller, uint8 floor) private returns (uint8) {
        vm.prank(OWNER);
        router.setFloor(THERE, 2);
        vm.prank(caller);
        (bool success,) = address(router).call(abi.encodeCall(IRecipientPolicy.setFloor, (THERE, floor)));
        vm.assume(success);
        return router.floorOf(THERE);
    }

    function _assertPaidOnce(bytes4 selector, uint96 mine, uint96 others, address account) private {
        address to = address(0xB0B);
        vm.assume(account != OWNER && account != to && account != address(router));
        vm.deal(address(this), uint256(mine) + others);
        UncheckedRouter(payable(address(router))).credit{value: mine}(account);
        UncheckedRouter(payable(address(router))).credit{value: others}(OWNER);
        for (uint256 round; round < 2; ++round) {
            vm.prank(account);
            (bool ignored,) = address(router).call(abi.encodeWithSelector(selector, to));
            ignored;
        }
        assert(to.balance <= mine);
        assert(address(router).balance >= others && router.creditOf(OWNER) == others);
    }

    function _assertStays(uint8 state, uint8 action, uint48 time) private {
        Message memory message = arriving(1);
        bytes32 messageId = MessageEncoding.id(message);
        UncheckedRouter(payable(address(router))).endUnchecked(messageId, Execution(state));
        vm.warp(time);
        if (action < GMPS) tryDeliver(Gmp.wrap(action + 1), message);
        else if (action == GMPS) _try(abi.encodeCall(router.execute, (message)));
        else _try(abi.encodeCall(router.expire, (message)));
        assert(uint8(executionOf(messageId)) == state);
    }

    function _try(bytes memory data) private {
        (bool ignored,) = address(router).call(data);
        ignored;
    }
}
