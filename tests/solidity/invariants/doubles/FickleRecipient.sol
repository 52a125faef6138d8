// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

/// @dev Receives as its mood is, and keeps count of what it accepted: what is undone leaves no trace.
contract FickleRecipient is IERC7786Recipient {
    enum Mood {
        ACCEPTS,
        REVERTS,
        ANSWERS_WRONGLY,
        BURNS_ALL_GAS,
        CALLS_BACK
    }

    Mood public mood;
    address private target;
    bytes private call;

    mapping(bytes32 messageId => uint256 times) public timesAccepted;

    /// @notice How often a call from here into the router's receiving half went through.
    uint256 public intrusions;
    bool private isIntrusion;

    /// @dev Between the two lies what the call said; nothing of it holds unless `success`.
    event CallingBack();
    event CalledBack(bool success);

    error NotNow();

    function setMood(Mood mood_) external {
        mood = mood_;
    }

    /// @dev From now on it makes this call whenever it receives; to zero: to the router that it receives from.
    function setCall(address target_, bytes calldata call_, bool isIntrusion_) external {
        (mood, target, call, isIntrusion) = (Mood.CALLS_BACK, target_, call_, isIntrusion_);
    }

    function receiveMessage(bytes32 receiveId, bytes calldata, bytes calldata) external payable returns (bytes4) {
        ++timesAccepted[receiveId];
        if (mood == Mood.REVERTS) revert NotNow();
        if (mood == Mood.ANSWERS_WRONGLY) return 0xdeadbeef;
        while (mood == Mood.BURNS_ALL_GAS) {}
        if (mood == Mood.CALLS_BACK) {
            emit CallingBack();
            (bool success,) = (target == address(0) ? msg.sender : target).call(call);
            emit CalledBack(success);
            if (success && isIntrusion) ++intrusions;
        }
        return IERC7786Recipient.receiveMessage.selector;
    }
}
