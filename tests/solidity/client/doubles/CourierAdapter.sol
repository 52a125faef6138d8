// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";

/// @notice A GMP without a network: takes envelopes for a fixed fee, and brings one to its own router when a test says so.
contract CourierAdapter is IAdapter {
    uint256 public constant FEE = 0.001 ether;

    IRouter private immutable _router;
    uint256 public taken;
    uint256 private _fee = FEE;

    constructor(IRouter router_) {
        _router = router_;
    }

    function setFee(uint256 fee) external {
        _fee = fee;
    }

    function bring(uint64 originChain, bytes calldata envelope) external {
        _router.receiveMessage(originChain, envelope);
    }

    function router() external view returns (address) {
        return address(_router);
    }

    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable {
        if (msg.value != _fee) revert WrongFee(msg.value, _fee);
        ++taken;
    }

    function quote(uint64, bytes32, bytes calldata, uint64) external view returns (uint256) {
        return _fee;
    }

    function disconnect(uint64, bytes32) external {}

    function remoteAdapterOf(uint64, bytes32) external pure returns (bytes32) {
        return 0;
    }

    function transport() external view returns (address) {
        return address(this);
    }
}
