// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

import {Reentrant} from "./Reentrant.sol";

/// @dev Accepts everything and remembers it.
contract AcceptingRecipient is IERC7786Recipient {
    uint256 public received;
    uint256 public gasReceived;
    address public lastCaller;
    bytes32 public lastId;
    bytes public lastSender;
    bytes public lastPayload;
    mapping(bytes32 messageId => uint256 times) public timesReceived;

    function receiveMessage(bytes32 receiveId, bytes calldata sender, bytes calldata payload)
        public
        payable
        virtual
        returns (bytes4)
    {
        gasReceived = gasleft();
        ++received;
        ++timesReceived[receiveId];
        (lastCaller, lastId, lastSender, lastPayload) = (msg.sender, receiveId, sender, payload);
        return IERC7786Recipient.receiveMessage.selector;
    }
}

/// @dev Reverts until it is mended.
contract RevertingRecipient is AcceptingRecipient {
    bool public mended;

    error NotYet(bytes32 receiveId);

    function mend() external {
        mended = true;
    }

    function receiveMessage(bytes32 receiveId, bytes calldata sender, bytes calldata payload)
        public
        payable
        override
        returns (bytes4)
    {
        if (!mended) revert NotYet(receiveId);
        return super.receiveMessage(receiveId, sender, payload);
    }
}

/// @dev Does its work, then returns something that is not the selector.
contract WrongReturnRecipient is IERC7786Recipient {
    uint256 public received;
    bytes4 private immutable _answer;

    constructor(bytes4 answer) {
        _answer = answer;
    }

    function receiveMessage(bytes32, bytes calldata, bytes calldata) external payable returns (bytes4) {
        ++received;
        return _answer;
    }
}

/// @dev Accepts calls of any kind, and returns nothing.
contract SilentRecipient {
    uint256 public received;

    fallback() external payable {
        ++received;
    }
}

/// @dev Answers with a megabyte, by return or by revert.
contract ReturnBombRecipient {
    bool private immutable _reverts;

    constructor(bool reverts) {
        _reverts = reverts;
    }

    fallback() external payable {
        bool reverts = _reverts;
        assembly ("memory-safe") {
            if reverts { revert(0, 1000000) }
            return(0, 1000000)
        }
    }
}

/// @dev Burns all gas that it gets.
contract GasBurningRecipient is IERC7786Recipient {
    function receiveMessage(bytes32, bytes calldata, bytes calldata) external payable returns (bytes4) {
        while (true) {}
        return 0;
    }
}

/// @dev Succeeds differently when it gets little gas: what a relayer could choose if gas were not guarded.
contract DegradingRecipient is IERC7786Recipient {
    uint256 private immutable _needed;
    uint256 public done;
    uint256 public degraded;

    constructor(uint256 needed) {
        _needed = needed;
    }

    function receiveMessage(bytes32, bytes calldata, bytes calldata) external payable returns (bytes4) {
        if (gasleft() < _needed) ++degraded;
        else ++done;
        return IERC7786Recipient.receiveMessage.selector;
    }
}

/// @dev Makes a call while it receives, and keeps what came of it.
contract ReentrantRecipient is IERC7786Recipient, Reentrant {
    function receiveMessage(bytes32, bytes calldata, bytes calldata) external payable returns (bytes4) {
        _reenter();
        return IERC7786Recipient.receiveMessage.selector;
    }
}
