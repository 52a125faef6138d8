// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Addresses} from "../libraries/Addresses.sol";
import {BaseAdapter} from "./BaseAdapter.sol";

/// @dev The functions of Axelar's gateway that the adapter calls.
interface IAxelarGateway {
    function callContract(string calldata destinationChain, string calldata destinationAddress, bytes calldata payload)
        external;

    function validateContractCall(
        bytes32 commandId,
        string calldata sourceChain,
        string calldata sourceAddress,
        bytes32 payloadHash
    ) external returns (bool);
}

/// @dev The functions of Axelar's gas service that the adapter calls.
interface IAxelarGasService {
    function payGas(
        address sender,
        string calldata destinationChain,
        string calldata destinationAddress,
        bytes calldata payload,
        uint256 executionGasLimit,
        bool estimateOnChain,
        address refundAddress,
        bytes calldata params
    ) external payable;

    function estimateGasFee(
        string calldata destinationChain,
        string calldata destinationAddress,
        bytes calldata payload,
        uint256 executionGasLimit,
        bytes calldata params
    ) external view returns (uint256 gasEstimate);
}

/// @notice Sends and receives over Axelar. A message is first approved at the gateway, then executed here by anyone; if the
///         execution reverts, the approval stands.
contract AxelarAdapter is BaseAdapter {
    using Addresses for address;
    using Addresses for bytes32;

    IAxelarGateway public immutable gateway;
    IAxelarGasService public immutable gasService;

    /// @notice Axelar's name for a chain.
    mapping(uint64 chain => string name) public nameOf;

    /// @notice The gateway has not approved the message, or it was already executed.
    error NotApproved(bytes32 commandId);

    constructor(IRouter router_, IAxelarGateway gateway_, IAxelarGasService gasService_) BaseAdapter(router_) {
        if (address(gateway_) == address(0) || address(gasService_) == address(0)) revert ZeroConnection();
        gateway = gateway_;
        gasService = gasService_;
    }

    /// @notice Connects a remote router's adapter on the chain that Axelar names `name`.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter, string calldata name)
        external
        onlyRouterOwner
    {
        if (bytes(name).length == 0) revert ZeroConnection();
        remoteAdapter.toAddress();
        _setNumber(chain, uint256(keccak256(bytes(name))));
        nameOf[chain] = name;
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @notice Delivers a message that the gateway approved. Open to anyone.
    function execute(
        bytes32 commandId,
        string calldata sourceChain,
        string calldata sourceAddress,
        bytes calldata payload
    ) external {
        if (!gateway.validateContractCall(commandId, sourceChain, sourceAddress, keccak256(payload))) {
            revert NotApproved(commandId);
        }
        bytes32 remoteAdapter = Strings.parseAddress(sourceAddress).toBytes32();
        _receive(chainOf(keccak256(bytes(sourceChain))), remoteAdapter, payload);
    }

    /// @notice The chain with that name's hash, or 0.
    function chainOf(bytes32 nameHash) public view returns (uint64) {
        return _chainOf(uint256(nameHash));
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(gateway);
    }

    function _send(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit, address refundTo)
        internal
        override
    {
        string memory name = nameOf[chain];
        string memory remote = Strings.toChecksumHexString(remoteAdapter.toAddress());
        uint256 fee = gasService.estimateGasFee(name, remote, envelope, gasLimit, "");
        _requireFee(fee);
        gasService.payGas{value: fee}(address(this), name, remote, envelope, gasLimit, false, refundTo, "");
        gateway.callContract(name, remote, envelope);
    }

    function _quote(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        internal
        view
        override
        returns (uint256)
    {
        string memory remote = Strings.toChecksumHexString(remoteAdapter.toAddress());
        return gasService.estimateGasFee(nameOf[chain], remote, envelope, gasLimit, "");
    }
}
