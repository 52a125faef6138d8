// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet} from "../types/Gmp.sol";
import {DispatchFailure, Kind, Retry, Route} from "../types/Message.sol";

/// @notice The sending half of a router: creates messages, dispatches them over GMPs and retries them.
interface IMessageSender {
    /// @notice {route} created a message.
    event MessageIdCreated(bytes32 indexed messageId, address indexed sender, uint64 nonce);

    /// @notice Attempt 0: `gmps` accepted the message. The envelope suffices to rebuild, deliver and retry it.
    event MessageRouted(
        bytes32 indexed messageId, uint64 indexed destinationChain, bool retriable, GmpSet gmps, bytes envelope
    );

    /// @notice Attempt 1, 2, …: `gmps` accepted the same envelope again.
    event MessageRetried(bytes32 indexed messageId, uint64 indexed destinationChain, uint32 attempt, GmpSet gmps);

    /// @notice The message was created without paying fees, and waits for {IGateway-fund} over `gmps`.
    event MessageUnfunded(
        bytes32 indexed messageId, uint64 indexed destinationChain, bool retriable, GmpSet gmps, bytes envelope
    );

    /// @notice A GMP did not accept the message: it failed, is paused or has no adapter. Its fee was returned, and the other GMPs
    ///         are not affected.
    event DispatchFailed(bytes32 indexed messageId, Gmp indexed gmp, uint32 attempt, bytes reason);

    /// @notice A refund that could not be paid, or the unused part of a GMP's fee, can be withdrawn.
    event Credited(address indexed account, uint256 amount);

    /// @notice The recipient is zero.
    error ZeroRecipient();
    /// @notice Only routers create messages of this kind.
    error ReservedKind(Kind kind);

    /// @notice Only plain messages and critical regulatory actions may omit the TTL.
    error TtlRequired(Kind kind);

    /// @notice A critical regulatory action must not have a TTL: it ends when it is executed, or cancelled by its sender.
    error TtlNotAllowed(Kind kind, uint32 ttl);

    /// @notice A TTL must be 0 or at least `least` seconds, since no GMP is reliably faster.
    error TtlTooShort(uint32 ttl, uint32 least);

    /// @notice A delivery with this gas limit could need more than 2^24 gas, the maximum of a transaction.
    error GasLimitTooHigh(uint64 gasLimit, uint64 most);

    /// @notice The payload is longer than `most` bytes.
    error PayloadTooLong(uint256 length, uint256 most);

    /// @notice The message's source is not this chain and router: it was created before a fork, or elsewhere.
    error WrongSource(uint64 chain, bytes32 router);

    /// @notice The quorum is 0, or more than the number of GMPs.
    error InvalidQuorum(uint8 quorum, uint256 gmps);

    /// @notice The parameters do not hash to the id: at least one differs from the original.
    error MessageIdMismatch(bytes32 stated, bytes32 computed);

    /// @notice The message was not created here as retriable.
    error NotRetriable(bytes32 messageId);

    /// @notice The message was never dispatched. Use {IGateway-fund}.
    error StillUnfunded(bytes32 messageId);

    /// @notice The message has nothing left to fund: all its GMPs accepted it, or it was never created here.
    error NotUnfunded(bytes32 messageId);

    /// @notice The message was cancelled.
    error AlreadyCancelled(bytes32 messageId);

    /// @notice The message's TTL has elapsed, so its destination would no longer execute it.
    error Expired(bytes32 messageId, uint64 sentAt, uint32 ttl);

    /// @notice Only the message's sender, or the retrier that it appointed, may retry it.
    error NotSenderOrRetrier(bytes32 messageId, address caller, address sender);

    /// @notice The chain has no peer to which messages could be sent.
    error NoPeer(uint64 chain);

    /// @notice The refund address is zero.
    error ZeroRefundAddress();
    /// @notice No GMP is named.
    error NoGmps();
    /// @notice A GMP is named twice.
    error DuplicateGmp(Gmp gmp);

    /// @notice The GMP has no adapter. The reason of a {DispatchFailure}: it does not affect the other GMPs.
    error GmpNotEnabled(Gmp gmp);

    /// @notice `minDispatched` is more than the number of GMPs, or less than the message needs.
    error InvalidMinDispatched(uint8 minDispatched, uint8 least, uint256 most);

    /// @notice The GMP charges more than the sender or the router allows for a message, in wei. The reason of a
    ///         {DispatchFailure}: it does not affect the other GMPs.
    error FeeAboveCap(Gmp gmp, uint256 fee, uint256 most);

    /// @notice The sum of the fees differs from the value sent, in wei.
    error FeesDifferFromValue(uint256 fees, uint256 value);

    /// @notice A GMP could have got less gas than it may need. The call needs at least `needed - available` more gas; unused gas
    ///         costs nothing.
    /// @param needed The gas that must be left when the GMP is called, including the call's own cost and the part that the EVM
    ///        retains.
    error InsufficientDispatchGas(Gmp gmp, uint256 available, uint256 needed);

    /// @notice Too few GMPs accepted the message, so nothing was sent. Each failure has the GMP's own reason, such as a fee below
    ///         the current quote, a gas limit that the GMP does not support, or an outage of the GMP.
    error TooFewDispatched(uint256 dispatched, uint256 minimum, DispatchFailure[] failures);

    /// @notice The router is already sending.
    error SendingReentered();

    /// @notice Sends a message over one or more GMPs.
    /// @dev Steps:
    ///      1. Assign the lane's next nonce.
    ///      2. Compute the id.
    ///      3. Record the sender if the message is retriable.
    ///      4. Dispatch over each GMP independently.
    ///      5. Emit {MessageRouted}.
    ///      Two calls with equal arguments create two messages. Unless `minDispatched` allows fewer, every GMP must accept the
    ///      message or the call reverts.
    /// @param request The message and its options; `msg.value` is the sum of the fees, in wei.
    /// @return messageId The message's permanent id.
    function route(Route calldata request) external payable returns (bytes32 messageId);

    /// @notice Retries a message over any set of GMPs. Existing receipts still count.
    /// @dev Reverts unless the caller is the message's sender or its retrier, and the id matches the message. The message must
    ///      have been created here as retriable, and be neither cancelled nor expired. Anyone may retry a report.
    /// @return attempt The attempt's number; 1 is the first retry.
    function retryRoute(Retry calldata request) external payable returns (uint32 attempt);
}
