// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../types/Gmp.sol";

/// @notice Holds what senders pay a relayer for deliveries, on the chain that the messages leave, in that chain's currency.
/// @dev A payment belongs to a message, a GMP and a payer. It is spent once: the operator earns of it what deliveries cost, and
///      what is left goes back to the payer, who has it fetched. The balance is always what is unspent and what is earned.
///      The payer trusts the operator as with any paymaster: no contract here sees a delivery on another chain. The operator
///      trusts the oracle no further than the owner's limits reach.
interface IRelayerVault {
    /// @notice What delivering to a chain costs.
    /// @param gasPrice Wei of the destination for a unit of gas.
    /// @param dataFee Wei of the destination for a byte of the envelope, beside its gas: a rollup's fee for data.
    /// @param rate What 10^12 wei of the destination are worth here, in wei.
    /// @param overhead Gas that the relayer needs beyond what the adapter asks for.
    /// @param maxAge In seconds: a price that is older is no price any more.
    /// @param updatedAt Unix seconds.
    struct Price {
        uint56 gasPrice;
        uint56 dataFee;
        uint64 rate;
        uint24 overhead;
        uint24 maxAge;
        uint32 updatedAt;
    }

    /// @notice What the oracle may say of a chain. Units as in {Price}.
    struct PriceLimits {
        uint56 maxGasPrice;
        uint56 maxDataFee;
        uint64 minRate;
        uint64 maxRate;
        uint24 overhead;
        uint24 maxAge;
    }

    /// @notice What the operator has spent of one payment.
    /// @param amount In wei of this chain.
    /// @param ended Whether nothing more will be spent of it, so that the rest may be fetched now.
    struct Charge {
        bytes32 messageId;
        Gmp gmp;
        address payer;
        uint192 amount;
        bool ended;
    }

    /// @notice `amount` wei were paid for the delivery of a message by a GMP.
    /// @param rate The price's rate: it says for all time how much of the destination's currency the payment is worth.
    /// @param refundableAt Unix seconds, from which on the payer may fetch what is unspent.
    event Paid(
        bytes32 indexed messageId,
        Gmp indexed gmp,
        address indexed payer,
        uint64 destinationChain,
        uint256 amount,
        uint64 rate,
        uint64 refundableAt
    );

    /// @notice The operator has earned `amount` of a payment; `refundableAt` is in Unix seconds.
    event Earned(
        bytes32 indexed messageId, Gmp indexed gmp, address indexed payer, uint256 amount, uint64 refundableAt
    );

    event Refunded(bytes32 indexed messageId, Gmp indexed gmp, address indexed payer, uint256 amount);
    event Withdrawn(address indexed to, uint256 amount);
    event PriceSet(uint64 indexed chain, uint56 gasPrice, uint56 dataFee, uint64 rate);
    event PriceLimitsSet(uint64 indexed chain, PriceLimits limits);
    event OperatorSet(address operator);
    event OracleSet(address oracle);

    error OnlyOwner(address caller);
    error OnlyOperator(address caller);
    error OnlyOracle(address caller);
    error ZeroAddress();

    /// @notice Nobody has said what deliveries to that chain cost.
    error NoPrice(uint64 chain);

    /// @notice The price is older than its `maxAge`. Nothing is sold for it until the oracle updates it.
    error StalePrice(uint64 chain, uint32 updatedAt);

    /// @notice The price is outside the owner's limits.
    error PriceOutsideLimits(uint64 chain);

    /// @notice The oracle may at most double or halve a value.
    error PriceStepTooLarge(uint64 chain);

    /// @notice The oracle may update a price again at `allowedAt`, Unix seconds.
    error PriceUpdateTooEarly(uint64 chain, uint256 allowedAt);

    /// @notice Limits that no price can keep.
    error InvalidPriceLimits(uint64 chain);

    /// @notice Less than a plain transfer costs on the destination. Dust would cost those who count it more than it is worth.
    error PaymentTooSmall(uint256 amount, uint256 least);

    /// @notice More is charged than is unspent, in wei.
    error ChargeExceedsPayment(bytes32 messageId, Gmp gmp, address payer, uint256 unspent);

    /// @notice The operator's time to charge the payment is over.
    error PaymentRefundable(bytes32 messageId, Gmp gmp, address payer);

    error NothingToRefund(bytes32 messageId, Gmp gmp, address payer);
    error NotRefundableYet(bytes32 messageId, Gmp gmp, address payer, uint64 refundableAt);

    /// @notice More is withdrawn than is earned, in wei.
    error ExceedsEarned(uint256 amount, uint256 earned);

    // ---- paying

    /// @notice What a delivery costs now, in wei of this chain: gas at the destination's price, and its fee for data.
    /// @param gasLimit What the delivery asks for, on the destination.
    /// @param length Of the envelope, in bytes.
    function quote(uint64 chain, uint256 gasLimit, uint256 length) external view returns (uint256 fee);

    /// @notice Pays for the delivery of a message by a GMP; adds to what the payer has paid for that before. Open to anyone.
    /// @param destinationChain The message's. A payment that names another chain is worth nothing, and can be fetched.
    /// @param payer Who gets what is not spent.
    function pay(bytes32 messageId, Gmp gmp, uint64 destinationChain, address payer) external payable;

    /// @notice Sends the payer what is unspent of a payment. Open to anyone, who pays for whatever the payer does on receipt.
    function refund(bytes32 messageId, Gmp gmp, address payer) external;

    /// @notice What is left of a payment, in wei, and when the payer may fetch it, in Unix seconds.
    function paymentOf(bytes32 messageId, Gmp gmp, address payer)
        external
        view
        returns (uint256 unspent, uint64 refundableAt);

    // ---- earning

    /// @notice The operator says what was spent. As a whole or not at all.
    function collect(Charge[] calldata charges) external;

    /// @notice Sends the operator's earnings, or a part of them, to `to`.
    function withdraw(address payable to, uint256 amount) external;

    /// @notice What was earned and not withdrawn, in wei.
    function earned() external view returns (uint256);

    // ---- prices

    /// @notice The oracle updates a price: within the owner's limits, by at most a factor of two, and not at every moment. The
    ///         owner may choose any price within the limits, and chooses the first one.
    function setPrice(uint64 chain, uint56 gasPrice, uint56 dataFee, uint64 rate) external;

    /// @notice The owner says how far prices may go. A price outside new limits is gone.
    function setPriceLimits(uint64 chain, PriceLimits calldata limits) external;

    function priceOf(uint64 chain) external view returns (Price memory);

    function priceLimitsOf(uint64 chain) external view returns (PriceLimits memory);

    // ---- roles

    function setOperator(address account) external;

    function setOracle(address account) external;

    /// @notice Says what was spent, and gets it.
    function operator() external view returns (address);

    function oracle() external view returns (address);

    /// @notice The router whose owner is the vault's.
    function router() external view returns (address);
}
