// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BaseAdapter} from "../../../../contracts/adapters/BaseAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";

// Hyperlane adapters that each forget one check of {HyperlaneAdapter} and {BaseAdapter}. They only receive.

abstract contract VulnerableAdapter is BaseAdapter {
    address internal immutable mailbox;
    uint32 internal immutable domain;
    uint64 internal immutable chain;

    constructor(IRouter router_, address mailbox_, uint32 domain_, uint64 chain_) BaseAdapter(router_) {
        (mailbox, domain, chain) = (mailbox_, domain_, chain_);
    }

    function connect(bytes32 remoteRouter, bytes32 remoteAdapter) external onlyRouterOwner {
        _connect(chain, remoteRouter, remoteAdapter);
    }

    function handle(uint32 origin, bytes32 sender, bytes calldata body) external virtual;

    function transport() external view returns (address) {
        return mailbox;
    }

    function _send(uint64, bytes32, bytes calldata, uint256, address) internal override {}

    function _quote(uint64, bytes32, bytes calldata, uint256) internal pure override returns (uint256) {
        return 0;
    }

    function _chainBehind(uint32 origin) internal view returns (uint64) {
        return origin == domain ? chain : 0;
    }
}

/// @notice Does not ask who calls.
contract OpenAdapter is VulnerableAdapter {
    constructor(IRouter r, address m, uint32 d, uint64 c) VulnerableAdapter(r, m, d, c) {}

    function handle(uint32 origin, bytes32 sender, bytes calldata body) external override {
        _receive(_chainBehind(origin), sender, body);
    }
}

/// @notice Does not ask who sent it.
contract TrustingAdapter is VulnerableAdapter {
    constructor(IRouter r, address m, uint32 d, uint64 c) VulnerableAdapter(r, m, d, c) {}

    function handle(uint32 origin, bytes32, bytes calldata body) external override {
        if (msg.sender != mailbox) revert OnlyGmp(msg.sender);
        _router.receiveMessage(_chainBehind(origin), body);
    }
}

/// @notice Does not ask on which chain the sender is.
contract ChainBlindAdapter is VulnerableAdapter {
    constructor(IRouter r, address m, uint32 d, uint64 c) VulnerableAdapter(r, m, d, c) {}

    function handle(uint32, bytes32 sender, bytes calldata body) external override {
        if (msg.sender != mailbox) revert OnlyGmp(msg.sender);
        _receive(chain, sender, body);
    }
}

/// @notice Does not ask for which router the sender speaks.
contract RouterBlindAdapter is VulnerableAdapter {
    constructor(IRouter r, address m, uint32 d, uint64 c) VulnerableAdapter(r, m, d, c) {}

    function handle(uint32 origin, bytes32 sender, bytes calldata body) external override {
        if (msg.sender != mailbox) revert OnlyGmp(msg.sender);
        if (!_isTrusted(_chainBehind(origin), sender)) revert UntrustedRemote(_chainBehind(origin), sender);
        _router.receiveMessage(_chainBehind(origin), body);
    }
}

/// @notice Tells the GMP that everything was delivered.
contract SwallowingAdapter is VulnerableAdapter {
    constructor(IRouter r, address m, uint32 d, uint64 c) VulnerableAdapter(r, m, d, c) {}

    function handle(uint32 origin, bytes32, bytes calldata body) external override {
        if (msg.sender != mailbox) revert OnlyGmp(msg.sender);
        try _router.receiveMessage(_chainBehind(origin), body) {} catch {}
    }
}

/// @notice Hands every revert on to the GMP, a duplicate's, too.
contract StubbornAdapter is VulnerableAdapter {
    constructor(IRouter r, address m, uint32 d, uint64 c) VulnerableAdapter(r, m, d, c) {}

    function handle(uint32 origin, bytes32, bytes calldata body) external override {
        if (msg.sender != mailbox) revert OnlyGmp(msg.sender);
        _router.receiveMessage(_chainBehind(origin), body);
    }
}
