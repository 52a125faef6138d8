// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRelayerVault} from "../../../contracts/interfaces/IRelayerVault.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {RelayerVault} from "../../../contracts/relaying/RelayerVault.sol";
import {WaybillFixture} from "../../../contracts/testing/WaybillFixture.sol";
import {Gmp, InvalidGmp} from "../../../contracts/types/Gmp.sol";
import {BurningPayer, GreedyPayer} from "./doubles/Payers.sol";

contract RelayerVaultTest is WaybillFixture {
    bytes32 private constant ID = keccak256("message");
    uint56 private constant GAS_PRICE = 2 gwei;
    uint56 private constant DATA_FEE = 100 gwei;
    /// @dev Half as much: a wei of the destination is worth half a wei here.
    uint64 private constant RATE = 5e11;
    uint24 private constant OVERHEAD = 100_000;
    uint24 private constant MAX_AGE = 1 days;
    uint256 private constant REFUND_AFTER = 14 days;

    address private immutable operator = makeAddr("operator");
    address private immutable oracle = makeAddr("oracle");
    address private immutable payer = makeAddr("payer");

    RelayerVault private vault;

    function setUp() public {
        setUpWaybill();
        vault = new RelayerVault(sourceRouter);
        vm.startPrank(waybillOwner);
        vault.setOperator(operator);
        vault.setOracle(oracle);
        vault.setPriceLimits(DESTINATION_CHAIN, _limits());
        vault.setPrice(DESTINATION_CHAIN, GAS_PRICE, DATA_FEE, RATE);
        vm.stopPrank();
    }

    function _limits() private pure returns (IRelayerVault.PriceLimits memory) {
        return IRelayerVault.PriceLimits(100 gwei, 10_000 gwei, RATE / 4, RATE * 4, OVERHEAD, MAX_AGE);
    }

    function _pay(bytes32 messageId, Gmp gmp, address from, uint256 amount) private {
        vm.deal(address(this), amount);
        vault.pay{value: amount}(messageId, gmp, DESTINATION_CHAIN, from);
    }

    function _charge(bytes32 messageId, Gmp gmp, address from, uint256 amount, bool ended) private {
        IRelayerVault.Charge[] memory charges = new IRelayerVault.Charge[](1);
        charges[0] = IRelayerVault.Charge(messageId, gmp, from, uint192(amount), ended);
        vm.prank(operator);
        vault.collect(charges);
    }

    function _unspent(bytes32 messageId, Gmp gmp, address from) private view returns (uint256 unspent) {
        (unspent,) = vault.paymentOf(messageId, gmp, from);
    }

    // ---- constructor, roles

    function test_RevertWhen_DeployedWithoutARouter() external {
        vm.expectRevert(IRelayerVault.ZeroAddress.selector);
        new RelayerVault(IRouter(address(0)));
    }

    function testFuzz_RevertWhen_AnyoneButTheOwnerDecides(address caller) external {
        vm.assume(caller != waybillOwner);
        bytes memory expected = abi.encodeWithSelector(IRelayerVault.OnlyOwner.selector, caller);
        vm.startPrank(caller);
        vm.expectRevert(expected);
        vault.setOperator(caller);
        vm.expectRevert(expected);
        vault.setOracle(caller);
        vm.expectRevert(expected);
        vault.setPriceLimits(DESTINATION_CHAIN, _limits());
    }

    // ---- quote, pay

    function testFuzz_AsksForGasOverheadAndDataAtTheRateRoundedUp(uint32 gasLimit, uint16 length) external view {
        uint256 there = uint256(GAS_PRICE) * (uint256(gasLimit) + OVERHEAD) + uint256(DATA_FEE) * length;
        assertEq(vault.quote(DESTINATION_CHAIN, gasLimit, length), (there * RATE + 1e12 - 1) / 1e12);
    }

    function test_RevertWhen_ThereIsNoPriceOrItIsTooOld() external {
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.NoPrice.selector, SOURCE_CHAIN));
        vault.quote(SOURCE_CHAIN, 1, 1);
        uint32 updatedAt = vault.priceOf(DESTINATION_CHAIN).updatedAt;
        vm.warp(uint256(updatedAt) + MAX_AGE);
        vault.quote(DESTINATION_CHAIN, 1, 1);
        vm.warp(uint256(updatedAt) + MAX_AGE + 1);
        bytes memory stale = abi.encodeWithSelector(IRelayerVault.StalePrice.selector, DESTINATION_CHAIN, updatedAt);
        vm.expectRevert(stale);
        vault.quote(DESTINATION_CHAIN, 1, 1);
        vm.deal(address(this), 1 ether);
        vm.expectRevert(stale);
        vault.pay{value: 1 ether}(ID, WORMHOLE, DESTINATION_CHAIN, payer);
    }

    function test_RevertWhen_ThePaymentIsDust() external {
        uint256 least = uint256(21_000) * GAS_PRICE * RATE / 1e12;
        vm.deal(address(this), least);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.PaymentTooSmall.selector, least - 1, least));
        vault.pay{value: least - 1}(ID, WORMHOLE, DESTINATION_CHAIN, payer);
        vault.pay{value: least}(ID, WORMHOLE, DESTINATION_CHAIN, payer);
    }

    function test_RevertWhen_ThePayerIsNobodyOrTheGmpIsNone() external {
        vm.deal(address(this), 1 ether);
        vm.expectRevert(IRelayerVault.ZeroAddress.selector);
        vault.pay{value: 1 ether}(ID, WORMHOLE, DESTINATION_CHAIN, address(0));
        vm.expectRevert(abi.encodeWithSelector(InvalidGmp.selector, Gmp.wrap(17)));
        vault.pay{value: 1 ether}(ID, Gmp.wrap(17), DESTINATION_CHAIN, payer);
    }

    function testFuzz_KeepsPaymentsApartByMessageGmpAndPayer(bytes32 other, uint64 first, uint64 second) external {
        vm.assume(other != ID);
        uint256 least = uint256(21_000) * GAS_PRICE * RATE / 1e12;
        (uint256 one, uint256 two) = (first + least, second + least);
        vm.expectEmit(address(vault));
        uint64 refundableAt = uint64(block.timestamp + REFUND_AFTER);
        emit IRelayerVault.Paid(ID, WORMHOLE, payer, DESTINATION_CHAIN, one, RATE, refundableAt);
        _pay(ID, WORMHOLE, payer, one);
        assertEq(_unspent(ID, AXELAR, payer) + _unspent(other, WORMHOLE, payer) + _unspent(ID, WORMHOLE, oracle), 0);
        _pay(ID, WORMHOLE, payer, two);
        _pay(other, WORMHOLE, payer, two);
        assertEq(_unspent(ID, WORMHOLE, payer), one + two);
        assertEq(_unspent(other, WORMHOLE, payer), two);
    }

    // ---- collect

    function testFuzz_RevertWhen_AnyoneButTheOperatorCollectsOrWithdraws(address caller) external {
        vm.assume(caller != operator);
        _pay(ID, WORMHOLE, payer, 1 ether);
        bytes memory expected = abi.encodeWithSelector(IRelayerVault.OnlyOperator.selector, caller);
        vm.startPrank(caller);
        vm.expectRevert(expected);
        vault.collect(new IRelayerVault.Charge[](0));
        vm.expectRevert(expected);
        vault.withdraw(payable(caller), 0);
    }

    function test_RevertWhen_MoreIsChargedThanIsUnspent() external {
        _pay(ID, WORMHOLE, payer, 1 ether);
        _charge(ID, WORMHOLE, payer, 0.6 ether, false);
        vm.expectRevert(
            abi.encodeWithSelector(IRelayerVault.ChargeExceedsPayment.selector, ID, WORMHOLE, payer, 0.4 ether)
        );
        _charge(ID, WORMHOLE, payer, 0.4 ether + 1, false);
        _charge(ID, WORMHOLE, payer, 0.4 ether, false);
        assertEq(vault.earned(), 1 ether);
    }

    /// @dev One payment claimed for two messages.
    function testFuzz_RevertWhen_ThePaymentIsAnotherMessages(bytes32 other) external {
        vm.assume(other != ID);
        _pay(ID, WORMHOLE, payer, 1 ether);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.PaymentRefundable.selector, other, WORMHOLE, payer));
        _charge(other, WORMHOLE, payer, 1, false);
    }

    function test_RevertWhen_ThePayerMayFetchThePayment() external {
        _pay(ID, WORMHOLE, payer, 1 ether);
        vm.warp(block.timestamp + REFUND_AFTER);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.PaymentRefundable.selector, ID, WORMHOLE, payer));
        _charge(ID, WORMHOLE, payer, 1, false);
    }

    // ---- refund

    function test_RevertWhen_ItIsTooEarlyOrNothingIsLeft() external {
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.NothingToRefund.selector, ID, WORMHOLE, payer));
        vault.refund(ID, WORMHOLE, payer);
        _pay(ID, WORMHOLE, payer, 1 ether);
        uint64 refundableAt = uint64(block.timestamp + REFUND_AFTER);
        vm.warp(refundableAt - 1);
        vm.expectRevert(
            abi.encodeWithSelector(IRelayerVault.NotRefundableYet.selector, ID, WORMHOLE, payer, refundableAt)
        );
        vault.refund(ID, WORMHOLE, payer);
    }

    function testFuzz_PaysWhatIsUnspentToThePayerWhoeverCalls(address caller, uint64 charged) external {
        _pay(ID, WORMHOLE, payer, 20 ether);
        _charge(ID, WORMHOLE, payer, charged, false);
        vm.warp(block.timestamp + REFUND_AFTER);
        vm.prank(caller);
        vault.refund(ID, WORMHOLE, payer);
        assertEq(payer.balance, 20 ether - charged);
        assertEq(address(vault).balance, vault.earned());
    }

    function test_PaysAtOnce_WhenTheOperatorSaysThatTheMessageHasEnded() external {
        _pay(ID, WORMHOLE, payer, 1 ether);
        _charge(ID, WORMHOLE, payer, 0.3 ether, true);
        vault.refund(ID, WORMHOLE, payer);
        assertEq(payer.balance, 0.7 ether);
    }

    function test_ARefundCostsItsCallerAlone() external {
        BurningPayer burning = new BurningPayer();
        _pay(ID, WORMHOLE, address(burning), 1 ether);
        _pay(ID, WORMHOLE, payer, 1 ether);
        vm.warp(block.timestamp + REFUND_AFTER);
        vm.expectRevert();
        vault.refund{gas: 300_000}(ID, WORMHOLE, address(burning));
        // Its money stays, and hinders no other's.
        assertEq(_unspent(ID, WORMHOLE, address(burning)), 1 ether);
        vault.refund(ID, WORMHOLE, payer);
        assertEq(payer.balance, 1 ether);
    }

    function test_APayerThatCallsAgainIsPaidOnce() external {
        GreedyPayer greedy = new GreedyPayer(vault, ID, WORMHOLE);
        _pay(ID, WORMHOLE, address(greedy), 1 ether);
        _pay(ID, AXELAR, address(greedy), 1 ether);
        vm.warp(block.timestamp + REFUND_AFTER);
        vault.refund(ID, WORMHOLE, address(greedy));
        assertTrue(greedy.wasRefused());
        assertEq(address(greedy).balance, 1 ether);
    }

    // ---- withdraw

    function testFuzz_NeverTouchesWhatIsUnspent(uint64 charged, uint256 asked) external {
        _pay(ID, WORMHOLE, payer, 20 ether);
        _charge(ID, WORMHOLE, payer, charged, false);
        asked = bound(asked, uint256(charged) + 1, 40 ether);
        vm.startPrank(operator);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.ExceedsEarned.selector, asked, charged));
        vault.withdraw(payable(operator), asked);
        vault.withdraw(payable(operator), charged);
        assertEq(operator.balance, charged);
        assertEq(address(vault).balance, 20 ether - charged);
    }

    // ---- prices

    function testFuzz_RevertWhen_AnyoneElseSetsAPrice(address caller) external {
        vm.assume(caller != oracle && caller != waybillOwner);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.OnlyOracle.selector, caller));
        vm.prank(caller);
        vault.setPrice(DESTINATION_CHAIN, GAS_PRICE, DATA_FEE, RATE);
    }

    function testFuzz_RevertWhen_TheOracleJumps(uint256 which, uint64 factor) external {
        vm.warp(block.timestamp + 5 minutes);
        factor = uint64(bound(factor, 3, 4));
        uint56[3] memory up = [GAS_PRICE, DATA_FEE, uint56(0)];
        uint64 rate = RATE;
        if (which % 3 == 2) rate = RATE * factor;
        else up[which % 3] *= uint56(factor);
        vm.prank(oracle);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.PriceStepTooLarge.selector, DESTINATION_CHAIN));
        vault.setPrice(DESTINATION_CHAIN, up[0], up[1], rate);
        vm.prank(oracle);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.PriceStepTooLarge.selector, DESTINATION_CHAIN));
        vault.setPrice(DESTINATION_CHAIN, GAS_PRICE / 3, DATA_FEE, RATE);
    }

    function test_RevertWhen_TheOracleIsTooEarly() external {
        uint256 allowedAt = block.timestamp + 5 minutes;
        vm.warp(allowedAt - 1);
        vm.expectRevert(
            abi.encodeWithSelector(IRelayerVault.PriceUpdateTooEarly.selector, DESTINATION_CHAIN, allowedAt)
        );
        vm.prank(oracle);
        vault.setPrice(DESTINATION_CHAIN, GAS_PRICE, DATA_FEE, RATE);
    }

    function test_RevertWhen_TheOracleSpeaksBeforeTheOwner() external {
        vm.prank(waybillOwner);
        vault.setPriceLimits(SOURCE_CHAIN, _limits());
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.NoPrice.selector, SOURCE_CHAIN));
        vm.prank(oracle);
        vault.setPrice(SOURCE_CHAIN, GAS_PRICE, DATA_FEE, RATE);
    }

    function testFuzz_RevertWhen_AValueIsOutsideTheLimits(uint256 which) external {
        IRelayerVault.PriceLimits memory most = _limits();
        vm.startPrank(waybillOwner);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.PriceOutsideLimits.selector, DESTINATION_CHAIN));
        if (which % 5 == 0) vault.setPrice(DESTINATION_CHAIN, most.maxGasPrice + 1, 0, RATE);
        else if (which % 5 == 1) vault.setPrice(DESTINATION_CHAIN, 1, most.maxDataFee + 1, RATE);
        else if (which % 5 == 2) vault.setPrice(DESTINATION_CHAIN, 1, 0, most.minRate - 1);
        else if (which % 5 == 3) vault.setPrice(DESTINATION_CHAIN, 1, 0, most.maxRate + 1);
        else vault.setPrice(DESTINATION_CHAIN, 0, 0, RATE);
    }

    /// @dev An oracle whose key is stolen, for a day: up or down as far as it can.
    function testFuzz_AnOracleStaysWithinTheLimits(bool up) external {
        IRelayerVault.PriceLimits memory most = _limits();
        for (uint256 step; step < 288; ++step) {
            vm.warp(block.timestamp + 5 minutes);
            IRelayerVault.Price memory price = vault.priceOf(DESTINATION_CHAIN);
            vm.prank(oracle);
            try vault.setPrice(
                DESTINATION_CHAIN,
                up ? price.gasPrice * 2 : (price.gasPrice + 1) / 2,
                price.dataFee,
                up ? price.rate : (price.rate + 1) / 2
            ) {}
                catch {}
        }
        IRelayerVault.Price memory last = vault.priceOf(DESTINATION_CHAIN);
        assertLe(last.gasPrice, most.maxGasPrice);
        assertGe(last.rate, most.minRate);
    }

    function test_LimitsThatExcludeThePriceDeleteIt() external {
        IRelayerVault.PriceLimits memory limits = _limits();
        vm.startPrank(waybillOwner);
        limits.maxAge = 7;
        vault.setPriceLimits(DESTINATION_CHAIN, limits);
        assertEq(vault.priceOf(DESTINATION_CHAIN).maxAge, 7);
        limits.maxGasPrice = GAS_PRICE - 1;
        vault.setPriceLimits(DESTINATION_CHAIN, limits);
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.NoPrice.selector, DESTINATION_CHAIN));
        vault.quote(DESTINATION_CHAIN, 1, 1);
        limits.minRate = limits.maxRate + 1;
        vm.expectRevert(abi.encodeWithSelector(IRelayerVault.InvalidPriceLimits.selector, DESTINATION_CHAIN));
        vault.setPriceLimits(DESTINATION_CHAIN, limits);
    }
}
