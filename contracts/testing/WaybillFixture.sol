// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {Router} from "../Router.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Addresses} from "../libraries/Addresses.sol";
import {Gmp, GmpSet} from "../types/Gmp.sol";
import {GmpFee, Message, MessageEncoding, Retry} from "../types/Message.sol";
import {Execution} from "../types/MessageRecords.sol";
import {InMemoryAdapter} from "./InMemoryAdapter.sol";
import {InMemoryGmp} from "./InMemoryGmp.sol";

/// @notice For a dApp's own forge tests: two chains in one EVM, a real router on each, and three GMPs between them. The test
///         decides when and how often a GMP delivers. It needs no relayer, fork or network.
/// @dev Call `setUpWaybill()` first. For example:
///
///          bytes32 id = dapp.send(…);                          on the source
///          deliver(id, AXELAR);                                the quorum is reached: the recipient is called
///          deliver(id, AXELAR);                                a late duplicate: absorbed
///          sourceRouter.retryRoute{value: …}(retryOf(id, …));  over another GMP
///
///      The chain id is the source's, except inside deliveries and after {onDestination}. `quoted` and `retryOf` call
///      contracts, so call them before `vm.prank` and `vm.expectRevert`, which mean the next call.
abstract contract WaybillFixture is Test {
    using Addresses for address;

    uint64 internal constant SOURCE_CHAIN = 901;
    uint64 internal constant DESTINATION_CHAIN = 902;

    Gmp internal constant HYPERLANE = Gmp.wrap(1);
    Gmp internal constant AXELAR = Gmp.wrap(2);
    Gmp internal constant WORMHOLE = Gmp.wrap(3);
    uint8 private constant GMPS = 3;

    /// @dev The floor of both lanes, as after a deployment: a recipient without a policy needs two receipts, whatever the
    ///      message's quorum.
    uint8 internal constant FLOOR = 2;

    IRouter internal sourceRouter;
    IRouter internal destinationRouter;
    address internal waybillOwner;

    mapping(Gmp gmp => InMemoryGmp) private _networks;

    /// @dev No parcel over that GMP carries the message: it was not sent over the GMP, or the GMP did not accept it.
    error NotCarried(bytes32 messageId, Gmp gmp);

    /// @dev No GMP carries the message.
    error UnknownMessage(bytes32 messageId);

    // ---- set-up

    /// @dev Deploys routers, GMPs and adapters and connects them; leaves the chain id at the source's.
    function setUpWaybill() internal {
        waybillOwner = makeAddr("waybill owner");
        sourceRouter = IRouter(address(IRouter(address(new Router(waybillOwner)))));
        destinationRouter = IRouter(address(IRouter(address(new Router(waybillOwner)))));
        vm.label(address(sourceRouter), "source router");
        vm.label(address(destinationRouter), "destination router");
        for (uint8 number = 1; number <= GMPS; ++number) {
            _networks[Gmp.wrap(number)] = new InMemoryGmp();
        }
        for (uint8 number = 1; number <= GMPS; ++number) {
            _connect(Gmp.wrap(number));
        }
        vm.startPrank(waybillOwner);
        onDestination();
        destinationRouter.setPeer(SOURCE_CHAIN, address(sourceRouter).toBytes32(), FLOOR);
        onSource();
        sourceRouter.setPeer(DESTINATION_CHAIN, address(destinationRouter).toBytes32(), FLOOR);
        vm.stopPrank();
    }

    function onSource() internal {
        vm.chainId(SOURCE_CHAIN);
    }

    function onDestination() internal {
        vm.chainId(DESTINATION_CHAIN);
    }

    // ---- what GMPs do

    /// @dev Sets a GMP's fee, in wei; initially 0.
    function setFee(Gmp gmp, uint256 fee) internal {
        _networks[gmp].setFee(fee);
    }

    /// @dev While a GMP is broken, it accepts no messages; those that it has accepted can still be delivered.
    function setBroken(Gmp gmp, bool broken) internal {
        _networks[gmp].setBroken(broken);
    }

    /// @dev Makes the GMP deliver the message on its destination, in either direction, also repeatedly. If several attempts used
    ///      the GMP, the last one is delivered. Reverts as the adapter does if the router rejects the delivery.
    function deliver(bytes32 messageId, Gmp gmp) internal {
        (bool found, InMemoryGmp.Parcel memory parcel) = _parcelOf(messageId, gmp);
        if (!found) revert NotCarried(messageId, gmp);
        uint256 before = block.chainid;
        vm.chainId(parcel.destinationChain);
        _networks[gmp].deliver(parcel.sourceChain, parcel.sender, parcel.recipient, parcel.body);
        vm.chainId(before);
    }

    // ---- what a dApp needs to send and retry

    /// @dev The GMPs with their current fees.
    function quoted(Gmp first) internal view returns (GmpFee[] memory gmps) {
        gmps = new GmpFee[](1);
        gmps[0] = _quoted(first);
    }

    function quoted(Gmp first, Gmp second) internal view returns (GmpFee[] memory gmps) {
        gmps = new GmpFee[](2);
        (gmps[0], gmps[1]) = (_quoted(first), _quoted(second));
    }

    function quoted(Gmp first, Gmp second, Gmp third) internal view returns (GmpFee[] memory gmps) {
        gmps = new GmpFee[](3);
        (gmps[0], gmps[1], gmps[2]) = (_quoted(first), _quoted(second), _quoted(third));
    }

    /// @dev The sum of those fees, in wei.
    function totalOf(GmpFee[] memory gmps) internal pure returns (uint256 total) {
        for (uint256 index; index < gmps.length; ++index) {
            total += gmps[index].fee;
        }
    }

    /// @dev A retry of the message over those GMPs.
    function retryOf(bytes32 messageId, GmpFee[] memory gmps, address refundTo) internal view returns (Retry memory) {
        return
            Retry({
                messageId: messageId, message: messageOf(messageId), minDispatched: 1, gmps: gmps, refundTo: refundTo
            });
    }

    /// @dev The message as the GMPs carry it.
    function messageOf(bytes32 messageId) internal view returns (Message memory message) {
        for (uint8 number = 1; number <= GMPS; ++number) {
            (bool found, InMemoryGmp.Parcel memory parcel) = _parcelOf(messageId, Gmp.wrap(number));
            if (found) return this.decodeEnvelope(parcel.body);
        }
        revert UnknownMessage(messageId);
    }

    /// @dev External, because envelopes are decoded from calldata.
    function decodeEnvelope(bytes calldata envelope) external pure returns (Message memory message) {
        (, message) = MessageEncoding.decode(envelope);
    }

    // ---- outcomes

    function assertExecuted(bytes32 messageId) internal view {
        (, Execution execution) = _routerAt(messageId).receiptsOf(messageId);
        assertTrue(execution == Execution.EXECUTED, "not executed");
    }

    function assertNotExecuted(bytes32 messageId) internal view {
        (, Execution execution) = _routerAt(messageId).receiptsOf(messageId);
        assertTrue(execution == Execution.NONE, "executed, or ended otherwise");
    }

    function assertReceipts(bytes32 messageId, uint8 expected) internal view {
        (GmpSet valid,) = _routerAt(messageId).receiptsOf(messageId);
        assertEq(valid.count(), expected, "receipts");
    }

    // ---- helpers

    function _connect(Gmp gmp) private {
        InMemoryAdapter here = new InMemoryAdapter(sourceRouter, _networks[gmp]);
        InMemoryAdapter there = new InMemoryAdapter(destinationRouter, _networks[gmp]);
        vm.startPrank(waybillOwner);
        onDestination();
        destinationRouter.addAdapter(gmp, address(there));
        there.connect(SOURCE_CHAIN, address(sourceRouter).toBytes32(), address(here).toBytes32());
        onSource();
        sourceRouter.addAdapter(gmp, address(here));
        here.connect(DESTINATION_CHAIN, address(destinationRouter).toBytes32(), address(there).toBytes32());
        vm.stopPrank();
    }

    function _quoted(Gmp gmp) private view returns (GmpFee memory) {
        return GmpFee({gmp: gmp, fee: _networks[gmp].fee()});
    }

    function _routerAt(bytes32 messageId) private view returns (IRouter) {
        return messageOf(messageId).destinationChain == DESTINATION_CHAIN ? destinationRouter : sourceRouter;
    }

    function _parcelOf(bytes32 messageId, Gmp gmp) private view returns (bool, InMemoryGmp.Parcel memory parcel) {
        InMemoryGmp network = _networks[gmp];
        for (uint256 index = network.count(); index > 0; --index) {
            parcel = network.parcel(index - 1);
            if (MessageEncoding.statedId(parcel.body) == messageId) return (true, parcel);
        }
        return (false, parcel);
    }
}
