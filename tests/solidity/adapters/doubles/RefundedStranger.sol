// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILayerZeroEndpoint} from "../../../../contracts/adapters/LayerZeroAdapter.sol";

/// @notice Sends a message of its own over LayerZero with one wei too much, and makes a call while the endpoint pays that back: then the
///         endpoint refuses every send, and quotes as ever.
contract RefundedStranger {
    ILayerZeroEndpoint private immutable _endpoint;

    address private _target;
    uint256 private _value;
    bytes private _call;
    bool public succeeded;

    constructor(ILayerZeroEndpoint endpoint) {
        _endpoint = endpoint;
    }

    function callWhileRefunded(
        ILayerZeroEndpoint.MessagingParams calldata params,
        address target,
        uint256 value,
        bytes calldata data
    ) external payable {
        (_target, _value, _call) = (target, value, data);
        uint256 fee = _endpoint.quote(params, address(this)).nativeFee;
        _endpoint.send{value: fee + 1}(params, address(this));
    }

    receive() external payable {
        if (msg.sender != address(_endpoint)) return;
        (succeeded,) = _target.call{value: _value}(_call);
    }
}
