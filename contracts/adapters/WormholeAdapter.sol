// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRelayerVault} from "../interfaces/IRelayerVault.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {MessageEncoding} from "../types/Message.sol";
import {BaseAdapter} from "./BaseAdapter.sol";

/// @dev What the adapter needs of Wormhole's core.
interface IWormhole {
    struct Signature {
        bytes32 r;
        bytes32 s;
        uint8 v;
        uint8 guardianIndex;
    }

    /// @dev A verified action approval (VAA), parsed.
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

/// @notice Speaks Wormhole's core. A VAA names no destination and the core keeps no replay state: both are the router's checks.
contract WormholeAdapter is BaseAdapter {
    IWormhole public immutable core;

    /// @notice How final a message must be before the guardians sign it, in Wormhole's numbers.
    uint8 public immutable consistencyLevel;

    /// @notice Wormhole delivers nothing by itself: who sends pays a relayer through this vault. Zero: a message costs the
    ///         guardians' fee alone, and a relayer delivers it at its own expense or not at all.
    IRelayerVault public vault;

    event VaultSet(IRelayerVault vault);

    /// @notice The core does not accept the VAA.
    error InvalidVaa(string reason);

    constructor(IRouter router_, IWormhole core_, uint8 consistencyLevel_) BaseAdapter(router_) {
        if (address(core_) == address(0)) revert ZeroConnection();
        core = core_;
        consistencyLevel = consistencyLevel_;
    }

    /// @notice Connects a remote router's adapter on the chain that Wormhole numbers `id`.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter, uint16 id) external onlyRouterOwner {
        _setNumber(chain, id);
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @notice Chooses the vault that senders pay; zero: none.
    function setVault(IRelayerVault vault_) external onlyRouterOwner {
        vault = vault_;
        emit VaultSet(vault_);
    }

    /// @notice Delivers a message that the guardians have signed. Open to anyone.
    function deliver(bytes calldata vaa) external {
        (IWormhole.VM memory vm, bool valid, string memory reason) = core.parseAndVerifyVM(vaa);
        if (!valid) revert InvalidVaa(reason);
        _receive(chainOf(vm.emitterChainId), vm.emitterAddress, vm.payload);
    }

    /// @notice Wormhole's number for a chain, or 0.
    function wormholeIdOf(uint64 chain) external view returns (uint16) {
        return uint16(_numberOf(chain));
    }

    /// @notice The chain behind Wormhole's number, or 0.
    function chainOf(uint16 id) public view returns (uint64) {
        return _chainOf(id);
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(core);
    }

    /// @dev The guardians' fee covers no delivery, and the core wants exactly that much. The rest of the fee is the relayer's.
    function _send(uint64 chain, bytes32, bytes calldata envelope, uint256 gasLimit, address refundTo)
        internal
        override
    {
        (uint256 fee, uint256 price) = (core.messageFee(), _price(chain, envelope.length, gasLimit));
        _refundExcess(fee + price, refundTo);
        core.publishMessage{value: fee}(0, envelope, consistencyLevel);
        if (price != 0) {
            vault.pay{value: price}(MessageEncoding.statedId(envelope), _router.gmpOf(address(this)), chain, refundTo);
        }
    }

    function _quote(uint64 chain, bytes32, bytes calldata envelope, uint256 gasLimit)
        internal
        view
        override
        returns (uint256)
    {
        return core.messageFee() + _price(chain, envelope.length, gasLimit);
    }

    function _price(uint64 chain, uint256 length, uint256 gasLimit) private view returns (uint256) {
        IRelayerVault vault_ = vault;
        return address(vault_) == address(0) ? 0 : vault_.quote(chain, gasLimit, length);
    }
}
