// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {BaseAdapter} from "./BaseAdapter.sol";

/// @dev What the adapter needs of Hyperlane's Mailbox.
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

/// @notice Speaks Hyperlane. A refused delivery reverts as a whole and can be processed again. The Mailbox asks this contract
///         which ISM (interchain security module) verifies, and takes its own default one until the owner has chosen.
contract HyperlaneAdapter is BaseAdapter {
    /// @dev Version of Hyperlane's standard hook metadata.
    uint16 private constant METADATA_VERSION = 1;

    IMailbox public immutable mailbox;

    /// @notice The ISM that verifies what arrives here; zero: the Mailbox's default one, which Hyperlane may change.
    address public interchainSecurityModule;

    event InterchainSecurityModuleSet(address module);

    constructor(IRouter router_, IMailbox mailbox_) BaseAdapter(router_) {
        if (address(mailbox_) == address(0)) revert ZeroConnection();
        mailbox = mailbox_;
    }

    /// @dev The paymaster pays back what it did not need while {dispatch} runs.
    receive() external payable {}

    /// @notice Connects a remote router's adapter on the chain that Hyperlane calls `domain`.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter, uint32 domain)
        external
        onlyRouterOwner
    {
        _setNumber(chain, domain);
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @notice Chooses the ISM that verifies what arrives here; zero leaves that to the Mailbox.
    function setInterchainSecurityModule(address module) external onlyRouterOwner {
        interchainSecurityModule = module;
        emit InterchainSecurityModuleSet(module);
    }

    /// @notice The Mailbox delivers a message. Not payable, unlike Hyperlane's own interface: value would be stuck here.
    function handle(uint32 origin, bytes32 sender, bytes calldata body) external {
        if (msg.sender != address(mailbox)) revert OnlyGmp(msg.sender);
        _receive(chainOf(origin), sender, body);
    }

    /// @notice Hyperlane's number for a chain, or 0.
    function domainOf(uint64 chain) public view returns (uint32) {
        return uint32(_numberOf(chain));
    }

    /// @notice The chain behind a domain, or 0.
    function chainOf(uint32 domain) public view returns (uint64) {
        return _chainOf(domain);
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(mailbox);
    }

    /// @dev The paymaster behind the Mailbox pays back here what it does not need.
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
