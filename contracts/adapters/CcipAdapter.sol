// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Addresses} from "../libraries/Addresses.sol";
import {BaseAdapter} from "./BaseAdapter.sol";

/// @dev What the adapter needs of CCIP's router.
interface ICcipRouter {
    struct TokenAmount {
        address token;
        uint256 amount;
    }

    struct OutgoingMessage {
        bytes receiver;
        bytes data;
        TokenAmount[] tokenAmounts;
        address feeToken;
        bytes extraArgs;
    }

    function ccipSend(uint64 destinationSelector, OutgoingMessage calldata message)
        external
        payable
        returns (bytes32 ccipMessageId);

    function getFee(uint64 destinationSelector, OutgoingMessage calldata message) external view returns (uint256 fee);
}

/// @dev What CCIP asks of a recipient. A recipient that does not declare this interface by ERC-165 is skipped, and the message
///      counts as delivered.
interface ICcipReceiver {
    struct IncomingMessage {
        bytes32 messageId;
        uint64 sourceChainSelector;
        bytes sender;
        bytes data;
        ICcipRouter.TokenAmount[] tokenAmounts;
    }

    function ccipReceive(IncomingMessage calldata message) external;
}

/// @notice Speaks CCIP 1.6. A refused delivery puts the message in state FAILURE at the OffRamp; then anyone may call
///         `manuallyExecute`, with as much gas or more. CCIP gives a delivery exactly the gas it was sent with.
contract CcipAdapter is BaseAdapter, ICcipReceiver, IERC165 {
    using Addresses for bytes32;

    /// @dev Tag of CCIP's extra arguments, version 2: gas limit, and whether messages may overtake each other.
    bytes4 private constant EXTRA_ARGS_TAG = 0x181dcf10;

    ICcipRouter public immutable ccipRouter;

    constructor(IRouter router_, ICcipRouter ccipRouter_) BaseAdapter(router_) {
        if (address(ccipRouter_) == address(0)) revert ZeroConnection();
        ccipRouter = ccipRouter_;
    }

    /// @notice Connects a remote router's adapter on the chain that CCIP calls `selector`.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter, uint64 selector)
        external
        onlyRouterOwner
    {
        remoteAdapter.toAddress();
        _setNumber(chain, selector);
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @notice CCIP's router delivers a message.
    function ccipReceive(IncomingMessage calldata message) external {
        if (msg.sender != address(ccipRouter)) revert OnlyGmp(msg.sender);
        _receive(chainOf(message.sourceChainSelector), abi.decode(message.sender, (bytes32)), message.data);
    }

    /// @inheritdoc IERC165
    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        return interfaceId == type(ICcipReceiver).interfaceId || interfaceId == type(IERC165).interfaceId;
    }

    /// @notice CCIP's number for a chain, or 0.
    function selectorOf(uint64 chain) public view returns (uint64) {
        return uint64(_numberOf(chain));
    }

    /// @notice The chain behind CCIP's number, or 0.
    function chainOf(uint64 selector) public view returns (uint64) {
        return _chainOf(selector);
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(ccipRouter);
    }

    /// @dev CCIP's router keeps all the value it gets, so it gets what it asks for.
    function _send(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit, address refundTo)
        internal
        override
    {
        ICcipRouter.OutgoingMessage memory message = _outgoing(remoteAdapter, envelope, gasLimit);
        uint256 fee = ccipRouter.getFee(selectorOf(chain), message);
        _refundExcess(fee, refundTo);
        ccipRouter.ccipSend{value: fee}(selectorOf(chain), message);
    }

    function _quote(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        internal
        view
        override
        returns (uint256)
    {
        return ccipRouter.getFee(selectorOf(chain), _outgoing(remoteAdapter, envelope, gasLimit));
    }

    /// @dev No fee token stands for the chain's own money.
    function _outgoing(bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        private
        pure
        returns (ICcipRouter.OutgoingMessage memory)
    {
        return ICcipRouter.OutgoingMessage({
            receiver: abi.encode(remoteAdapter),
            data: envelope,
            tokenAmounts: new ICcipRouter.TokenAmount[](0),
            feeToken: address(0),
            extraArgs: abi.encodeWithSelector(EXTRA_ARGS_TAG, gasLimit, true)
        });
    }
}
