// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";
import {Vm} from "forge-std/Vm.sol";

import {AxelarAdapter, IAxelarGasService, IAxelarGateway} from "../../../../contracts/adapters/AxelarAdapter.sol";
import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../../contracts/types/Gmp.sol";
import {GmpNetwork, Parcel} from "./GmpNetwork.sol";

interface IAmplifierGateway is IAxelarGateway {
    struct Message {
        string sourceChain;
        string messageId;
        string sourceAddress;
        address contractAddress;
        bytes32 payloadHash;
    }

    struct WeightedSigner {
        address signer;
        uint128 weight;
    }

    struct WeightedSigners {
        WeightedSigner[] signers;
        uint128 threshold;
        bytes32 nonce;
    }

    struct Proof {
        WeightedSigners signers;
        bytes[] signatures;
    }

    event ContractCall(
        address indexed sender,
        string destinationChain,
        string destinationContractAddress,
        bytes32 indexed payloadHash,
        bytes payload
    );

    function approveMessages(Message[] calldata messages, Proof calldata proof) external;
    function isMessageApproved(
        string calldata sourceChain,
        string calldata messageId,
        string calldata sourceAddress,
        address contractAddress,
        bytes32 payloadHash
    ) external view returns (bool);
    function isMessageExecuted(string calldata sourceChain, string calldata messageId) external view returns (bool);
}

interface IGasServiceAdmin is IAxelarGasService {
    struct GasInfo {
        uint64 gasEstimationType;
        uint64 l1FeeScalar;
        uint128 axelarBaseFee;
        uint128 relativeGasPrice;
        uint128 relativeBlobBaseFee;
        uint128 expressFee;
    }

    function init(address implementation, address owner, bytes calldata params) external;
    function updateGasInfo(string[] calldata chains, GasInfo[] calldata updates) external;
}

/// @notice Axelar: amplifier gateways with a two-of-four weighted signer set, and a gas service that estimates on chain.
contract AxelarNetwork is GmpNetwork {
    uint128 private constant THRESHOLD = 2;

    mapping(uint64 chain => IAmplifierGateway) public gateways;
    mapping(uint64 chain => IGasServiceAdmin) public gasServices;
    uint256 private _messages;

    function gmp() external pure override returns (Gmp) {
        return Gmp.wrap(2);
    }

    function numberOf(uint64 chain) public pure override returns (uint256) {
        return chain;
    }

    /// @dev Axelar calls chains by name; tests give numbers, and 0 stands for no name.
    function nameOf(uint256 number) public pure returns (string memory) {
        return number == 0 ? "" : string.concat("chain-", Strings.toString(number));
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
        AxelarAdapter(address(adapter)).connect(chain, remoteRouter, remoteAdapter, nameOf(number));
    }

    function sendAs(address account, uint64 from, uint64 to, address receiver, bytes calldata body) external override {
        vm.chainId(from);
        vm.prank(account);
        gateways[from].callContract(nameOf(to), Strings.toChecksumHexString(receiver), body);
    }

    function knock(address caller, IAdapter adapter, uint64 from, bytes32 sender, bytes calldata envelope)
        external
        override
    {
        string memory source = Strings.toChecksumHexString(address(uint160(uint256(sender))));
        vm.prank(caller);
        AxelarAdapter(address(adapter)).execute(keccak256("no such command"), nameOf(from), source, envelope);
    }

    /// @dev What the gas service of one chain asks for messages to another, in wei, and in wei per gas.
    function setPrices(uint64 from, uint64 to, uint128 baseFee, uint128 gasPrice) public {
        string[] memory names = new string[](1);
        names[0] = nameOf(to);
        IGasServiceAdmin.GasInfo[] memory infos = new IGasServiceAdmin.GasInfo[](1);
        infos[0] = IGasServiceAdmin.GasInfo({
            gasEstimationType: 0,
            l1FeeScalar: 0,
            axelarBaseFee: baseFee,
            relativeGasPrice: gasPrice,
            relativeBlobBaseFee: 0,
            expressFee: 0
        });
        gasServices[from].updateGasInfo(names, infos);
    }

    function isApproved(Parcel calldata parcel) external view returns (bool) {
        (IAmplifierGateway.Message memory message,) = abi.decode(parcel.content, (IAmplifierGateway.Message, bytes));
        return gateways[parcel.to].isMessageApproved(
            message.sourceChain, message.messageId, message.sourceAddress, message.contractAddress, message.payloadHash
        );
    }

    function _deploy(uint64 chain) internal override {
        bytes memory setUp = abi.encode(address(this), _signerSets());
        address implementation =
            _deployGmp("axelar/AxelarAmplifierGateway", abi.encode(uint256(15), _domain(chain), uint256(0)));
        gateways[chain] = IAmplifierGateway(
            _deployGmp("axelar/AxelarAmplifierGatewayProxy", abi.encode(implementation, address(this), setUp))
        );
        address gasService = _deployGmp("axelar/AxelarGasService", abi.encode(address(this)));
        gasServices[chain] = IGasServiceAdmin(_deployGmp("axelar/AxelarGasServiceProxy", ""));
        gasServices[chain].init(gasService, address(this), "");
    }

    function _openLane(uint64 from, uint64 to) internal override {
        setPrices(from, to, 1e14, 1 gwei);
    }

    function _deployAdapter(uint64 chain, IRouter router) internal override returns (IAdapter) {
        return new AxelarAdapter(router, gateways[chain], gasServices[chain]);
    }

    function _read(Vm.Log[] calldata logs, uint256 index, uint64 from)
        internal
        override
        returns (bool accepted, bytes memory content)
    {
        Vm.Log calldata log = logs[index];
        bytes32 topic = IAmplifierGateway.ContractCall.selector;
        if (log.emitter != address(gateways[from]) || log.topics[0] != topic) return (false, "");
        (, string memory destination, bytes memory payload) = abi.decode(log.data, (string, string, bytes));
        IAmplifierGateway.Message memory message = IAmplifierGateway.Message({
            sourceChain: nameOf(from),
            messageId: string.concat("0x", Strings.toString(++_messages), "-0"),
            sourceAddress: Strings.toChecksumHexString(address(uint160(uint256(log.topics[1])))),
            contractAddress: Strings.parseAddress(destination),
            payloadHash: log.topics[2]
        });
        return (true, abi.encode(message, payload));
    }

    function _deliver(Parcel calldata parcel, Signer[] storage attesters, uint256 gasLimit)
        internal
        override
        returns (bool consumed)
    {
        (IAmplifierGateway.Message memory message, bytes memory payload) =
            abi.decode(parcel.content, (IAmplifierGateway.Message, bytes));
        IAmplifierGateway gateway = gateways[parcel.to];
        IAmplifierGateway.Message[] memory messages = new IAmplifierGateway.Message[](1);
        messages[0] = message;
        try gateway.approveMessages(messages, _prove(parcel.to, messages, attesters)) {} catch {}
        bytes32 commandId = keccak256(bytes(string.concat(message.sourceChain, "_", message.messageId)));
        try AxelarAdapter(parcel.adapter).execute{gas: gasLimit}(
            commandId, message.sourceChain, message.sourceAddress, payload
        ) {}
            catch {}
        return gateway.isMessageExecuted(message.sourceChain, message.messageId);
    }

    function _prove(uint64 chain, IAmplifierGateway.Message[] memory messages, Signer[] storage attesters)
        private
        view
        returns (IAmplifierGateway.Proof memory proof)
    {
        proof.signers = _signerSets()[0];
        bytes32 dataHash = keccak256(abi.encode(uint8(0), messages));
        bytes32 signersHash = keccak256(abi.encode(proof.signers));
        bytes32 digest =
            keccak256(bytes.concat("\x19Ethereum Signed Message:\n96", _domain(chain), signersHash, dataHash));
        proof.signatures = new bytes[](THRESHOLD);
        for (uint256 index; index < THRESHOLD; ++index) {
            proof.signatures[index] = _sign(attesters[index], digest);
        }
    }

    function _signerSets() private view returns (IAmplifierGateway.WeightedSigners[] memory sets) {
        sets = new IAmplifierGateway.WeightedSigners[](1);
        sets[0].threshold = THRESHOLD;
        sets[0].signers = new IAmplifierGateway.WeightedSigner[](signers.length);
        for (uint256 index; index < signers.length; ++index) {
            sets[0].signers[index] = IAmplifierGateway.WeightedSigner(signers[index].account, 1);
        }
    }

    function _domain(uint64 chain) private pure returns (bytes32) {
        return keccak256(abi.encode("axelar domain", chain));
    }
}
