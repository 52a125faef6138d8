// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {BaseAdapter} from "./BaseAdapter.sol";

/// @dev The functions of LayerZero's endpoint that the adapter calls.
interface ILayerZeroEndpoint {
    struct MessagingParams {
        uint32 dstEid;
        bytes32 receiver;
        bytes message;
        bytes options;
        bool payInLzToken;
    }

    struct MessagingFee {
        uint256 nativeFee;
        uint256 lzTokenFee;
    }

    struct MessagingReceipt {
        bytes32 guid;
        uint64 nonce;
        MessagingFee fee;
    }

    struct Origin {
        uint32 srcEid;
        bytes32 sender;
        uint64 nonce;
    }

    function send(MessagingParams calldata params, address refundAddress)
        external
        payable
        returns (MessagingReceipt memory receipt);

    function quote(MessagingParams calldata params, address sender) external view returns (MessagingFee memory fee);

    function setDelegate(address delegate) external;
}

/// @notice Sends and receives over LayerZero V2. A failed delivery does not revert the executor's transaction: the endpoint keeps
///         the payload, and anyone may call its `lzReceive` again. LayerZero usually limits packets to 10,000 bytes.
contract LayerZeroAdapter is BaseAdapter {
    uint16 private constant OPTIONS_TYPE = 3;
    uint8 private constant EXECUTOR_WORKER = 1;
    uint8 private constant LZ_RECEIVE_OPTION = 1;

    /// @dev Length of an option: its type and sixteen bytes of gas.
    uint16 private constant OPTION_LENGTH = 17;

    ILayerZeroEndpoint public immutable endpoint;

    constructor(IRouter router_, ILayerZeroEndpoint endpoint_) BaseAdapter(router_) {
        if (address(endpoint_) == address(0)) revert ZeroConnection();
        endpoint = endpoint_;
    }

    /// @dev Accepts the endpoint's refund during {dispatch}.
    receive() external payable {}

    /// @notice Connects a remote router's adapter on the chain with LayerZero's `eid`.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter, uint32 eid) external onlyRouterOwner {
        _setNumber(chain, eid);
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @notice Lets `delegate` configure this adapter's libraries, verifiers and executor at the endpoint. Until then LayerZero's
    ///         defaults apply, which LayerZero may change.
    function setDelegate(address delegate) external onlyRouterOwner {
        endpoint.setDelegate(delegate);
    }

    /// @notice Receives a message from the endpoint. Not payable, unlike LayerZero's own interface, because value would be stuck here.
    function lzReceive(
        ILayerZeroEndpoint.Origin calldata origin,
        bytes32,
        bytes calldata message,
        address,
        bytes calldata
    ) external {
        if (msg.sender != address(endpoint)) revert OnlyGmp(msg.sender);
        _receive(chainOf(origin.srcEid), origin.sender, message);
    }

    /// @notice Whether the endpoint may open the path from a sender, which must be a connected adapter.
    function allowInitializePath(ILayerZeroEndpoint.Origin calldata origin) external view returns (bool) {
        return _isTrusted(chainOf(origin.srcEid), origin.sender);
    }

    /// @notice 0 tells executors that messages may be delivered in any order.
    function nextNonce(uint32, bytes32) external pure returns (uint64) {
        return 0;
    }

    /// @notice LayerZero's number for a chain, or 0.
    function eidOf(uint64 chain) public view returns (uint32) {
        return uint32(_numberOf(chain));
    }

    /// @notice The chain with that LayerZero number, or 0.
    function chainOf(uint32 eid) public view returns (uint64) {
        return _chainOf(eid);
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(endpoint);
    }

    /// @dev The endpoint refunds unused fees to this contract.
    function _send(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit, address)
        internal
        override
    {
        endpoint.send{value: msg.value}(_parameters(chain, remoteAdapter, envelope, gasLimit), address(this));
    }

    function _quote(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        internal
        view
        override
        returns (uint256)
    {
        return endpoint.quote(_parameters(chain, remoteAdapter, envelope, gasLimit), address(this)).nativeFee;
    }

    function _parameters(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        private
        view
        returns (ILayerZeroEndpoint.MessagingParams memory)
    {
        return ILayerZeroEndpoint.MessagingParams({
            dstEid: eidOf(chain),
            receiver: remoteAdapter,
            message: envelope,
            options: abi.encodePacked(
                OPTIONS_TYPE, EXECUTOR_WORKER, OPTION_LENGTH, LZ_RECEIVE_OPTION, SafeCast.toUint128(gasLimit)
            ),
            payInLzToken: false
        });
    }
}
