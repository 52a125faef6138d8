// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Address} from "@openzeppelin/contracts/utils/Address.sol";

import {IRouter} from "../interfaces/IRouter.sol";
import {Addresses} from "../libraries/Addresses.sol";
import {Gmp, GmpSet, HIGHEST_GMP} from "../types/Gmp.sol";
import {GmpFee, Kind, Message, Retry, Route} from "../types/Message.sol";

/// @dev How a dApp sends messages to one chain.
struct Lane {
    /// @dev EIP-155 id.
    uint64 chain;
    /// @dev The dApp's counterpart there.
    address recipient;
    /// @dev Minimum gas for the call to the counterpart.
    uint64 gasLimit;
    /// @dev Seconds until a message expires; 0 = never, which only some kinds may use. Critical regulatory actions never expire.
    uint32 ttl;
    uint8 quorum;
    GmpSet gmps;
    /// @dev The maximum fee of each GMP per message, in gwei; 0 stands for the router's own maximum. A GMP that charges more is
    ///      skipped.
    uint40 maxFeeGwei;
}

using Lanes for Lane global;

/// @notice Builds, prices and sends a dApp's messages over a lane.
library Lanes {
    using Addresses for address;

    /// @notice The value is below the GMPs' current fees, in wei.
    error ValueBelowFees(uint256 value, uint256 fees);

    /// @notice The lane has no recipient: it was never set.
    error UnknownLane(uint64 chain);

    /// @dev Returns a retriable message over all the lane's GMPs. Instead of its fee, which {price} fills in, each GMP has the
    ///      lane's maximum fee. With one more GMP than the quorum, one may be paused or fail: the message goes over the others,
    ///      and may be retried.
    function request(Lane memory lane, Kind kind, bytes memory payload, address refundTo)
        internal
        pure
        returns (Route memory)
    {
        if (lane.recipient == address(0)) revert UnknownLane(lane.chain);
        return Route({
            destinationChain: lane.chain,
            recipient: lane.recipient.toBytes32(),
            payload: payload,
            gasLimit: lane.gasLimit,
            ttl: kind == Kind.REGULATORY_ACTION_CRITICAL ? 0 : lane.ttl,
            kind: kind,
            quorum: lane.quorum,
            replaces: 0,
            retriable: true,
            minDispatched: lane.quorum,
            gmps: _capped(lane),
            refundTo: refundTo
        });
    }

    /// @dev Routes at current fees with at most `value` of the caller's money; the rest goes to the request's `refundTo`. The
    ///      refund may call the dApp again before this returns: a dApp that writes state afterwards should call {sendWithin},
    ///      write, and then call {refund}.
    function send(IRouter router, Route memory made, uint256 value) internal returns (bytes32 messageId) {
        uint256 rest;
        (messageId, rest) = sendWithin(router, made, value);
        refund(made, rest);
    }

    /// @dev Like {send}, without the refund: `rest` is the unused part of `value`, in wei.
    function sendWithin(IRouter router, Route memory made, uint256 value)
        internal
        returns (bytes32 messageId, uint256 rest)
    {
        uint256 fees = price(router, made);
        if (value < fees) revert ValueBelowFees(value, fees);
        messageId = router.route{value: fees}(made);
        rest = value - fees;
    }

    /// @dev Fills in each GMP's current fee, or 0 for a GMP that charges more than the request allows. Such a GMP does not accept
    ///      the message; the others carry it if they are enough.
    /// @return fees The sum of the fees, in wei.
    function price(IRouter router, Route memory made) internal view returns (uint256 fees) {
        (, GmpFee[] memory asked) = router.quoteRoute(made);
        for (uint256 index; index < asked.length; ++index) {
            if (asked[index].fee > made.gmps[index].fee) asked[index].fee = 0;
            fees += asked[index].fee;
        }
        made.gmps = asked;
    }

    /// @dev Pays `rest` to the request's `refundTo`, which may call the dApp again during the payment.
    function refund(Route memory made, uint256 rest) internal {
        if (rest > 0) Address.sendValue(payable(made.refundTo), rest);
    }

    /// @dev Returns a retry of the message over `gmps`, at current fees.
    function retryOf(IRouter router, Message memory message, GmpSet gmps, address refundTo)
        internal
        view
        returns (Retry memory again, uint256 fees)
    {
        again = Retry({
            messageId: message.id(), message: message, minDispatched: 1, gmps: unpriced(gmps), refundTo: refundTo
        });
        (fees, again.gmps) = router.quoteRetry(message, again.gmps);
    }

    /// @dev Returns the members of a set in ascending order, with fee 0.
    function unpriced(GmpSet gmps) internal pure returns (GmpFee[] memory fees) {
        fees = new GmpFee[](gmps.count());
        uint256 place;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            if (gmps.contains(Gmp.wrap(number))) fees[place++].gmp = Gmp.wrap(number);
        }
    }

    function _capped(Lane memory lane) private pure returns (GmpFee[] memory gmps) {
        gmps = unpriced(lane.gmps);
        uint256 most = lane.maxFeeGwei == 0 ? type(uint256).max : uint256(lane.maxFeeGwei) * 1 gwei;
        for (uint256 index; index < gmps.length; ++index) {
            gmps[index].fee = most;
        }
    }
}
