// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet} from "../types/Gmp.sol";

/// @notice The GMPs that a router sends and receives over, and the routers that it trusts on other chains.
/// @dev GMPs are numbers, and their adapters may change. Receipts belong to numbers.
interface IGmpRegistry {
    event AdapterAdded(Gmp indexed gmp, address indexed adapter);

    /// @notice `adapter` now serves the GMP; receipts through `previous` still count.
    event AdapterReplaced(Gmp indexed gmp, address indexed adapter, address indexed previous);

    /// @notice Receipts through `adapter` no longer count, and the GMP is disabled.
    event AdapterRevoked(Gmp indexed gmp, address indexed adapter, uint8 epoch);

    /// @notice New messages to `chain` go to `router`; messages to and from its predecessors remain valid.
    event PeerSet(uint64 indexed chain, bytes32 indexed router);

    /// @notice Messages to and from that router are no longer accepted.
    event PeerRevoked(uint64 indexed chain, bytes32 indexed router);

    /// @notice An address is zero.
    error ZeroAddress();
    /// @notice A chain id is zero.
    error ZeroChain();
    /// @notice There is no code at the address; a call to it would succeed and do nothing.
    error NotContract(address account);

    /// @notice The GMP already has an adapter: replace it instead.
    error GmpAlreadyHasAdapter(Gmp gmp, address adapter);
    /// @notice The GMP has no adapter.
    error GmpHasNoAdapter(Gmp gmp);
    /// @notice The adapter already belongs to a GMP.
    error AdapterAlreadyUsed(address adapter, Gmp gmp);
    /// @notice The adapter belongs to another router.
    error AdapterOfAnotherRouter(address adapter, address router);

    /// @notice The adapter of another GMP already uses this transport.
    error TransportAlreadyUsed(address transport, Gmp gmp);

    /// @notice Adapters can be created only under the numbers 1 to 7.
    error InvalidCreationNumber(uint8 number);

    /// @notice Creates an adapter at an address that depends only on this router, `gmp` and `number` (CREATE3). {addAdapter} or
    ///         {replaceAdapter} registers it.
    /// @dev Other adapters may be registered, too. A send over one created here costs 1,900 gas less, because the router computes its
    ///      address instead of reading it. Reverts if the number was used for the GMP before.
    /// @param creationCode Bytecode of the adapter with its constructor arguments.
    function createAdapter(Gmp gmp, uint8 number, bytes calldata creationCode) external returns (address adapter);

    /// @notice Registers the first adapter of a GMP, and enables the GMP.
    /// @dev Reverts if the GMP has one already ({replaceAdapter}), or if the adapter belongs to another GMP or router. Reverts
    ///      if another GMP's adapter has the same transport ({IAdapter-transport}).
    function addAdapter(Gmp gmp, address adapter) external;

    /// @notice Replaces an honest adapter; its receipts remain valid. Messages that the GMP carries to the old adapter cannot be
    ///         delivered unless it is restored. Switch the senders first (docs/security.md).
    /// @dev The old adapter is removed at once, so that a GMP always has one adapter.
    function replaceAdapter(Gmp gmp, address adapter) external;

    /// @notice Disables a GMP that can no longer be trusted and voids its receipts. After {addAdapter}, new receipts count again.
    ///         Hyperlane, Axelar, LayerZero and CCIP never deliver twice: a message that they had delivered needs a retry or
    ///         other GMPs, and one that is not retriable needs other GMPs. Wormhole can deliver it again.
    function revokeAdapter(Gmp gmp) external;

    /// @notice Makes `router` the destination of new messages to `chain`, and accepts its messages.
    /// @param floor The lane's minimum quorum for recipients without a policy, 1…16. Use 2 or more unless you trust a single GMP.
    ///        It raises the current floor and never lowers it ({IRecipientPolicy-setFloor}).
    function setPeer(uint64 chain, bytes32 router, uint8 floor) external;

    /// @notice Revokes a router, also for messages in flight.
    function revokePeer(uint64 chain, bytes32 router) external;

    /// @notice The adapter of a GMP, or zero.
    function adapterOf(Gmp gmp) external view returns (address);

    /// @notice keccak256 of the creation code of an adapter made by {createAdapter}; zero for any other account.
    function creationHashOf(address adapter) external view returns (bytes32);

    /// @notice The GMP of an adapter, or 0.
    function gmpOf(address adapter) external view returns (Gmp);

    /// @notice The GMPs that have an adapter.
    function enabledGmps() external view returns (GmpSet);

    /// @notice The number of times that a GMP's adapter was revoked.
    function epochOf(Gmp gmp) external view returns (uint8);

    /// @notice The router to which new messages for `chain` are sent, or zero.
    function peerOf(uint64 chain) external view returns (bytes32);

    /// @notice Whether messages to and from that router are accepted.
    function isPeer(uint64 chain, bytes32 router) external view returns (bool);
}
