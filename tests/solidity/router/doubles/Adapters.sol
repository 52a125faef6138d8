// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IMessageReceiver} from "../../../../contracts/interfaces/IMessageReceiver.sol";
import {Reentrant} from "./Reentrant.sol";

/// @dev Takes every envelope, remembers the last, and delivers whatever it is told to: honest or lying as the test likes.
contract RecordingAdapter is IAdapter {
    uint256 public dispatches;
    uint256 public lastValue;
    uint256 public fee;
    address public lastRefundTo;
    bytes public lastEnvelope;
    address private _router;
    address private _transport;

    function setFee(uint256 fee_) external {
        fee = fee_;
    }

    function dispatch(uint64, bytes32, bytes calldata envelope, uint64, address refundTo) external payable virtual {
        ++dispatches;
        lastValue = msg.value;
        lastRefundTo = refundTo;
        lastEnvelope = envelope;
    }

    function deliver(IMessageReceiver router, uint64 originChain, bytes calldata envelope) external {
        router.receiveMessage(originChain, envelope);
    }

    function quote(uint64, bytes32, bytes calldata, uint64) external view virtual returns (uint256) {
        return fee;
    }

    function disconnect(uint64, bytes32) external {}

    function remoteAdapterOf(uint64, bytes32) external pure returns (bytes32) {
        return 0;
    }

    /// @dev Whichever router asks, unless a test says otherwise.
    function router() external view returns (address) {
        return _router == address(0) ? msg.sender : _router;
    }

    function transport() external view returns (address) {
        return _transport == address(0) ? address(this) : _transport;
    }

    function setIdentity(address router_, address transport_) external {
        (_router, _transport) = (router_, transport_);
    }
}

/// @dev Takes nothing while it is down.
contract FailingAdapter is RecordingAdapter {
    bool public down = true;

    error GmpIsDown();

    function setDown(bool down_) external {
        down = down_;
    }

    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable override {
        if (down) revert GmpIsDown();
        ++dispatches;
    }

    function quote(uint64, bytes32, bytes calldata, uint64) external view override returns (uint256) {
        if (down) revert GmpIsDown();
        return fee;
    }
}

/// @dev Takes nothing below its fee, as every real adapter does.
contract PricedAdapter is RecordingAdapter {
    function dispatch(uint64, bytes32, bytes calldata envelope, uint64, address refundTo) external payable override {
        if (msg.value < fee) revert WrongFee(msg.value, fee);
        ++dispatches;
        (lastValue, lastRefundTo, lastEnvelope) = (msg.value, refundTo, envelope);
    }
}

/// @dev Asked for its fee, it says nothing; takes nothing either.
contract MuteAdapter is RecordingAdapter {
    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable override {
        revert();
    }

    function quote(uint64, bytes32, bytes calldata, uint64) external pure override returns (uint256) {
        assembly ("memory-safe") {
            return(0, 0)
        }
    }
}

/// @dev Burns all gas that it gets.
contract GasBurningAdapter is RecordingAdapter {
    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable override {
        while (true) {}
    }
}

/// @dev Needs an amount of gas, as real GMPs do, and fails with less.
contract GasHungryAdapter is RecordingAdapter {
    uint256 private immutable _appetite;

    constructor(uint256 appetite) {
        _appetite = appetite;
    }

    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable override {
        uint256 end = gasleft() - _appetite;
        while (gasleft() > end) {}
        ++dispatches;
    }
}

/// @dev Refuses at once, as a GMP may, if it gets less gas than it counts on.
contract GasCountingAdapter is RecordingAdapter {
    uint256 private immutable _least;

    error TooLittleGas(uint256 left);

    constructor(uint256 least) {
        _least = least;
    }

    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable override {
        if (gasleft() < _least) revert TooLittleGas(gasleft());
        ++dispatches;
    }
}

/// @dev Fails with as many bytes of reason as half of an adapter's gas buys; with none left it would fail without a reason.
contract ReturnBombAdapter is RecordingAdapter {
    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable override {
        assembly ("memory-safe") {
            revert(0, 400000)
        }
    }
}

/// @dev Calls back while it is given an envelope, and keeps what came of it.
contract ReentrantAdapter is RecordingAdapter, Reentrant {
    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable override {
        ++dispatches;
        _reenter();
    }
}
