// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp, GmpSet} from "../types/Gmp.sol";

/// @notice Which GMPs a router sends over and receives from, and which routers it knows on other chains.
/// @dev GMPs are numbers; adapters are contracts that may change. Receipts belong to numbers.
interface IGmpRegistry {
    event AdapterAdded(Gmp indexed gmp, address indexed adapter);

    /// @notice `adapter` speaks for the GMP from now on; receipts that `previous` brought still count.
    event AdapterReplaced(Gmp indexed gmp, address indexed adapter, address indexed previous);

    /// @notice Receipts that `adapter` brought no longer count, and the GMP is disabled.
    event AdapterRevoked(Gmp indexed gmp, address indexed adapter, uint8 epoch);

    /// @notice New messages to `chain` go to `router`; messages to and from its predecessors still travel.
    event PeerSet(uint64 indexed chain, bytes32 indexed router);

    /// @notice Nothing is sent to or received from that router any more.
    event PeerRevoked(uint64 indexed chain, bytes32 indexed router);

    error ZeroAddress();
    error ZeroChain();
    /// @notice There is no code at the address; a call to it would succeed and do nothing.
    error NotContract(address account);

    error GmpAlreadyHasAdapter(Gmp gmp, address adapter);
    error GmpHasNoAdapter(Gmp gmp);
    error AdapterAlreadyUsed(address adapter, Gmp gmp);
    /// @notice The adapter takes envelopes from, and delivers to, another router.
    error AdapterOfAnotherRouter(address adapter, address router);

    /// @notice Another number's adapter sends through that contract already.
    error TransportAlreadyUsed(address transport, Gmp gmp);

    /// @notice Adapters are created under the numbers 1 to 7.
    error InvalidCreationNumber(uint8 number);

    /// @notice Creates an adapter at an address that follows from this router, `gmp` and `number` alone (CREATE3).
    ///         {addAdapter} or {replaceAdapter} registers it.
    /// @dev Any other adapter may be registered, too. A send over one that was created here costs 1,900 gas less: the router knows
    ///      its address without reading it. Reverts if the number was used for the GMP before.
    /// @param creationCode What makes the adapter, its constructor's arguments included.
    function createAdapter(Gmp gmp, uint8 number, bytes calldata creationCode) external returns (address adapter);

    /// @notice Registers the first adapter of a GMP, and enables the GMP.
    /// @dev Reverts if the GMP has one already ({replaceAdapter}), or if the adapter belongs to another GMP or router. Reverts
    ///      if another GMP's adapter has the same transport ({IAdapter-transport}).
    function addAdapter(Gmp gmp, address adapter) external;

    /// @notice Puts another adapter in the place of a sound one: receipts stay. Messages that the GMP carries to the old one
    ///         can't be delivered until that is back in place. Switch the senders first (docs/security.md).
    /// @dev The old adapter is removed at once, so that a GMP has one adapter.
    function replaceAdapter(Gmp gmp, address adapter) external;

    /// @notice Takes a GMP out of use because it can't be trusted: its receipts are void. After {addAdapter} its receipts count
    ///         again. Hyperlane, Axelar, LayerZero and CCIP deliver nothing twice. A message that they had delivered needs a
    ///         retry or other GMPs, and one that is not retriable only has the other GMPs. Wormhole can deliver it again.
    function revokeAdapter(Gmp gmp) external;

    /// @notice Makes `router` the one to send new messages for `chain` to, and lets its messages in.
    /// @param floor The lane's least quorum for recipients without a policy, 1…16; 2 or more unless one GMP is to be believed
    ///        alone. It raises the present floor and never lowers it ({IRecipientPolicy-setFloor}).
    function setPeer(uint64 chain, bytes32 router, uint8 floor) external;

    /// @notice Cuts a router off, also for messages in flight.
    function revokePeer(uint64 chain, bytes32 router) external;

    /// @notice The adapter that speaks for a GMP, or zero.
    function adapterOf(Gmp gmp) external view returns (address);

    /// @notice keccak256 of what {createAdapter} created an adapter with; zero for any other account.
    function creationHashOf(address adapter) external view returns (bytes32);

    /// @notice The GMP that an adapter speaks for, or 0.
    function gmpOf(address adapter) external view returns (Gmp);

    /// @notice The GMPs that have an adapter.
    function enabledGmps() external view returns (GmpSet);

    /// @notice How often a GMP's adapter was revoked.
    function epochOf(Gmp gmp) external view returns (uint8);

    /// @notice The router that new messages for `chain` go to, or zero.
    function peerOf(uint64 chain) external view returns (bytes32);

    /// @notice Whether messages to and from that router travel.
    function isPeer(uint64 chain, bytes32 router) external view returns (bool);
}
