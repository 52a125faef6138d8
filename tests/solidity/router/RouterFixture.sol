// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Vm} from "forge-std/Vm.sol";

import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {
    DispatchFailure,
    GmpFee,
    Kind,
    Message,
    MessageEncoding,
    Retry,
    Route
} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {RecordingAdapter} from "./doubles/Adapters.sol";
import {AcceptingRecipient} from "./doubles/Recipients.sol";

/// @dev Two routers that are peers, on two chain ids of one EVM, with three GMPs between them that a test drives by hand.
abstract contract RouterFixture is Test {
    using Addresses for address;

    uint64 internal constant HERE = 1;
    uint64 internal constant THERE = 10;
    uint64 internal constant GAS_LIMIT = 200_000;
    uint256 internal constant START = 1_700_000_000;

    Gmp internal constant HYPERLANE = Gmp.wrap(1);
    Gmp internal constant AXELAR = Gmp.wrap(2);
    Gmp internal constant WORMHOLE = Gmp.wrap(3);

    address internal owner = makeAddr("owner");
    address internal alice = makeAddr("alice");
    address internal stranger = makeAddr("stranger");
    address payable internal refundee = payable(makeAddr("refundee"));

    IRouter internal source;
    IRouter internal destination;
    mapping(Gmp => RecordingAdapter) internal outbound;
    mapping(Gmp => RecordingAdapter) internal inbound;
    AcceptingRecipient internal recipient;

    function setUp() public virtual {
        vm.warp(START);
        source = TestedRouter.deploy(owner);
        destination = TestedRouter.deploy(owner);
        recipient = new AcceptingRecipient();
        for (uint8 number = 1; number <= 3; ++number) {
            outbound[Gmp.wrap(number)] = new RecordingAdapter();
            inbound[Gmp.wrap(number)] = new RecordingAdapter();
            vm.startPrank(owner);
            source.addAdapter(Gmp.wrap(number), address(outbound[Gmp.wrap(number)]));
            destination.addAdapter(Gmp.wrap(number), address(inbound[Gmp.wrap(number)]));
            vm.stopPrank();
        }
        onSource();
        vm.prank(owner);
        source.setPeer(THERE, address(destination).toBytes32(), 1);
        onDestination();
        vm.prank(owner);
        destination.setPeer(HERE, address(source).toBytes32(), 1);
        onSource();
        vm.deal(alice, 100 ether);
        vm.deal(stranger, 100 ether);
        vm.label(address(source), "source");
        vm.label(address(destination), "destination");
    }

    function onSource() internal {
        vm.chainId(HERE);
    }

    function onDestination() internal {
        vm.chainId(THERE);
    }

    // ---- sending

    /// @dev A retriable message over the first `gmps` GMPs with that quorum, without fees; the quorum of them must take it.
    function usualRoute(uint8 gmps, uint8 quorum) internal view returns (Route memory request) {
        request.destinationChain = THERE;
        request.recipient = address(recipient).toBytes32();
        request.payload = "hello";
        request.gasLimit = GAS_LIMIT;
        request.ttl = 7 days;
        request.quorum = quorum;
        request.retriable = true;
        request.minDispatched = quorum < gmps ? quorum : gmps;
        request.gmps = firstGmps(gmps);
        request.refundTo = refundee;
    }

    function firstGmps(uint8 gmps) internal pure returns (GmpFee[] memory named) {
        named = new GmpFee[](gmps);
        for (uint8 index; index < gmps; ++index) {
            named[index] = GmpFee({gmp: Gmp.wrap(index + 1), fee: 0});
        }
    }

    function oneGmp(Gmp gmp) internal pure returns (GmpFee[] memory named) {
        named = new GmpFee[](1);
        named[0] = GmpFee({gmp: gmp, fee: 0});
    }

    function totalFee(GmpFee[] memory named) internal pure returns (uint256 total) {
        for (uint256 index; index < named.length; ++index) {
            total += named[index].fee;
        }
    }

    /// @dev What `route` will make of the request when `sender` is the next to send.
    function expectedMessage(address sender, Route memory request) internal view returns (Message memory) {
        (uint64 count,) = source.sentTo(request.destinationChain);
        return Message({
            sourceChain: HERE,
            sourceRouter: address(source).toBytes32(),
            sender: sender.toBytes32(),
            nonce: count + 1,
            destinationChain: request.destinationChain,
            destinationRouter: source.peerOf(request.destinationChain),
            recipient: request.recipient,
            gasLimit: request.gasLimit,
            sentAt: uint64(block.timestamp),
            ttl: request.ttl,
            kind: request.kind,
            quorum: request.quorum,
            replaces: request.replaces,
            payload: request.payload
        });
    }

    /// @dev Gives the source another adapter of a GMP.
    function install(Gmp gmp, RecordingAdapter adapter) internal {
        vm.prank(owner);
        source.replaceAdapter(gmp, address(adapter));
        outbound[gmp] = adapter;
    }

    /// @dev Alice sends it.
    function send(Route memory request) internal returns (Message memory message, bytes32 messageId) {
        onSource();
        message = expectedMessage(alice, request);
        vm.prank(alice);
        messageId = source.route{value: totalFee(request.gmps)}(request);
        assertEq(messageId, MessageEncoding.id(message));
    }

    function usualRetry(Message memory message, Gmp gmp) internal view returns (Retry memory) {
        return Retry({
            messageId: MessageEncoding.id(message),
            message: message,
            minDispatched: 1,
            gmps: oneGmp(gmp),
            refundTo: refundee
        });
    }

    /// @dev What is reverted when exactly those GMPs refused, each with the same reason.
    function tooFew(uint256 dispatched, uint256 minimum, GmpFee[] memory failing, bytes memory reason)
        internal
        pure
        returns (bytes memory)
    {
        DispatchFailure[] memory failures = new DispatchFailure[](failing.length);
        for (uint256 index; index < failing.length; ++index) {
            failures[index] = DispatchFailure(failing[index].gmp, reason);
        }
        return abi.encodeWithSelector(IMessageSender.TooFewDispatched.selector, dispatched, minimum, failures);
    }

    // ---- receiving

    function envelopeOf(Message memory message) internal pure returns (bytes memory) {
        return MessageEncoding.encode(message, MessageEncoding.id(message));
    }

    function deliver(Gmp gmp, Message memory message) internal {
        onDestination();
        inbound[gmp].deliver(destination, HERE, envelopeOf(message));
    }

    function assertReceipts(Message memory message, uint16 expected, Execution execution) internal view {
        (GmpSet receipts, Execution found) = destination.receiptsOf(MessageEncoding.id(message));
        assertEq(GmpSet.unwrap(receipts), expected);
        assertEq(uint8(found), uint8(execution));
    }

    /// @dev Whether no event of that kind was recorded since `vm.recordLogs`.
    function assertNotEmitted(bytes32 selector) internal {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 index; index < logs.length; ++index) {
            assertNotEq(logs[index].topics[0], selector);
        }
    }

    /// @dev A genuine message to the recipient, as if alice had sent it.
    function arriving(uint8 quorum) internal view returns (Message memory) {
        return arrivingFor(address(recipient), quorum);
    }

    function arrivingFor(address recipient_, uint8 quorum) internal view returns (Message memory) {
        return Message({
            sourceChain: HERE,
            sourceRouter: address(source).toBytes32(),
            sender: alice.toBytes32(),
            nonce: 1,
            destinationChain: THERE,
            destinationRouter: address(destination).toBytes32(),
            recipient: recipient_.toBytes32(),
            gasLimit: GAS_LIMIT,
            sentAt: uint64(block.timestamp),
            ttl: 7 days,
            kind: Kind.PLAIN,
            quorum: quorum,
            replaces: 0,
            payload: "hello"
        });
    }
}
