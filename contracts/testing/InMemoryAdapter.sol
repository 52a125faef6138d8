// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {BaseAdapter} from "../adapters/BaseAdapter.sol";
import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {IInMemoryRecipient, InMemoryGmp} from "./InMemoryGmp.sol";

/// @notice The adapter of {InMemoryGmp}. Only the GMP is simulated: trust checks, duplicates and rejections are those of
///         {BaseAdapter}.
contract InMemoryAdapter is BaseAdapter, IInMemoryRecipient {
    InMemoryGmp public immutable gmp;

    constructor(IRouter router_, InMemoryGmp gmp_) BaseAdapter(router_) {
        if (address(gmp_) == address(0)) revert ZeroConnection();
        gmp = gmp_;
    }

    /// @notice Connects a remote router's adapter.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter) external onlyRouterOwner {
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @inheritdoc IInMemoryRecipient
    function handle(uint64 sourceChain, bytes32 sender, bytes calldata body) external {
        if (msg.sender != address(gmp)) revert OnlyGmp(msg.sender);
        _receive(sourceChain, sender, body);
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(gmp);
    }

    function _send(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256, address) internal override {
        gmp.send{value: msg.value}(chain, remoteAdapter, envelope);
    }

    function _quote(uint64, bytes32, bytes calldata, uint256) internal view override returns (uint256) {
        return gmp.fee();
    }
}
