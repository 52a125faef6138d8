// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRouterViews} from "../../../../contracts/interfaces/IRouterViews.sol";
import {Reentrant} from "./Reentrant.sol";

/// @dev Can't be paid.
contract RefusingRefundee {
    error NoMoneyPlease();

    receive() external payable {
        revert NoMoneyPlease();
    }

    function withdraw(IRouterViews router, address payable to) external {
        router.withdraw(to);
    }
}

/// @dev Calls back when it is paid, and keeps what came of it.
contract ReentrantRefundee is Reentrant {
    receive() external payable {
        _reenter();
    }
}
