// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev Makes a call when it is called itself, and keeps what came of it.
abstract contract Reentrant {
    address private _target;
    bytes private _call;
    uint256 private _value;
    bool public reentered;
    bytes public answer;

    function reenterWith(address target, bytes calldata call_) external payable {
        (_target, _call, _value) = (target, call_, msg.value);
    }

    function _reenter() internal {
        (reentered, answer) = _target.call{value: _value}(_call);
    }
}
