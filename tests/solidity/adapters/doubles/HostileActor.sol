// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

/// @notice Makes the calls that it was told whenever it is paid, and whenever it receives a message: inside the refund of a router or
///         a GMP, or inside a GMP's delivery. Whether they succeed is counted, and otherwise ignored.
contract HostileActor is IERC7786Recipient {
    struct Act {
        address target;
        uint256 value;
        bytes data;
    }

    Act[] private _acts;
    bool private _isActing;
    uint256 public moments;
    uint256 public successes;

    function plan(address target, uint256 value, bytes calldata data) external {
        _acts.push(Act(target, value, data));
    }

    /// @dev A call of its own, during which it may be called back.
    function make(address target, uint256 value, bytes calldata data) external {
        (bool succeeded, bytes memory reason) = target.call{value: value}(data);
        if (succeeded) return;
        assembly ("memory-safe") {
            revert(add(reason, 32), mload(reason))
        }
    }

    function receiveMessage(bytes32, bytes calldata, bytes calldata) external payable returns (bytes4) {
        _act();
        return IERC7786Recipient.receiveMessage.selector;
    }

    receive() external payable {
        _act();
    }

    function _act() private {
        if (_isActing || _acts.length == 0) return;
        _isActing = true;
        ++moments;
        for (uint256 index; index < _acts.length; ++index) {
            Act storage act = _acts[index];
            (bool succeeded,) = act.target.call{value: act.value}(act.data);
            if (succeeded) ++successes;
        }
        _isActing = false;
    }
}
