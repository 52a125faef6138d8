// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../types/Gmp.sol";

/// @notice Speaks one GMP on one chain for one router.
/// @dev Outbound it takes envelopes from its router only. Inbound it authenticates the GMP, the chain and the adapter on the
///      other side, then makes exactly one call: {IMessageReceiver-receiveMessage}.
interface IAdapter {
    /// @notice The GMP delivered a message again. Nothing changed, and the GMP may consider it delivered.
    event DuplicateAbsorbed(bytes32 indexed messageId, Gmp indexed gmp);

    /// @notice `remoteAdapter` speaks for `remoteRouter` on `chain`, and for no other router.
    event Connected(uint64 indexed chain, bytes32 indexed remoteRouter, bytes32 remoteAdapter);

    event Disconnected(uint64 indexed chain, bytes32 indexed remoteRouter, bytes32 remoteAdapter);

    error OnlyRouter(address caller);
    error OnlyOwner(address caller);
    error OnlyGmp(address caller);
    error ZeroConnection();
    error NotConnected(uint64 chain, bytes32 remoteRouter);
    error UntrustedRemote(uint64 chain, bytes32 remoteAdapter);

    /// @notice The remote adapter brought a message of another router than the one it speaks for.
    error WrongRemoteRouter(uint64 chain, bytes32 remoteAdapter, bytes32 router);

    error RemoteAlreadyConnected(uint64 chain, bytes32 remoteAdapter, bytes32 remoteRouter);

    /// @notice The value sent is below the fee that the GMP asks for now, in wei.
    error WrongFee(uint256 value, uint256 fee);

    /// @notice Hands an envelope to the GMP.
    /// @param destinationChain EIP-155 id.
    /// @param destinationRouter The router that the envelope is for; decides which remote adapter gets it.
    /// @param gasLimit Gas that the recipient's call asks for; the adapter adds what the delivery itself needs.
    /// @param refundTo Whom the router credits with what the GMP did not need of `msg.value`.
    function dispatch(
        uint64 destinationChain,
        bytes32 destinationRouter,
        bytes calldata envelope,
        uint64 gasLimit,
        address refundTo
    ) external payable;

    /// @notice What {dispatch} costs now, in wei.
    function quote(uint64 destinationChain, bytes32 destinationRouter, bytes calldata envelope, uint64 gasLimit)
        external
        view
        returns (uint256 fee);

    /// @notice Cuts a remote adapter off, in both directions. The router's revoker may, too: it only takes trust away.
    function disconnect(uint64 chain, bytes32 remoteAdapter) external;

    /// @notice The one router that the adapter takes envelopes from and delivers to.
    function router() external view returns (address);

    /// @notice The GMP's contract that the adapter sends through, or by which it knows a delivery. No two adapters of a router
    ///         have the same: one transport under two numbers would count twice.
    function transport() external view returns (address);

    /// @notice The adapter on the other side of a lane, or zero.
    function remoteAdapterOf(uint64 chain, bytes32 remoteRouter) external view returns (bytes32);
}
