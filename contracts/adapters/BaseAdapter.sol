// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IMessageReceiver} from "../interfaces/IMessageReceiver.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {BoundedCall} from "../libraries/BoundedCall.sol";
import {MessageEncoding} from "../types/Message.sol";

/// @dev Common base of the adapters: accepts envelopes from the router only, knows the remote adapters, and passes deliveries
///      to the router. {_send} and the GMP's entry point are specific to each GMP.
abstract contract BaseAdapter is IAdapter {
    /// @dev Gas of a delivery beyond the recipient's gas limit: checks, receipt, execution frame, bookkeeping.
    uint256 private constant DELIVERY_GAS = 250_000;

    /// @dev Gas per byte of an envelope, which is copied, hashed and logged several times on its way to the recipient.
    uint256 private constant GAS_PER_BYTE = 16;

    /// @dev Each call retains a 64th, and up to five are nested between the GMP's and the recipient's: (64/63)^5 < 1 + 1/12.
    uint256 private constant CALL_DEPTH_SHARE = 12;

    IRouter internal immutable _router;

    mapping(uint64 chain => uint256 number) private _numbers;
    mapping(uint256 number => uint64 chain) private _chainOfNumber;

    mapping(uint64 chain => mapping(bytes32 remoteRouter => bytes32 remoteAdapter)) private _remotes;
    mapping(uint64 chain => mapping(bytes32 remoteAdapter => bytes32 remoteRouter)) private _routerOfRemote;

    /// @notice The GMP's number for `chain` is already used for `other`.
    error ChainNumberTaken(uint64 chain, uint64 other);

    /// @notice The chain already has another number at the GMP.
    error ChainNumberFixed(uint64 chain);

    /// @dev Adapters have no owner of their own: one account controls a router and its adapters.
    modifier onlyRouterOwner() {
        if (msg.sender != _router.owner()) revert OnlyOwner(msg.sender);
        _;
    }

    constructor(IRouter router_) {
        if (address(router_) == address(0)) revert ZeroConnection();
        _router = router_;
    }

    /// @inheritdoc IAdapter
    function dispatch(
        uint64 destinationChain,
        bytes32 destinationRouter,
        bytes calldata envelope,
        uint64 gasLimit,
        address refundTo
    ) external payable {
        if (msg.sender != address(_router)) revert OnlyRouter(msg.sender);
        bytes32 remoteAdapter = _requireRemote(destinationChain, destinationRouter);
        _send(destinationChain, remoteAdapter, envelope, deliveryGas(envelope.length, gasLimit), refundTo);
        // `refundTo` is not called, because an account that rejects ether, or does worse, must not make the GMP fail.
        uint256 surplus = address(this).balance;
        if (surplus != 0) _router.creditSurplus{value: surplus}(refundTo);
    }

    /// @inheritdoc IAdapter
    function quote(uint64 destinationChain, bytes32 destinationRouter, bytes calldata envelope, uint64 gasLimit)
        external
        view
        returns (uint256 fee)
    {
        bytes32 remoteAdapter = _requireRemote(destinationChain, destinationRouter);
        return _quote(destinationChain, remoteAdapter, envelope, deliveryGas(envelope.length, gasLimit));
    }

    /// @inheritdoc IAdapter
    function disconnect(uint64 chain, bytes32 remoteAdapter) external {
        if (msg.sender != _router.owner() && msg.sender != _router.revoker()) revert OnlyOwner(msg.sender);
        bytes32 remoteRouter = _requireTrusted(chain, remoteAdapter);
        delete _routerOfRemote[chain][remoteAdapter];
        if (_remotes[chain][remoteRouter] == remoteAdapter) delete _remotes[chain][remoteRouter];
        emit Disconnected(chain, remoteRouter, remoteAdapter);
    }

    /// @inheritdoc IAdapter
    function router() external view returns (address) {
        return address(_router);
    }

    /// @inheritdoc IAdapter
    function remoteAdapterOf(uint64 chain, bytes32 remoteRouter) public view returns (bytes32) {
        return _remotes[chain][remoteRouter];
    }

    /// @notice The gas to request from the GMP for a delivery, so that the recipient's call gets `gasLimit`.
    function deliveryGas(uint256 envelopeLength, uint64 gasLimit) public pure returns (uint256) {
        return gasLimit + gasLimit / CALL_DEPTH_SHARE + DELIVERY_GAS + GAS_PER_BYTE * envelopeLength;
    }

    /// @dev Sends the envelope to `remoteAdapter` on `chain` with the needed part of `msg.value`, requesting `gasLimit` there. The
    ///      unused part stays here, or is returned here before this returns.
    /// @param refundTo Only for refunds that a GMP pays later.
    function _send(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit, address refundTo)
        internal
        virtual;

    /// @dev The current cost of {_send}, in wei.
    function _quote(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        internal
        view
        virtual
        returns (uint256);

    /// @dev Sets the GMP's own number for a chain. Numbers are one to one and never change: messages under an old number would be
    ///      stranded, and two chains under one number could impersonate each other. {IGmpRegistry-replaceAdapter} corrects a mistake.
    function _setNumber(uint64 chain, uint256 number) internal {
        if (chain == 0 || number == 0) revert ZeroConnection();
        uint64 other = _chainOfNumber[number];
        if (other == chain) return;
        if (other != 0) revert ChainNumberTaken(chain, other);
        if (_numbers[chain] != 0) revert ChainNumberFixed(chain);
        _numbers[chain] = number;
        _chainOfNumber[number] = chain;
    }

    function _numberOf(uint64 chain) internal view returns (uint256) {
        return _numbers[chain];
    }

    function _chainOf(uint256 number) internal view returns (uint64) {
        return _chainOfNumber[number];
    }

    /// @dev For a GMP that must get exactly its fee.
    function _requireFee(uint256 fee) internal view {
        if (msg.value < fee) revert WrongFee(msg.value, fee);
    }

    /// @dev A previously connected adapter stays trusted, so that its messages still arrive; {disconnect} ends that.
    function _connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter) internal {
        if (chain == 0 || remoteRouter == 0 || remoteAdapter == 0) revert ZeroConnection();
        bytes32 other = _routerOfRemote[chain][remoteAdapter];
        if (other != 0 && other != remoteRouter) revert RemoteAlreadyConnected(chain, remoteAdapter, other);
        _remotes[chain][remoteRouter] = remoteAdapter;
        _routerOfRemote[chain][remoteAdapter] = remoteRouter;
        emit Connected(chain, remoteRouter, remoteAdapter);
    }

    /// @dev Makes the single call into the router. The caller has authenticated the GMP; the remote adapter is authenticated here.
    ///      It serves its own router only, or the adapter of a revoked router could vouch for its successor. A duplicate is
    ///      absorbed, so that the GMP stops delivering it; every other revert propagates, so that the GMP can deliver again.
    function _receive(uint64 chain, bytes32 remoteAdapter, bytes memory envelope) internal {
        bytes32 stated = MessageEncoding.statedSourceRouter(envelope);
        if (_requireTrusted(chain, remoteAdapter) != stated) revert WrongRemoteRouter(chain, remoteAdapter, stated);
        try _router.receiveMessage(chain, envelope) {}
        catch (bytes memory reason) {
            if (bytes4(reason) != IMessageReceiver.AlreadyReceived.selector) BoundedCall.bubble(reason);
            emit DuplicateAbsorbed(MessageEncoding.statedId(envelope), _router.gmpOf(address(this)));
        }
    }

    function _isTrusted(uint64 chain, bytes32 remoteAdapter) internal view returns (bool) {
        return _routerOfRemote[chain][remoteAdapter] != 0;
    }

    function _requireRemote(uint64 chain, bytes32 remoteRouter) private view returns (bytes32 remoteAdapter) {
        remoteAdapter = _remotes[chain][remoteRouter];
        if (remoteAdapter == 0) revert NotConnected(chain, remoteRouter);
    }

    function _requireTrusted(uint64 chain, bytes32 remoteAdapter) private view returns (bytes32 remoteRouter) {
        remoteRouter = _routerOfRemote[chain][remoteAdapter];
        if (remoteRouter == 0) revert UntrustedRemote(chain, remoteAdapter);
    }
}
