// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Address} from "@openzeppelin/contracts/utils/Address.sol";

import {IRouter} from "../interfaces/IRouter.sol";
import {Addresses} from "../libraries/Addresses.sol";
import {Gmp, GmpSet, HIGHEST_GMP} from "../types/Gmp.sol";
import {GmpFee, Kind, Message, Retry, Route} from "../types/Message.sol";

/// @dev How a dApp's messages go to one chain.
struct Lane {
    /// @dev EIP-155 id.
    uint64 chain;
    /// @dev The dApp's counterpart there.
    address recipient;
    /// @dev Least gas for the counterpart's call.
    uint64 gasLimit;
    /// @dev Seconds until a message expires; 0 = never, which only some kinds may. A critical regulatory action never does.
    uint32 ttl;
    uint8 quorum;
    GmpSet gmps;
    /// @dev The most that each GMP may ask for a message, in gwei; 0 stands for the most that the router pays. A GMP that asks for
    ///      more is left out.
    uint40 maxFeeGwei;
}

using Lanes for Lane global;

/// @notice Builds, prices and sends what a dApp says over a lane.
library Lanes {
    using Addresses for address;

    /// @notice The value is below what the GMPs ask for now, in wei.
    error ValueBelowFees(uint256 value, uint256 fees);

    /// @notice The lane has no recipient: it was never set.
    error UnknownLane(uint64 chain);

    /// @dev A retriable message over all the lane's GMPs. In place of its fee, which {price} writes, each has the most that the lane
    ///      pays it. One more GMP than the quorum is one that may be
    ///      paused or fail: the message goes over the others, and may be retried.
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

    /// @dev Routes at today's fees with at most `value` of the caller's money; the rest goes to the request's `refundTo`. That may
    ///      call the dApp again before this returns: a dApp that writes state afterwards calls {sendWithin}, writes, and calls {refund}.
    function send(IRouter router, Route memory made, uint256 value) internal returns (bytes32 messageId) {
        uint256 rest;
        (messageId, rest) = sendWithin(router, made, value);
        refund(made, rest);
    }

    /// @dev The same without the refund: `rest` is what is left of `value`, in wei.
    function sendWithin(IRouter router, Route memory made, uint256 value)
        internal
        returns (bytes32 messageId, uint256 rest)
    {
        uint256 fees = price(router, made);
        if (value < fees) revert ValueBelowFees(value, fees);
        messageId = router.route{value: fees}(made);
        rest = value - fees;
    }

    /// @dev Writes what each GMP asks for now, and nothing for a GMP that asks for more than the request allows: it takes no message
    ///      then, and the others carry it if they are enough.
    /// @return fees Their sum, in wei.
    function price(IRouter router, Route memory made) internal view returns (uint256 fees) {
        (, GmpFee[] memory asked) = router.quoteRoute(made);
        for (uint256 index; index < asked.length; ++index) {
            if (asked[index].fee > made.gmps[index].fee) asked[index].fee = 0;
            fees += asked[index].fee;
        }
        made.gmps = asked;
    }

    /// @dev Pays `rest` to the request's `refundTo`, which may call the dApp again while it is paid.
    function refund(Route memory made, uint256 rest) internal {
        if (rest > 0) Address.sendValue(payable(made.refundTo), rest);
    }

    /// @dev The same message again over `gmps`, at today's fees.
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

    /// @dev The members of a set, in ascending order, with no fee yet.
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
