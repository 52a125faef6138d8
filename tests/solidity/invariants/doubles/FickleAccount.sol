// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRouterViews} from "../../../../contracts/interfaces/IRouterViews.sol";

/// @dev Sends messages and is paid refunds, or refuses them, or calls back for more.
contract FickleAccount {
    enum Mood {
        TAKES,
        REFUSES,
        CALLS_BACK
    }

    Mood public mood;

    error NoMoneyPlease();

    function setMood(Mood mood_) external {
        mood = mood_;
    }

    receive() external payable {
        if (mood == Mood.REFUSES) revert NoMoneyPlease();
        if (mood != Mood.CALLS_BACK) return;
        try IRouterViews(msg.sender).withdraw(payable(address(this))) {} catch {}
    }
}
