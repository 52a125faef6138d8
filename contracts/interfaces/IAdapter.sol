// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../types/Gmp.sol";

/// @notice Connects one router to one GMP on one chain.
/// @dev Outbound, it accepts envelopes from its router only. Inbound, it authenticates the GMP, the chain and the remote adapter,
///      then makes exactly one call: {IMessageReceiver-receiveMessage}.
interface IAdapter {
    /// @notice The GMP delivered a message again. Nothing changed, and the GMP may consider the message delivered.
    event DuplicateAbsorbed(bytes32 indexed messageId, Gmp indexed gmp);

    /// @notice `remoteAdapter` serves `remoteRouter` on `chain`, and no other router.
    event Connected(uint64 indexed chain, bytes32 indexed remoteRouter, bytes32 remoteAdapter);

    event Disconnected(uint64 indexed chain, bytes32 indexed remoteRouter, bytes32 remoteAdapter);

    /// @notice Only the router may call this.
    error OnlyRouter(address caller);
    /// @notice Only the owner may call this.
    error OnlyOwner(address caller);
    /// @notice Only the GMP's own contract may call this.
    error OnlyGmp(address caller);
    /// @notice A chain, router, adapter or GMP contract of the connection is zero.
    error ZeroConnection();
    /// @notice No remote adapter is connected for this router on the chain.
    error NotConnected(uint64 chain, bytes32 remoteRouter);
    /// @notice The GMP delivered a message from an account that is not a connected adapter.
    error UntrustedRemote(uint64 chain, bytes32 remoteAdapter);

    /// @notice The remote adapter sent a message of a router other than the one that it serves.
    error WrongRemoteRouter(uint64 chain, bytes32 remoteAdapter, bytes32 router);

    /// @notice The remote adapter is already connected for another router.
    error RemoteAlreadyConnected(uint64 chain, bytes32 remoteAdapter, bytes32 remoteRouter);

    /// @notice The value sent is below the GMP's current fee, in wei.
    error WrongFee(uint256 value, uint256 fee);

    /// @notice Passes an envelope to the GMP.
    /// @param destinationChain EIP-155 id.
    /// @param destinationRouter The router that the envelope is for; it determines the remote adapter.
    /// @param gasLimit Gas for the recipient's call; the adapter adds the gas of the delivery itself.
    /// @param refundTo The account that the router credits with the unused part of `msg.value`.
    function dispatch(
        uint64 destinationChain,
        bytes32 destinationRouter,
        bytes calldata envelope,
        uint64 gasLimit,
        address refundTo
    ) external payable;

    /// @notice The current cost of {dispatch}, in wei.
    function quote(uint64 destinationChain, bytes32 destinationRouter, bytes calldata envelope, uint64 gasLimit)
        external
        view
        returns (uint256 fee);

    /// @notice Disconnects a remote adapter, in both directions. The router's revoker may call this, too, since it only removes trust.
    function disconnect(uint64 chain, bytes32 remoteAdapter) external;

    /// @notice The only router that the adapter accepts envelopes from and delivers to.
    function router() external view returns (address);

    /// @notice The GMP's contract through which the adapter sends, or that verifies its deliveries. Two adapters of a router never
    ///         share it, because one transport under two numbers would count twice.
    function transport() external view returns (address);

    /// @notice The remote adapter of a lane, or zero.
    function remoteAdapterOf(uint64 chain, bytes32 remoteRouter) external view returns (bytes32);
}
