// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Router} from "../../../contracts/Router.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, MessageEncoding, Retry, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {Symbolic} from "./Symbolic.sol";

contract TakingAdapter {
    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable {}

    function quote(uint64, bytes32, bytes calldata, uint64) external pure returns (uint256) {
        return 0;
    }

    /// @dev Whichever router asks.
    function router() external view returns (address) {
        return msg.sender;
    }

    function transport() external view returns (address) {
        return address(this);
    }
}

contract WillingRecipient {
    function receiveMessage(bytes32, bytes calldata, bytes calldata) external payable returns (bytes4) {
        return this.receiveMessage.selector;
    }
}

/// @dev One router on the chain HERE with three adapters and a peer on the chain THERE.
abstract contract RouterWorld is Symbolic {
    using Addresses for address;

    uint64 internal constant HERE = 1;
    uint64 internal constant THERE = 10;
    uint256 internal constant START = 1_700_000_000;
    uint8 internal constant GMPS = 3;

    address internal constant OWNER = address(0xA0);
    address internal constant REVOKER = address(0xA1);
    address internal constant GUARDIAN = address(0xA2);
    address internal constant ALICE = address(0xA3);
    address internal constant RETRIER = address(0xA4);
    address internal constant REMOTE_ROUTER = address(0xA5);
    address internal constant TRIPWIRE = address(0xA6);

    IRouter internal router;
    address internal recipient;

    function setUp() public virtual {
        vm.chainId(HERE);
        vm.warp(START);
        router = IRouter(newRouter());
        recipient = address(new WillingRecipient());
        vm.startPrank(OWNER);
        router.setRevoker(REVOKER);
        router.setGuardian(GUARDIAN);
        router.setTripwire(TRIPWIRE);
        router.setPeer(THERE, REMOTE_ROUTER.toBytes32(), 1);
        for (uint8 number = 1; number <= GMPS; ++number) {
            router.addAdapter(Gmp.wrap(number), address(new TakingAdapter()));
        }
        vm.stopPrank();
    }

    /// @dev The router that is proven; twins override it.
    function newRouter() internal virtual returns (address) {
        return address(new Router(OWNER));
    }

    /// @dev A message of alice from THERE to HERE.
    function arriving(uint8 quorum) internal view returns (Message memory message) {
        message.sourceChain = THERE;
        message.sourceRouter = REMOTE_ROUTER.toBytes32();
        message.sender = ALICE.toBytes32();
        message.nonce = 1;
        message.destinationChain = HERE;
        message.destinationRouter = address(router).toBytes32();
        message.recipient = recipient.toBytes32();
        message.gasLimit = 100_000;
        message.sentAt = uint64(START);
        message.ttl = 7 days;
        message.quorum = quorum;
        message.payload = "hello";
    }

    /// @return success Whether the router took the delivery.
    function tryDeliver(Gmp gmp, Message memory message) internal returns (bool success) {
        return tryReceive(router.adapterOf(gmp), message.sourceChain, envelopeOf(message));
    }

    function tryReceive(address caller, uint64 originChain, bytes memory envelope) internal returns (bool success) {
        vm.prank(caller);
        (success,) = address(router).call(abi.encodeCall(IMessageReceiver.receiveMessage, (originChain, envelope)));
    }

    function envelopeOf(Message memory message) internal pure returns (bytes memory) {
        return MessageEncoding.encode(message, MessageEncoding.id(message));
    }

    function executionOf(bytes32 messageId) internal view returns (Execution execution) {
        (, execution) = router.receiptsOf(messageId);
    }

    function sent() internal returns (Message memory message, bytes32 messageId) {
        return sentWith(100_000, "");
    }

    /// @dev Alice sends a retriable message over GMP 1 to THERE.
    function sentWith(uint64 gasLimit, bytes memory payload)
        internal
        returns (Message memory message, bytes32 messageId)
    {
        Route memory request;
        request.destinationChain = THERE;
        request.recipient = ALICE.toBytes32();
        request.payload = payload;
        request.gasLimit = gasLimit;
        request.ttl = 7 days;
        request.quorum = 1;
        request.retriable = true;
        request.gmps = over(Gmp.wrap(1));
        request.refundTo = ALICE;
        vm.prank(ALICE);
        messageId = router.route(request);
        message = Message({
            sourceChain: HERE,
            sourceRouter: address(router).toBytes32(),
            sender: ALICE.toBytes32(),
            nonce: 1,
            destinationChain: THERE,
            destinationRouter: REMOTE_ROUTER.toBytes32(),
            recipient: request.recipient,
            gasLimit: request.gasLimit,
            sentAt: uint64(START),
            ttl: request.ttl,
            kind: Kind.PLAIN,
            quorum: 1,
            replaces: 0,
            payload: payload
        });
    }

    function retryOf(bytes32 messageId, Message memory message) internal pure returns (Retry memory) {
        return
            Retry({messageId: messageId, message: message, minDispatched: 1, gmps: over(Gmp.wrap(2)), refundTo: ALICE});
    }

    function over(Gmp gmp) internal pure returns (GmpFee[] memory gmps) {
        gmps = new GmpFee[](1);
        gmps[0].gmp = gmp;
    }
}
