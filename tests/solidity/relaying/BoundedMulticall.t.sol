// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {IBoundedMulticall} from "../../../contracts/interfaces/IBoundedMulticall.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {BoundedMulticall} from "../../../contracts/relaying/BoundedMulticall.sol";
import {InMemoryAdapter} from "../../../contracts/testing/InMemoryAdapter.sol";
import {InMemoryGmp} from "../../../contracts/testing/InMemoryGmp.sol";
import {WaybillFixture} from "../../../contracts/testing/WaybillFixture.sol";
import {Route} from "../../../contracts/types/Message.sol";
import {AcceptingRecipient} from "../router/doubles/Recipients.sol";
import {BurningRecipient, Callee, ReenteringCallee, UnboundedMulticall} from "./doubles/Callees.sol";

contract BoundedMulticallTest is WaybillFixture {
    using Addresses for address;

    uint256 private constant CALL_GAS = 200_000;

    /// @dev What a delivery needs in the tests' network, for a recipient's limit of 200,000.
    uint256 private constant DELIVERY_GAS = 700_000;

    BoundedMulticall private multicall;
    Callee private callee;

    function setUp() public {
        multicall = new BoundedMulticall();
        callee = new Callee();
    }

    function _call(bytes memory data) private view returns (IBoundedMulticall.Call memory) {
        return IBoundedMulticall.Call(address(callee), CALL_GAS, data);
    }

    function _calls(bytes memory first, bytes memory second)
        private
        view
        returns (IBoundedMulticall.Call[] memory all)
    {
        all = new IBoundedMulticall.Call[](2);
        (all[0], all[1]) = (_call(first), _call(second));
    }

    function testFuzz_MakesEachCallWithItsDataAndTellsWhichSucceeded(bytes[] calldata data, uint256 refused) external {
        vm.assume(data.length > 0 && data.length <= 256);
        uint256 all = type(uint256).max >> (256 - data.length);
        refused &= all;
        vm.assume(refused != all);
        IBoundedMulticall.Call[] memory calls = new IBoundedMulticall.Call[](data.length);
        for (uint256 index; index < data.length; ++index) {
            bool refuses = refused >> index & 1 == 1;
            // No selector of the callee's begins with a zero byte. It writes the data down, and longer data would take all its gas.
            bytes calldata part = data[index].length > 96 ? data[index][:96] : data[index];
            calls[index] = _call(refuses ? abi.encodeCall(Callee.refuse, ()) : bytes.concat(hex"00", part));
            if (!refuses) {
                // In their order: the last one made is what is remembered.
                vm.expectCall(address(callee), calls[index].data);
            }
        }
        vm.expectEmit(address(multicall));
        emit IBoundedMulticall.CallsMade(all & ~refused);
        assertEq(multicall.multicall(calls), all & ~refused);
    }

    function test_MakesTheCallsInTheirOrder() external {
        multicall.multicall(_calls("first", "second"));
        assertEq(callee.calls(), 2);
        assertEq(callee.lastData(), "second");
    }

    function testFuzz_GivesACallExactlyItsGasOrUndoesEverything(uint256 given) external {
        given = bound(given, 100_000, 700_000);
        IBoundedMulticall.Call[] memory calls = _calls(abi.encodeCall(Callee.burn, ()), "second");
        try multicall.multicall{gas: given}(calls) {
            // The callee's own entry costs it a little before it looks.
            assertLe(callee.gasReceived(), CALL_GAS);
            assertGt(callee.gasReceived(), CALL_GAS - 1_000);
        } catch {
            assertEq(callee.calls(), 0);
            assertLt(given, 2 * CALL_GAS + 40_000, "that was enough for both");
        }
    }

    function test_Revert_When_WhatIsLeftIsTooLittleForALaterCall() external {
        IBoundedMulticall.Call[] memory calls = _calls("first", "second");
        calls[1].gasLimit = type(uint256).max;
        vm.expectPartialRevert(IBoundedMulticall.InsufficientCallGas.selector);
        multicall.multicall(calls);
        assertEq(callee.calls(), 0);
    }

    function test_Revert_When_LessIsLeftThanReachingTheCalleeTakes() external {
        IBoundedMulticall.Call[] memory calls = _calls("first", "second");
        calls[0] = IBoundedMulticall.Call(address(callee), 1_000, abi.encodeCall(Callee.burn, ()));
        vm.expectPartialRevert(IBoundedMulticall.InsufficientCallGas.selector);
        multicall.multicall{gas: 8_000}(calls);
    }

    function test_Revert_When_EveryCallReverts() external {
        IBoundedMulticall.Call[] memory calls =
            _calls(abi.encodeCall(Callee.refuse, ()), abi.encodeCall(Callee.burn, ()));
        vm.expectRevert(IBoundedMulticall.NoCallSucceeded.selector);
        multicall.multicall(calls);
    }

    function test_Revert_When_ThereIsNoCall() external {
        vm.expectRevert(IBoundedMulticall.NoCallSucceeded.selector);
        multicall.multicall(new IBoundedMulticall.Call[](0));
    }

    function test_Revert_When_ThereAreMoreCallsThanBits() external {
        vm.expectRevert(abi.encodeWithSelector(IBoundedMulticall.TooManyCalls.selector, 257));
        multicall.multicall(new IBoundedMulticall.Call[](257));
    }

    function testFuzz_AMegabyteOfAnswerCostsNoMoreThanTheCallsOwnGas(bool reverts) external {
        IBoundedMulticall.Call[] memory calls =
            _calls(abi.encodeCall(Callee.bomb, (1 << 20, reverts)), abi.encodeWithSignature("later()"));
        calls[0].gasLimit = 3_000_000; // what memory of that size costs
        uint256 before = gasleft();
        assertEq(multicall.multicall(calls), reverts ? 2 : 3);
        assertLt(before - gasleft(), 3_000_000 + CALL_GAS, "the answer was copied");
        assertEq(callee.calls(), 1);
    }

    function test_ACalleeThatCallsItAgainIsToldOfBeforeTheOutermostCalls() external {
        ReenteringCallee reentering = new ReenteringCallee(multicall, callee);
        IBoundedMulticall.Call[] memory calls = _calls("", "last");
        calls[0] = IBoundedMulticall.Call(address(reentering), 500_000, "");
        vm.recordLogs();
        assertEq(multicall.multicall(calls), 3);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 2);
        assertEq(abi.decode(logs[0].data, (uint256)), 2);
        assertEq(abi.decode(logs[1].data, (uint256)), 3);
        assertEq(callee.calls(), 2);
    }

    function testFuzz_RefusesEther(uint96 amount) external {
        vm.assume(amount > 0);
        vm.deal(address(this), amount);
        (bool received,) = address(multicall).call{value: amount}("");
        assertFalse(received);
        bytes memory data = abi.encodeCall(IBoundedMulticall.multicall, (_calls("first", "second")));
        (received,) = address(multicall).call{value: amount}(data);
        assertFalse(received);
    }

    function test_ADeliveryThatBurnsItsGasDoesNotDeferTheNext() external {
        assertTrue(_nextIsExecuted(multicall));
    }

    function test_WithoutBoundsADeliveryThatBurnsItsGasDefersTheNext() external {
        assertFalse(_nextIsExecuted(new UnboundedMulticall()));
    }

    /// @dev Delivers a message to a recipient that burns what it gets, and another one behind it, with gas for both.
    ///      One receipt is enough, so that each delivery calls its recipient.
    function _nextIsExecuted(IBoundedMulticall through) private returns (bool) {
        setUpWaybill();
        vm.prank(waybillOwner);
        destinationRouter.setFloor(SOURCE_CHAIN, 1);
        IBoundedMulticall.Call[] memory calls = new IBoundedMulticall.Call[](2);
        (, calls[0]) = _delivery(address(new BurningRecipient()));
        bytes32 next;
        AcceptingRecipient recipient = new AcceptingRecipient();
        (next, calls[1]) = _delivery(address(recipient));
        onDestination();
        through.multicall{gas: 2 * DELIVERY_GAS + 50_000}(calls);
        onSource();
        return recipient.timesReceived(next) == 1;
    }

    function _delivery(address recipient) private returns (bytes32 id, IBoundedMulticall.Call memory) {
        Route memory request;
        request.destinationChain = DESTINATION_CHAIN;
        request.recipient = recipient.toBytes32();
        request.gasLimit = 200_000;
        request.quorum = 1;
        request.gmps = quoted(HYPERLANE);
        request.refundTo = address(this);
        id = sourceRouter.route(request);
        InMemoryGmp gmp = InMemoryAdapter(sourceRouter.adapterOf(HYPERLANE)).gmp();
        InMemoryGmp.Parcel memory parcel = gmp.parcel(gmp.count() - 1);
        bytes memory data =
            abi.encodeCall(InMemoryGmp.deliver, (parcel.sourceChain, parcel.sender, parcel.recipient, parcel.body));
        return (id, IBoundedMulticall.Call(address(gmp), DELIVERY_GAS, data));
    }
}
