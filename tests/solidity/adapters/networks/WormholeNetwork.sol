// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {IWormhole, WormholeAdapter} from "../../../../contracts/adapters/WormholeAdapter.sol";
import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../../contracts/types/Gmp.sol";
import {GmpNetwork, Parcel} from "./GmpNetwork.sol";

interface IWormholeCore is IWormhole {
    event LogMessagePublished(
        address indexed sender, uint64 sequence, uint32 nonce, bytes payload, uint8 consistencyLevel
    );

    function submitSetMessageFee(bytes calldata vaa) external;
}

interface IWormholeSetup {
    function setup(
        address implementation,
        address[] calldata guardians,
        uint16 chainId,
        uint16 governanceChainId,
        bytes32 governanceContract,
        uint256 evmChainId
    ) external;
}

/// @notice Wormhole: cores with four guardians, of whom three must sign.
contract WormholeNetwork is GmpNetwork {
    uint16 private constant GOVERNANCE_CHAIN = 1;
    bytes32 private constant GOVERNANCE_CONTRACT = bytes32(uint256(4));
    uint256 private constant QUORUM = 3;
    uint256 private constant MESSAGE_FEE = 1e12;
    uint8 private constant CONSISTENCY_LEVEL = 200;

    mapping(uint64 chain => IWormholeCore) public cores;

    function gmp() external pure override returns (Gmp) {
        return Gmp.wrap(3);
    }

    function numberOf(uint64 chain) public pure override returns (uint256) {
        return chain - 20_000;
    }

    function connect(
        address caller,
        IAdapter adapter,
        uint64 chain,
        bytes32 remoteRouter,
        bytes32 remoteAdapter,
        uint256 number
    ) external override {
        vm.prank(caller);
        WormholeAdapter(address(adapter)).connect(chain, remoteRouter, remoteAdapter, uint16(number));
    }

    function sendAs(address account, uint64 from, uint64, address, bytes calldata body) external override {
        vm.chainId(from);
        vm.deal(account, account.balance + MESSAGE_FEE);
        vm.prank(account);
        cores[from].publishMessage{value: MESSAGE_FEE}(0, body, CONSISTENCY_LEVEL);
    }

    /// @dev There is no caller to pretend to be: what a stranger can do is to bring a VAA that no guardian signed.
    function knock(address caller, IAdapter adapter, uint64 from, bytes32 sender, bytes calldata envelope)
        external
        override
    {
        bytes memory vaa = _vaa(_body(from, sender, 0, envelope), outsiders);
        vm.prank(caller);
        WormholeAdapter(address(adapter)).deliver(vaa);
    }

    function _deploy(uint64 chain) internal override {
        address setUp = _deployGmp("wormhole/Setup", "");
        bytes memory initData = abi.encodeCall(
            IWormholeSetup.setup,
            (
                _deployGmp("wormhole/Implementation", ""),
                _accounts(),
                uint16(numberOf(chain)),
                GOVERNANCE_CHAIN,
                GOVERNANCE_CONTRACT,
                chain
            )
        );
        IWormholeCore core = IWormholeCore(_deployGmp("wormhole/Wormhole", abi.encode(setUp, initData)));
        bytes memory order = abi.encodePacked(bytes32("Core") >> 224, uint8(3), uint16(numberOf(chain)), MESSAGE_FEE);
        bytes memory decree =
            abi.encodePacked(uint32(1), uint32(1), GOVERNANCE_CHAIN, GOVERNANCE_CONTRACT, uint64(1), uint8(0), order);
        core.submitSetMessageFee(_vaa(decree, signers));
        cores[chain] = core;
    }

    /// @dev Every core can verify what was published on any other.
    function _openLane(uint64, uint64) internal override {}

    function _deployAdapter(uint64 chain, IRouter router) internal override returns (IAdapter) {
        return new WormholeAdapter(router, cores[chain], CONSISTENCY_LEVEL);
    }

    function _read(Vm.Log[] calldata logs, uint256 index, uint64 from)
        internal
        view
        override
        returns (bool accepted, bytes memory content)
    {
        Vm.Log calldata log = logs[index];
        bytes32 topic = IWormholeCore.LogMessagePublished.selector;
        if (log.emitter != address(cores[from]) || log.topics[0] != topic) return (false, "");
        (uint64 sequence,, bytes memory payload,) = abi.decode(log.data, (uint64, uint32, bytes, uint8));
        return (true, _body(from, log.topics[1], sequence, payload));
    }

    /// @dev The core keeps no account of deliveries: consumed means that the adapter did not revert.
    function _deliver(Parcel calldata parcel, Signer[] storage attesters, uint256 gasLimit)
        internal
        override
        returns (bool consumed)
    {
        bytes memory vaa = _vaa(parcel.content, attesters);
        try WormholeAdapter(parcel.adapter).deliver{gas: gasLimit}(vaa) {
            return true;
        } catch {
            return false;
        }
    }

    function _body(uint64 from, bytes32 emitter, uint64 sequence, bytes memory payload)
        private
        view
        returns (bytes memory)
    {
        return abi.encodePacked(
            uint32(block.timestamp), uint32(0), uint16(numberOf(from)), emitter, sequence, CONSISTENCY_LEVEL, payload
        );
    }

    /// @dev A verified action approval: version, guardian set, signatures by ascending guardian index, body.
    function _vaa(bytes memory body, Signer[] storage attesters) private view returns (bytes memory vaa) {
        bytes32 digest = keccak256(abi.encodePacked(keccak256(body)));
        vaa = abi.encodePacked(uint8(1), uint32(0), uint8(QUORUM));
        for (uint256 index; index < QUORUM; ++index) {
            (uint8 v, bytes32 r, bytes32 s) = vm.sign(attesters[index].key, digest);
            vaa = abi.encodePacked(vaa, uint8(index), r, s, v - 27);
        }
        return bytes.concat(vaa, body);
    }
}
