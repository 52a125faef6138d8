// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILedger} from "../../../../contracts/interfaces/ILedger.sol";

/// @dev Can't be paid.
contract RefusingRefundee {
    error NoMoneyPlease();

    receive() external payable {
        revert NoMoneyPlease();
    }

    function withdraw(ILedger router, address payable to) external {
        router.withdraw(to);
    }
}

/// @dev Calls back when it is paid, and keeps what came of it.
contract ReentrantRefundee {
    address private _target;
    bytes private _call;
    bool public reentered;
    bytes public answer;

    function reenterWith(address target, bytes calldata call_) external {
        (_target, _call) = (target, call_);
    }

    receive() external payable {
        (reentered, answer) = _target.call(_call);
    }
}
