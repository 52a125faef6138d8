// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {BaseAdapter} from "./BaseAdapter.sol";

/// @dev The functions of Wormhole's core that the adapter calls.
interface IWormhole {
    struct Signature {
        bytes32 r;
        bytes32 s;
        uint8 v;
        uint8 guardianIndex;
    }

    /// @dev A parsed verified action approval (VAA).
    struct VM {
        uint8 version;
        uint32 timestamp;
        uint32 nonce;
        uint16 emitterChainId;
        bytes32 emitterAddress;
        uint64 sequence;
        uint8 consistencyLevel;
        bytes payload;
        uint32 guardianSetIndex;
        Signature[] signatures;
        bytes32 hash;
    }

    function publishMessage(uint32 nonce, bytes memory payload, uint8 consistencyLevel)
        external
        payable
        returns (uint64 sequence);

    function messageFee() external view returns (uint256);

    function parseAndVerifyVM(bytes calldata encodedVm)
        external
        view
        returns (VM memory vm, bool valid, string memory reason);
}

/// @notice Sends and receives over Wormhole's core. A VAA names no destination and the core keeps no replay state, so the router
///         checks both.
contract WormholeAdapter is BaseAdapter {
    IWormhole public immutable core;

    /// @notice The finality after which guardians sign, as Wormhole's consistency level.
    uint8 public immutable consistencyLevel;

    /// @notice Wormhole's core rejected the VAA.
    error InvalidVaa(string reason);

    constructor(IRouter router_, IWormhole core_, uint8 consistencyLevel_) BaseAdapter(router_) {
        if (address(core_) == address(0)) revert ZeroConnection();
        core = core_;
        consistencyLevel = consistencyLevel_;
    }

    /// @notice Connects a remote router's adapter on the chain with Wormhole's `id`.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter, uint16 id) external onlyRouterOwner {
        _setNumber(chain, id);
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @notice Delivers a message that the guardians signed. Open to anyone.
    function deliver(bytes calldata vaa) external {
        (IWormhole.VM memory vm, bool valid, string memory reason) = core.parseAndVerifyVM(vaa);
        if (!valid) revert InvalidVaa(reason);
        _receive(chainOf(vm.emitterChainId), vm.emitterAddress, vm.payload);
    }

    /// @notice Wormhole's number for a chain, or 0.
    function wormholeIdOf(uint64 chain) external view returns (uint16) {
        return uint16(_numberOf(chain));
    }

    /// @notice The chain with that Wormhole number, or 0.
    function chainOf(uint16 id) public view returns (uint64) {
        return _chainOf(id);
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(core);
    }

    /// @dev The core's fee does not cover delivery, and the core accepts exactly that amount.
    function _send(uint64, bytes32, bytes calldata envelope, uint256, address) internal override {
        uint256 fee = core.messageFee();
        _requireFee(fee);
        core.publishMessage{value: fee}(0, envelope, consistencyLevel);
    }

    function _quote(uint64, bytes32, bytes calldata, uint256) internal view override returns (uint256) {
        return core.messageFee();
    }
}
