// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";

/// @notice Takes every envelope for nothing and delivers none, until somebody makes it {bring} one to its own router.
contract SilentAdapter is IAdapter {
    IRouter private immutable _router;

    constructor(IRouter router_) {
        _router = router_;
    }

    function bring(uint64 originChain, bytes calldata envelope) external {
        _router.receiveMessage(originChain, envelope);
    }

    function router() external view returns (address) {
        return address(_router);
    }

    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable {}

    function quote(uint64, bytes32, bytes calldata, uint64) external pure returns (uint256) {
        return 0;
    }

    function disconnect(uint64, bytes32) external {}

    function remoteAdapterOf(uint64, bytes32) external pure returns (bytes32) {
        return 0;
    }

    function transport() external view returns (address) {
        return address(this);
    }
}
