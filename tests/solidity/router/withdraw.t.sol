// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IGmpRegistry} from "../../../contracts/interfaces/IGmpRegistry.sol";
import {IRouterViews} from "../../../contracts/interfaces/IRouterViews.sol";
import {Route} from "../../../contracts/types/Message.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {FailingAdapter} from "./doubles/Adapters.sol";
import {ReentrantRefundee, RefusingRefundee} from "./doubles/Refundees.sol";

contract WithdrawTest is RouterFixture {
    uint256 internal constant CREDIT = 3 ether;

    RefusingRefundee internal refusing;

    /// @dev Two refundees that refuse money have credit after a GMP failed.
    function setUp() public override {
        super.setUp();
        refusing = new RefusingRefundee();
        FailingAdapter down = new FailingAdapter();
        vm.prank(owner);
        source.replaceAdapter(HYPERLANE, address(down));
        credit(address(refusing), CREDIT);
        credit(address(new RefusingRefundee()), 1 ether);
    }

    function credit(address account, uint256 amount) internal {
        Route memory request = usualRoute(2, 1);
        request.gmps[0].fee = amount;
        request.refundTo = account;
        send(request);
    }

    function testFuzz_Revert_When_TheCallerHasNoCredit(address caller) public {
        vm.assume(source.creditOf(caller) == 0);
        vm.expectRevert(abi.encodeWithSelector(IRouterViews.NothingToWithdraw.selector, caller));
        vm.prank(caller);
        source.withdraw(refundee);
    }

    function test_Revert_When_TheAddressToPayIsZero() public {
        vm.expectRevert(IGmpRegistry.ZeroAddress.selector);
        refusing.withdraw(source, payable(0));
    }

    function test_Revert_When_TheAddressRefusesAndTheCreditStays() public {
        vm.expectRevert(abi.encodeWithSelector(IRouterViews.TransferFailed.selector, refusing, CREDIT));
        refusing.withdraw(source, payable(address(refusing)));
        assertEq(source.creditOf(address(refusing)), CREDIT);
    }

    function testFuzz_PaysAllOfTheCallersCreditOnceAndNobodyElses(uint64 more) public {
        credit(address(refusing), more);
        uint256 amount = CREDIT + more;
        vm.expectEmit(address(source));
        emit IRouterViews.Withdrawn(address(refusing), refundee, amount);
        refusing.withdraw(source, refundee);
        assertEq(refundee.balance, amount);
        assertEq(source.creditOf(address(refusing)), 0);
        assertEq(address(source).balance, 1 ether);
        vm.expectRevert(abi.encodeWithSelector(IRouterViews.NothingToWithdraw.selector, refusing));
        refusing.withdraw(source, refundee);
    }

    function test_APayeeThatCallsBackGetsNothingMore() public {
        // So that a second payment would not fail for lack of other people's money.
        credit(address(new RefusingRefundee()), 2 * CREDIT);
        ReentrantRefundee greedy = new ReentrantRefundee();
        greedy.reenterWith(address(refusing), abi.encodeCall(refusing.withdraw, (source, payable(address(greedy)))));
        refusing.withdraw(source, payable(address(greedy)));
        assertEq(address(greedy).balance, CREDIT);
        assertFalse(greedy.reentered());
    }

    /// @dev Ether that is forced in belongs to nobody and changes no credit.
    function testFuzz_ForcedEtherChangesNoCredit(uint96 forced) public {
        vm.deal(address(source), address(source).balance + forced);
        refusing.withdraw(source, refundee);
        assertEq(refundee.balance, CREDIT);
        assertEq(address(source).balance, 1 ether + uint256(forced));
    }
}
