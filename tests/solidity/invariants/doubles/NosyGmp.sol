// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {InMemoryGmp} from "../../../../contracts/testing/InMemoryGmp.sol";

/// @dev A GMP in whose callbacks a stranger acts: while it takes a message, it calls the router that sends, and counts what went
///      through.
contract NosyGmp is InMemoryGmp {
    address private _router;
    bytes private _call;

    uint256 public intrusions;

    function arm(address router, bytes calldata data) external {
        (_router, _call) = (router, data);
    }

    function send(uint64 destinationChain, bytes32 recipient, bytes calldata body) public payable override {
        super.send(destinationChain, recipient, body);
        if (IAdapter(msg.sender).router() != _router) return;
        (bool success,) = _router.call(_call);
        if (success) ++intrusions;
    }
}
