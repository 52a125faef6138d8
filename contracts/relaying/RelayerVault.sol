// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

import {IRelayerVault} from "../interfaces/IRelayerVault.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Gmp} from "../types/Gmp.sol";

/// @notice See {IRelayerVault}.
contract RelayerVault is IRelayerVault {
    struct Payment {
        uint192 unspent;
        uint64 refundableAt;
    }

    /// @dev What {Price-rate} is said of, in wei of the destination.
    uint256 private constant RATE_UNIT = 1e12;

    /// @dev By how much the oracle may change a value at once, and how long it waits between two changes, in seconds: a key that
    ///      is stolen moves prices to the owner's limits in hours, and the gas price of a chain in trouble is followed.
    uint256 private constant PRICE_STEP = 2;
    uint256 private constant PRICE_INTERVAL = 5 minutes;

    /// @dev How long the operator has for deliveries and for charging them.
    uint256 private constant REFUND_AFTER = 14 days;

    /// @dev What no payment is worth less than, in gas of the destination: a plain transfer.
    uint256 private constant LEAST_GAS = 21_000;

    IRouter private immutable _router;

    /// @inheritdoc IRelayerVault
    address public operator;

    /// @inheritdoc IRelayerVault
    address public oracle;

    /// @inheritdoc IRelayerVault
    uint256 public earned;

    mapping(uint64 chain => Price price) private _prices;
    mapping(uint64 chain => PriceLimits limits) private _limits;
    mapping(bytes32 key => Payment payment) private _payments;

    modifier onlyOwner() {
        if (msg.sender != _router.owner()) revert OnlyOwner(msg.sender);
        _;
    }

    modifier onlyOperator() {
        if (msg.sender != operator) revert OnlyOperator(msg.sender);
        _;
    }

    constructor(IRouter router_) {
        if (address(router_) == address(0)) revert ZeroAddress();
        _router = router_;
    }

    // ---- paying

    /// @inheritdoc IRelayerVault
    function pay(bytes32 messageId, Gmp gmp, uint64 destinationChain, address payer) external payable {
        if (payer == address(0)) revert ZeroAddress();
        // Refuses what is no GMP's number.
        gmp.toSet();
        Price memory price = _freshPrice(destinationChain);
        uint256 least = _worth(LEAST_GAS * price.gasPrice, price.rate);
        if (msg.value < least) revert PaymentTooSmall(msg.value, least);
        Payment storage payment = _payments[_key(messageId, gmp, payer)];
        uint64 refundableAt = uint64(block.timestamp + REFUND_AFTER);
        // No chain has so much money that this would overflow.
        payment.unspent += uint192(msg.value);
        payment.refundableAt = refundableAt;
        emit Paid(messageId, gmp, payer, destinationChain, msg.value, price.rate, refundableAt);
    }

    /// @inheritdoc IRelayerVault
    function refund(bytes32 messageId, Gmp gmp, address payer) external {
        bytes32 key = _key(messageId, gmp, payer);
        (uint192 unspent, uint64 refundableAt) = (_payments[key].unspent, _payments[key].refundableAt);
        if (unspent == 0) revert NothingToRefund(messageId, gmp, payer);
        if (block.timestamp < refundableAt) revert NotRefundableYet(messageId, gmp, payer, refundableAt);
        delete _payments[key];
        emit Refunded(messageId, gmp, payer, unspent);
        Address.sendValue(payable(payer), unspent);
    }

    // ---- earning

    /// @inheritdoc IRelayerVault
    function collect(Charge[] calldata charges) external onlyOperator {
        uint256 sum;
        for (uint256 index; index < charges.length; ++index) {
            sum += _charge(charges[index]);
        }
        earned += sum;
    }

    /// @inheritdoc IRelayerVault
    function withdraw(address payable to, uint256 amount) external onlyOperator {
        if (to == address(0)) revert ZeroAddress();
        uint256 available = earned;
        if (amount > available) revert ExceedsEarned(amount, available);
        earned = available - amount;
        emit Withdrawn(to, amount);
        Address.sendValue(to, amount);
    }

    // ---- prices

    /// @inheritdoc IRelayerVault
    function setPrice(uint64 chain, uint56 gasPrice, uint56 dataFee, uint64 rate) external {
        PriceLimits memory limits = _limits[chain];
        // Without limits there is no price within them.
        if (
            gasPrice == 0 || gasPrice > limits.maxGasPrice || dataFee > limits.maxDataFee || rate < limits.minRate
                || rate > limits.maxRate
        ) revert PriceOutsideLimits(chain);
        Price storage price = _prices[chain];
        if (msg.sender != _router.owner()) {
            if (msg.sender != oracle) revert OnlyOracle(msg.sender);
            if (price.updatedAt == 0) revert NoPrice(chain);
            uint256 allowedAt = price.updatedAt + PRICE_INTERVAL;
            if (block.timestamp < allowedAt) revert PriceUpdateTooEarly(chain, allowedAt);
            if (!_isStep(price.gasPrice, gasPrice) || !_isStep(price.dataFee, dataFee) || !_isStep(price.rate, rate)) {
                revert PriceStepTooLarge(chain);
            }
        }
        _prices[chain] = Price(gasPrice, dataFee, rate, limits.overhead, limits.maxAge, uint32(block.timestamp));
        emit PriceSet(chain, gasPrice, dataFee, rate);
    }

    /// @inheritdoc IRelayerVault
    function setPriceLimits(uint64 chain, PriceLimits calldata limits) external onlyOwner {
        if (limits.minRate == 0 || limits.minRate > limits.maxRate || limits.maxGasPrice == 0 || limits.maxAge == 0) {
            revert InvalidPriceLimits(chain);
        }
        _limits[chain] = limits;
        Price storage price = _prices[chain];
        if (
            price.gasPrice > limits.maxGasPrice || price.dataFee > limits.maxDataFee || price.rate < limits.minRate
                || price.rate > limits.maxRate
        ) {
            delete _prices[chain];
        } else {
            (price.overhead, price.maxAge) = (limits.overhead, limits.maxAge);
        }
        emit PriceLimitsSet(chain, limits);
    }

    // ---- roles

    /// @inheritdoc IRelayerVault
    function setOperator(address account) external onlyOwner {
        operator = account;
        emit OperatorSet(account);
    }

    /// @inheritdoc IRelayerVault
    function setOracle(address account) external onlyOwner {
        oracle = account;
        emit OracleSet(account);
    }

    // ---- views

    /// @inheritdoc IRelayerVault
    function quote(uint64 chain, uint256 gasLimit, uint256 length) external view returns (uint256 fee) {
        Price memory price = _freshPrice(chain);
        return _worth(price.gasPrice * (gasLimit + price.overhead) + price.dataFee * length, price.rate);
    }

    /// @inheritdoc IRelayerVault
    function paymentOf(bytes32 messageId, Gmp gmp, address payer) external view returns (uint256, uint64) {
        Payment memory payment = _payments[_key(messageId, gmp, payer)];
        return (payment.unspent, payment.refundableAt);
    }

    /// @inheritdoc IRelayerVault
    function priceOf(uint64 chain) external view returns (Price memory) {
        return _prices[chain];
    }

    /// @inheritdoc IRelayerVault
    function priceLimitsOf(uint64 chain) external view returns (PriceLimits memory) {
        return _limits[chain];
    }

    /// @inheritdoc IRelayerVault
    function router() external view returns (address) {
        return address(_router);
    }

    function _charge(Charge calldata charge) private returns (uint192 amount) {
        (bytes32 messageId, Gmp gmp, address payer) = (charge.messageId, charge.gmp, charge.payer);
        Payment storage payment = _payments[_key(messageId, gmp, payer)];
        (uint192 unspent, uint64 refundableAt) = (payment.unspent, payment.refundableAt);
        if (block.timestamp >= refundableAt) revert PaymentRefundable(messageId, gmp, payer);
        amount = charge.amount;
        if (amount > unspent) revert ChargeExceedsPayment(messageId, gmp, payer, unspent);
        if (charge.ended) refundableAt = uint64(block.timestamp);
        (payment.unspent, payment.refundableAt) = (unspent - amount, refundableAt);
        emit Earned(messageId, gmp, payer, amount, refundableAt);
    }

    function _freshPrice(uint64 chain) private view returns (Price memory price) {
        price = _prices[chain];
        if (price.updatedAt == 0) revert NoPrice(chain);
        if (block.timestamp > uint256(price.updatedAt) + price.maxAge) revert StalePrice(chain, price.updatedAt);
    }

    /// @dev Rounded up: the relayer pays in whole.
    function _worth(uint256 amount, uint64 rate) private pure returns (uint256) {
        return Math.ceilDiv(amount * rate, RATE_UNIT);
    }

    function _isStep(uint256 before, uint256 next) private pure returns (bool) {
        return next <= before * PRICE_STEP && next * PRICE_STEP >= before;
    }

    function _key(bytes32 messageId, Gmp gmp, address payer) private pure returns (bytes32) {
        return keccak256(abi.encode(messageId, gmp, payer));
    }
}
