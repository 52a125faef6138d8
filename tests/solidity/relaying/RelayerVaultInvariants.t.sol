// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRelayerVault} from "../../../contracts/interfaces/IRelayerVault.sol";
import {RelayerVault} from "../../../contracts/relaying/RelayerVault.sol";
import {WaybillFixture} from "../../../contracts/testing/WaybillFixture.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";

/// @dev Pays, charges, fetches and withdraws in any order, and keeps its own account of it.
contract VaultHandler is WaybillFixture {
    RelayerVault public immutable vault;

    bytes32[3] private messages = [bytes32("one"), "two", "three"];
    address[2] private payers = [address(0xA11CE), address(0xB0B)];

    uint256 public paid;
    uint256 public fetched;
    uint256 public withdrawn;

    constructor() {
        setUpWaybill();
        vault = new RelayerVault(sourceRouter);
        vm.startPrank(waybillOwner);
        vault.setOperator(address(this));
        IRelayerVault.PriceLimits memory limits =
            IRelayerVault.PriceLimits(1 gwei, 1 gwei, 1e12, 1e12, 100_000, type(uint24).max);
        vault.setPriceLimits(DESTINATION_CHAIN, limits);
        vault.setPrice(DESTINATION_CHAIN, 1 gwei, 0, 1e12);
        vm.stopPrank();
    }

    receive() external payable {}

    function pay(uint256 which, uint96 amount) external {
        (bytes32 messageId, Gmp gmp, address payer) = _account(which);
        uint256 value = uint256(amount) + 21_000 gwei;
        vm.deal(address(this), address(this).balance + value);
        vault.pay{value: value}(messageId, gmp, DESTINATION_CHAIN, payer);
        paid += value;
    }

    function charge(uint256 which, uint256 amount, bool ended) external {
        (bytes32 messageId, Gmp gmp, address payer) = _account(which);
        (uint256 unspent, uint64 refundableAt) = vault.paymentOf(messageId, gmp, payer);
        if (block.timestamp >= refundableAt) return;
        IRelayerVault.Charge[] memory charges = new IRelayerVault.Charge[](1);
        charges[0] = IRelayerVault.Charge(messageId, gmp, payer, uint192(bound(amount, 0, unspent)), ended);
        vault.collect(charges);
    }

    function refund(uint256 which) external {
        (bytes32 messageId, Gmp gmp, address payer) = _account(which);
        (uint256 unspent, uint64 refundableAt) = vault.paymentOf(messageId, gmp, payer);
        if (unspent == 0) return;
        if (block.timestamp < refundableAt) vm.warp(refundableAt);
        vault.refund(messageId, gmp, payer);
        fetched += unspent;
    }

    function withdraw(uint256 amount) external {
        amount = bound(amount, 0, vault.earned());
        vault.withdraw(payable(address(this)), amount);
        withdrawn += amount;
    }

    function unspent() external view returns (uint256 sum) {
        for (uint256 which; which < 12; ++which) {
            (bytes32 messageId, Gmp gmp, address payer) = _account(which);
            (uint256 left,) = vault.paymentOf(messageId, gmp, payer);
            sum += left;
        }
    }

    function _account(uint256 which) private view returns (bytes32, Gmp, address) {
        which %= 12;
        return (messages[which % 3], which / 3 % 2 == 0 ? WORMHOLE : AXELAR, payers[which / 6]);
    }
}

contract RelayerVaultInvariants is WaybillFixture {
    VaultHandler private handler;

    function setUp() public {
        handler = new VaultHandler();
        bytes4[] memory selectors = new bytes4[](4);
        selectors[0] = VaultHandler.pay.selector;
        selectors[1] = VaultHandler.charge.selector;
        selectors[2] = VaultHandler.refund.selector;
        selectors[3] = VaultHandler.withdraw.selector;
        targetContract(address(handler));
        targetSelector(FuzzSelector(address(handler), selectors));
    }

    function invariant_TheBalanceIsWhatIsUnspentAndWhatIsEarned() public view {
        RelayerVault vault = handler.vault();
        assertEq(address(vault).balance, handler.unspent() + vault.earned(), "unspent and earned");
        assertEq(address(vault).balance, handler.paid() - handler.fetched() - handler.withdrawn(), "in and out");
    }
}
