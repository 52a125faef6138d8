// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {ERC7786Recipient} from "@openzeppelin/contracts/crosschain/ERC7786Recipient.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IRouter} from "../interfaces/IRouter.sol";
import {GmpSet} from "../types/Gmp.sol";
import {GmpFee, Message, Retry} from "../types/Message.sol";
import {IRouterClient} from "./IRouterClient.sol";

/// @notice Base contract for dApps that send and receive over a router. It accepts messages only from senders that the owner
///         allows, each with the quorum and the GMPs that the owner trusts for it. Retriers may retry its messages.
/// @dev A dApp implements {_handle}, and may reject retries in {_beforeRetry}. The router never executes a message twice; this
///      folder has guards against other risks of genuine messages, such as wrong order.
abstract contract RouterClient is IRouterClient, ERC7786Recipient, Ownable2Step {
    using InteroperableAddress for bytes;
    using SafeCast for uint256;

    struct AllowedRoute {
        uint8 quorum;
        GmpSet gmps;
    }

    /// @notice The only contract whose calls this dApp trusts. It can't be changed (docs/decisions/0010).
    IRouter public immutable router;

    mapping(uint64 chain => mapping(address sender => AllowedRoute)) private _allowed;
    mapping(address account => bool) private _retriers;

    constructor(IRouter router_, address owner_) Ownable(owner_) {
        if (address(router_) == address(0)) revert ZeroRouter();
        router = router_;
    }

    /// @inheritdoc IRouterClient
    function allowRoute(uint64 chain, address sender, uint8 quorum, GmpSet gmps) external onlyOwner {
        if (sender == address(0)) revert ZeroSender();
        if (quorum == 0 || quorum > gmps.count()) revert InvalidRoute(quorum, gmps);
        _allowed[chain][sender] = AllowedRoute(quorum, gmps);
        emit RouteAllowed(chain, sender, quorum, gmps);
    }

    /// @inheritdoc IRouterClient
    function forbidRoute(uint64 chain, address sender) external onlyOwner {
        if (_allowed[chain][sender].quorum == 0) revert RouteNotAllowed(chain, sender);
        delete _allowed[chain][sender];
        emit RouteForbidden(chain, sender);
    }

    /// @inheritdoc IRouterClient
    function setRetrier(address account, bool allowed) external onlyOwner {
        _retriers[account] = allowed;
        emit RetrierSet(account, allowed);
    }

    /// @inheritdoc IRouterClient
    function retry(Retry calldata request) external payable returns (uint32 attempt) {
        if (!_retriers[msg.sender]) revert NotRetrier(msg.sender);
        _beforeRetry(request);
        return router.retryRoute{value: msg.value}(request);
    }

    /// @inheritdoc IRouterClient
    function cancel(Message calldata message, GmpFee[] calldata gmps)
        external
        payable
        onlyOwner
        returns (bytes32 cancellationId)
    {
        return router.cancel{value: msg.value}(message, 1, gmps, msg.sender);
    }

    /// @inheritdoc IRouterClient
    function withdrawCredit(address payable to) external onlyOwner {
        router.withdraw(to);
    }

    /// @inheritdoc IRouterClient
    function setPolicy(uint64 chain, uint8 quorum, GmpSet gmps) external onlyOwner {
        router.setPolicy(chain, quorum, gmps);
    }

    /// @inheritdoc IRouterClient
    function allowedRoute(uint64 chain, address sender) external view returns (uint8 quorum, GmpSet gmps) {
        AllowedRoute memory allowed = _allowed[chain][sender];
        return (allowed.quorum, allowed.gmps);
    }

    /// @inheritdoc IRouterClient
    function isRetrier(address account) public view returns (bool) {
        return _retriers[account];
    }

    /// @dev Handles a message. A revert undoes everything but the receipts, and the message can be executed again.
    function _handle(bytes32 messageId, uint64 chain, address sender, bytes calldata payload) internal virtual;

    /// @dev Runs before a retry; a revert stops it.
    function _beforeRetry(Retry calldata request) internal virtual {}

    /// @dev The router is the gateway for every chain; {_processMessage} decides whether the sender is allowed.
    function _isAuthorizedGateway(address gateway, bytes calldata) internal view override returns (bool) {
        return gateway == address(router);
    }

    function _processMessage(address, bytes32 messageId, bytes calldata sender, bytes calldata payload)
        internal
        override
    {
        (uint256 chainId, address account) = sender.parseEvmV1Calldata();
        uint64 chain = chainId.toUint64();
        _requireTrusted(messageId, chain, account);
        _handle(messageId, chain, account, payload);
    }

    function _requireTrusted(bytes32 messageId, uint64 chain, address sender) internal view virtual {
        AllowedRoute memory allowed = _allowed[chain][sender];
        if (allowed.quorum == 0) revert RouteNotAllowed(chain, sender);
        (GmpSet delivered,) = router.receiptsOf(messageId);
        uint8 receipts = delivered.intersect(allowed.gmps).count();
        if (receipts < allowed.quorum) revert TooFewTrustedReceipts(messageId, receipts, allowed.quorum);
    }
}
