// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {IRouter} from "../contracts/interfaces/IRouter.sol";
import {Addresses} from "../contracts/libraries/Addresses.sol";
import {Gmp} from "../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, MessageEncoding, Retry, Route} from "../contracts/types/Message.sol";
import {ExecutionGas} from "./ExecutionGas.sol";
import {SendFloor} from "./SendFloor.sol";

/// @dev What {SendFloor} takes besides a router's calls.
interface ISendFloor {
    function routeBatch(uint256 count, Route calldata request) external payable;
}

/// @dev What a router asks of every adapter before it takes it; of these, any router may.
abstract contract MeasuredAdapter {
    function router() external view returns (address) {
        return msg.sender;
    }

    function transport() external view returns (address) {
        return address(this);
    }
}

/// @dev Takes whatever it is given and does nothing at all, so that nothing but the router is measured.
contract StubAdapter is MeasuredAdapter {
    fallback() external payable {}
}

/// @dev Logs the envelope, as the dearest of the GMPs do.
contract LoggingAdapter is MeasuredAdapter {
    event Accepted(bytes envelope);

    function dispatch(uint64, bytes32, bytes calldata envelope, uint64, address) external payable {
        emit Accepted(envelope);
    }
}

contract NoOpRecipient is IERC7786Recipient {
    function receiveMessage(bytes32, bytes calldata, bytes calldata) external payable returns (bytes4) {
        return IERC7786Recipient.receiveMessage.selector;
    }
}

/// @notice Gas of the router alone: a 32-byte payload, each call a transaction of its own (`--isolate`), adapters and recipient
///         that do nothing, no fees, lane slots already non-zero. What is counted is the execution: less 21,000 and calldata.
///         {RouterGas} writes the figures, tests/solidity/gas compares them with the last ones.
abstract contract RouterGasHarness is ExecutionGas {
    using Addresses for address;

    uint64 private constant HERE = 1;
    uint64 private constant THERE = 10;

    /// @dev By the number of GMPs, or by the number of the receipt; the third receipt executes.
    struct Gas {
        uint256[] sendRetriable;
        uint256[] send;
        uint256[] resend;
        uint256[] receive3of3;
    }

    IRouter private _source;
    IRouter private _destination;
    address private _recipient;
    address[16] private _inbound;
    /// @dev Messages that the source created.
    uint64 private _sent;

    function setUp() public {
        vm.warp(1_700_000_000);
        _source = _router();
        _destination = _router();
        _recipient = address(new NoOpRecipient());
        for (uint8 number = 1; number <= 3; ++number) {
            _add(_source, Gmp.wrap(number));
            _inbound[number - 1] = _add(_destination, Gmp.wrap(number));
        }
        vm.chainId(HERE);
        _source.setPeer(THERE, address(_destination).toBytes32(), 1);
        vm.chainId(THERE);
        _destination.setPeer(HERE, address(_source).toBytes32(), 1);
        vm.chainId(HERE);
        _route(1, true);
        _receive(1, _message(1, 1000));
        vm.chainId(HERE);
    }

    /// @dev As a deployment adds it.
    function _add(IRouter router, Gmp gmp) private returns (address adapter) {
        adapter = router.createAdapter(gmp, 1, type(StubAdapter).creationCode);
        router.addAdapter(gmp, adapter);
    }

    /// @dev As it is deployed: `python -m scripts.release` compiles it.
    function _router() private returns (IRouter) {
        return IRouter(vm.deployCode("build/release/out/Router.sol/Router.json", abi.encode(address(this))));
    }

    function _measure() internal returns (Gas memory gas) {
        gas = _measureSending();
        gas.receive3of3 = new uint256[](3);
        Message memory message = _message(3, 5);
        for (uint8 number = 1; number <= 3; ++number) {
            gas.receive3of3[number - 1] = _receive(number, message);
        }
        vm.chainId(HERE);
    }

    function _measureSending() private returns (Gas memory gas) {
        (gas.sendRetriable, gas.send, gas.resend) = (new uint256[](3), new uint256[](3), new uint256[](3));
        for (uint8 gmps = 1; gmps <= 3; ++gmps) {
            gas.sendRetriable[gmps - 1] = _route(gmps, true);
            gas.send[gmps - 1] = _route(gmps, false);
            gas.resend[gmps - 1] = _resend(gmps);
        }
    }

    /// @dev The same with {SendFloor} in the router's place.
    /// @return gas Of sending alone.
    /// @return batch Of ten messages at once over 1, 2 and 3 GMPs: not retriable, and then retriable.
    function _measureFloor() internal returns (Gas memory gas, uint256[] memory batch) {
        vm.etch(address(_source), address(new SendFloor()).code);
        gas = _measureSending();
        batch = new uint256[](6);
        for (uint8 gmps = 1; gmps <= 3; ++gmps) {
            batch[gmps - 1] = _routeBatch(gmps, false);
            batch[gmps + 2] = _routeBatch(gmps, true);
        }
    }

    function _routeBatch(uint8 gmps, bool retriable) private returns (uint256) {
        Route memory request = _request(gmps, retriable);
        ISendFloor(address(_source)).routeBatch(10, request);
        return _executionGas(abi.encodeCall(ISendFloor.routeBatch, (10, request)));
    }

    function _route(uint8 gmps, bool retriable) private returns (uint256) {
        Route memory request = _request(gmps, retriable);
        _source.route(request);
        ++_sent;
        return _executionGas(abi.encodeCall(_source.route, (request)));
    }

    function _resend(uint8 gmps) private returns (uint256) {
        Message memory message = _message(gmps, 0);
        message.nonce = ++_sent;
        message.sender = address(this).toBytes32();
        Route memory request = _request(gmps, true);
        bytes32 messageId = _source.route(request);
        Retry memory retry = Retry(messageId, message, gmps, request.gmps, address(this));
        _source.retryRoute(retry);
        return _executionGas(abi.encodeCall(_source.retryRoute, (retry)));
    }

    /// @dev The longest payload over as many GMPs as there can be, calldata included.
    function _largestSend() internal returns (uint256) {
        for (uint8 number = 1; number <= 16; ++number) {
            address adapter = address(new LoggingAdapter());
            if (number <= 3) _source.replaceAdapter(Gmp.wrap(number), adapter);
            else _source.addAdapter(Gmp.wrap(number), adapter);
        }
        Route memory request = _request(16, true);
        request.payload = new bytes(32_768);
        for (uint256 index; index < request.payload.length; ++index) {
            request.payload[index] = 0x5a;
        }
        _source.route(request);
        return vm.lastCallGas().gasTotalUsed;
    }

    function _receive(uint8 number, Message memory message) private returns (uint256) {
        vm.chainId(THERE);
        bytes memory envelope = MessageEncoding.encode(message, MessageEncoding.id(message));
        vm.prank(_inbound[number - 1]);
        _destination.receiveMessage(HERE, envelope);
        return _executionGas(abi.encodeCall(_destination.receiveMessage, (HERE, envelope)));
    }

    function _request(uint8 gmps, bool retriable) private view returns (Route memory request) {
        request.destinationChain = THERE;
        request.recipient = _recipient.toBytes32();
        request.payload = abi.encode(uint256(0x5a));
        request.gasLimit = 50_000;
        request.ttl = 7 days;
        request.quorum = gmps;
        request.retriable = retriable;
        request.refundTo = address(this);
        request.gmps = new GmpFee[](gmps);
        for (uint8 index; index < gmps; ++index) {
            request.gmps[index].gmp = Gmp.wrap(index + 1);
        }
    }

    function _message(uint8 quorum, uint64 nonce) private view returns (Message memory) {
        Route memory request = _request(1, true);
        return Message({
            sourceChain: HERE,
            sourceRouter: address(_source).toBytes32(),
            sender: address(this).toBytes32(),
            nonce: nonce,
            destinationChain: THERE,
            destinationRouter: address(_destination).toBytes32(),
            recipient: request.recipient,
            gasLimit: request.gasLimit,
            sentAt: uint64(block.timestamp),
            ttl: request.ttl,
            kind: Kind.PLAIN,
            quorum: quorum,
            replaces: 0,
            payload: request.payload
        });
    }
}
