// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {BaseAdapter} from "./BaseAdapter.sol";

/// @dev The functions of Hyperlane's Mailbox that the adapter calls.
interface IMailbox {
    function dispatch(uint32 destination, bytes32 recipient, bytes calldata body, bytes calldata hookMetadata)
        external
        payable
        returns (bytes32 id);

    function quoteDispatch(uint32 destination, bytes32 recipient, bytes calldata body, bytes calldata hookMetadata)
        external
        view
        returns (uint256 fee);
}

/// @notice Sends and receives over Hyperlane. A failed delivery reverts completely and can be repeated. The Mailbox reads from this
///         contract which ISM (interchain security module) verifies, and uses its own default until the owner sets one.
contract HyperlaneAdapter is BaseAdapter {
    /// @dev Version of Hyperlane's standard hook metadata.
    uint16 private constant METADATA_VERSION = 1;

    IMailbox public immutable mailbox;

    /// @notice The ISM that verifies incoming messages; zero: the Mailbox's default, which Hyperlane may change.
    address public interchainSecurityModule;

    event InterchainSecurityModuleSet(address module);

    constructor(IRouter router_, IMailbox mailbox_) BaseAdapter(router_) {
        if (address(mailbox_) == address(0)) revert ZeroConnection();
        mailbox = mailbox_;
    }

    /// @dev Accepts the paymaster's refund during {dispatch}.
    receive() external payable {}

    /// @notice Connects a remote router's adapter on the chain with Hyperlane's `domain`.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter, uint32 domain)
        external
        onlyRouterOwner
    {
        _setNumber(chain, domain);
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @notice Sets the ISM that verifies incoming messages; zero selects the Mailbox's default.
    function setInterchainSecurityModule(address module) external onlyRouterOwner {
        interchainSecurityModule = module;
        emit InterchainSecurityModuleSet(module);
    }

    /// @notice Receives a message from the Mailbox. Not payable, unlike Hyperlane's own interface, because value would be stuck here.
    function handle(uint32 origin, bytes32 sender, bytes calldata body) external {
        if (msg.sender != address(mailbox)) revert OnlyGmp(msg.sender);
        _receive(chainOf(origin), sender, body);
    }

    /// @notice Hyperlane's number for a chain, or 0.
    function domainOf(uint64 chain) public view returns (uint32) {
        return uint32(_numberOf(chain));
    }

    /// @notice The chain with that domain, or 0.
    function chainOf(uint32 domain) public view returns (uint64) {
        return _chainOf(domain);
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(mailbox);
    }

    /// @dev The paymaster behind the Mailbox refunds unused fees to this contract.
    function _send(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit, address)
        internal
        override
    {
        mailbox.dispatch{value: msg.value}(domainOf(chain), remoteAdapter, envelope, _hookMetadata(gasLimit));
    }

    function _quote(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        internal
        view
        override
        returns (uint256)
    {
        return mailbox.quoteDispatch(domainOf(chain), remoteAdapter, envelope, _hookMetadata(gasLimit));
    }

    function _hookMetadata(uint256 gasLimit) private view returns (bytes memory) {
        return abi.encodePacked(METADATA_VERSION, uint256(0), gasLimit, address(this));
    }
}
