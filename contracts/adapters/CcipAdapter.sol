// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IAdapter} from "../interfaces/IAdapter.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Addresses} from "../libraries/Addresses.sol";
import {BaseAdapter} from "./BaseAdapter.sol";

/// @dev The functions of CCIP's router that the adapter calls.
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

/// @dev The interface of a CCIP recipient. A recipient that does not declare it by ERC-165 is skipped, and the message counts as
///      delivered.
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

/// @dev The interface that CCIP's off-ramp calls on a recipient that declares it by ERC-165.
interface ICcipReceiverV2 {
    /// @notice The verifications that a message from a source needs before execution.
    /// @return required Resolvers whose verifiers must all approve; the zero address stands for the lane's default ones.
    /// @return optional Resolvers of which some must approve.
    /// @return optionalThreshold The number of optional approvals.
    /// @return allowedFinality The earliest finality for execution; zero: the source's finality, and nothing earlier.
    function getCCVsAndFinalityConfig(uint64 sourceSelector, bytes calldata sender)
        external
        view
        returns (address[] memory required, address[] memory optional, uint8 optionalThreshold, bytes4 allowedFinality);
}

/// @dev Distinguishes a resolver from a verifier: it names the current verifier of a lane.
interface ICcipVerifierResolver {
    function getOutboundImplementation(uint64 destinationSelector, bytes memory extraArgs)
        external
        view
        returns (address);
}

/// @notice Sends and receives over CCIP 2.0. A failed delivery puts the message in state FAILURE at the OffRamp; then anyone
///         may execute it with at least the same gas. CCIP gives a delivery exactly the message's gas. The owner may choose
///         each lane's verifiers. A lane that still runs CCIP 1.6 works as long as no verifiers are chosen for it.
contract CcipAdapter is BaseAdapter, ICcipReceiver, ICcipReceiverV2, IERC165 {
    using Addresses for bytes32;

    struct Verifiers {
        address[] required;
        address[] optional;
        uint8 optionalThreshold;
    }

    /// @dev Tag of CCIP's extra arguments, version 2: gas limit, and whether messages may be executed out of order. The lane's
    ///      default verifiers apply.
    bytes4 private constant EXTRA_ARGS_TAG = 0x181dcf10;

    /// @dev Tag of version 3: gas limit, finality, verifiers, executor.
    bytes4 private constant EXTRA_ARGS_V3_TAG = 0xa69dd4aa;

    /// @notice Maximum number of verifiers per lane: each is paid, and costs gas on both chains.
    uint256 public constant MOST_VERIFIERS = 16;

    ICcipRouter public immutable ccipRouter;

    mapping(uint64 selector => Verifiers) private _verifiers;

    event VerifiersSet(uint64 indexed selector, address[] required, address[] optional, uint8 optionalThreshold);

    /// @notice Messages with these verifiers could never be executed, or no verifier would have to approve them.
    error UnusableVerifiers();

    /// @notice The account is not a resolver: it is a verifier, which CCIP may replace by another one, or has no such function.
    error NotAResolver(address account);

    constructor(IRouter router_, ICcipRouter ccipRouter_) BaseAdapter(router_) {
        if (address(ccipRouter_) == address(0)) revert ZeroConnection();
        ccipRouter = ccipRouter_;
    }

    /// @notice Connects a remote router's adapter on the chain with CCIP's `selector`.
    function connect(uint64 chain, bytes32 remoteRouter, bytes32 remoteAdapter, uint64 selector)
        external
        onlyRouterOwner
    {
        remoteAdapter.toAddress();
        _setNumber(chain, selector);
        _connect(chain, remoteRouter, remoteAdapter);
    }

    /// @notice Sets the verifiers of messages to and from the chain with CCIP's `selector`, as resolvers on this chain. Empty
    ///         lists select the lane's default. The remote adapter must name the same operators' resolvers there. A lane that
    ///         still runs CCIP 1.6 rejects messages with chosen verifiers.
    /// @param required All must approve incoming messages; the zero address stands for the lane's default ones.
    /// @param optional `optionalThreshold` of them must approve.
    function setVerifiers(
        uint64 selector,
        address[] calldata required,
        address[] calldata optional,
        uint8 optionalThreshold
    ) external onlyRouterOwner {
        if (selector == 0) revert ZeroConnection();
        if (optionalThreshold > optional.length || (optional.length != 0 && optionalThreshold == 0)) {
            revert UnusableVerifiers();
        }
        uint256 count = required.length + optional.length;
        if (count > MOST_VERIFIERS) revert UnusableVerifiers();
        for (uint256 i = 0; i < count; ++i) {
            address verifier = _at(required, optional, i);
            for (uint256 j = 0; j < i; ++j) {
                if (_at(required, optional, j) == verifier) revert UnusableVerifiers();
            }
            if (verifier == address(0)) {
                if (i >= required.length) revert UnusableVerifiers();
            } else if (!_isResolver(verifier, selector)) {
                revert NotAResolver(verifier);
            }
        }
        _verifiers[selector] = Verifiers(required, optional, optionalThreshold);
        emit VerifiersSet(selector, required, optional, optionalThreshold);
    }

    /// @inheritdoc ICcipReceiverV2
    function getCCVsAndFinalityConfig(uint64 sourceSelector, bytes calldata)
        external
        view
        returns (address[] memory, address[] memory, uint8, bytes4)
    {
        Verifiers storage chosen = _verifiers[sourceSelector];
        return (chosen.required, chosen.optional, chosen.optionalThreshold, 0);
    }

    /// @notice Receives a message from CCIP's router.
    function ccipReceive(IncomingMessage calldata message) external {
        if (msg.sender != address(ccipRouter)) revert OnlyGmp(msg.sender);
        _receive(chainOf(message.sourceChainSelector), abi.decode(message.sender, (bytes32)), message.data);
    }

    /// @inheritdoc IERC165
    function supportsInterface(bytes4 interfaceId) external pure returns (bool) {
        return interfaceId == type(ICcipReceiver).interfaceId || interfaceId == type(ICcipReceiverV2).interfaceId
            || interfaceId == type(IERC165).interfaceId;
    }

    /// @notice CCIP's number for a chain, or 0.
    function selectorOf(uint64 chain) public view returns (uint64) {
        return uint64(_numberOf(chain));
    }

    /// @notice The chain with that CCIP number, or 0.
    function chainOf(uint64 selector) public view returns (uint64) {
        return _chainOf(selector);
    }

    /// @inheritdoc IAdapter
    function transport() external view returns (address) {
        return address(ccipRouter);
    }

    /// @dev CCIP's router keeps all value, so it gets exactly its fee.
    function _send(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit, address)
        internal
        override
    {
        uint64 selector = selectorOf(chain);
        ICcipRouter.OutgoingMessage memory message = _outgoing(selector, remoteAdapter, envelope, gasLimit);
        uint256 fee = ccipRouter.getFee(selector, message);
        _requireFee(fee);
        ccipRouter.ccipSend{value: fee}(selector, message);
    }

    function _quote(uint64 chain, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        internal
        view
        override
        returns (uint256)
    {
        uint64 selector = selectorOf(chain);
        return ccipRouter.getFee(selector, _outgoing(selector, remoteAdapter, envelope, gasLimit));
    }

    /// @dev The zero fee token stands for the native coin.
    function _outgoing(uint64 selector, bytes32 remoteAdapter, bytes calldata envelope, uint256 gasLimit)
        private
        view
        returns (ICcipRouter.OutgoingMessage memory)
    {
        return ICcipRouter.OutgoingMessage({
            receiver: abi.encode(remoteAdapter),
            data: envelope,
            tokenAmounts: new ICcipRouter.TokenAmount[](0),
            feeToken: address(0),
            extraArgs: _extraArgs(selector, gasLimit)
        });
    }

    function _extraArgs(uint64 selector, uint256 gasLimit) private view returns (bytes memory arguments) {
        Verifiers storage chosen = _verifiers[selector];
        address[] memory required = chosen.required;
        address[] memory optional = chosen.optional;
        uint256 count = required.length + optional.length;
        if (count == 0) return abi.encodeWithSelector(EXTRA_ARGS_TAG, gasLimit, true);
        arguments = abi.encodePacked(EXTRA_ARGS_V3_TAG, SafeCast.toUint32(gasLimit), bytes4(0), uint8(count));
        for (uint256 i = 0; i < count; ++i) {
            address verifier = i < required.length ? required[i] : optional[i - required.length];
            // The length of the address, the address, and the length of arguments for the verifier: none.
            arguments = verifier == address(0)
                ? abi.encodePacked(arguments, uint24(0))
                : abi.encodePacked(arguments, uint8(20), verifier, uint16(0));
        }
        // No executor, token receiver or arguments for them: four lengths of 1, 2, 1 and 2 bytes.
        return abi.encodePacked(arguments, uint48(0));
    }

    function _isResolver(address account, uint64 selector) private view returns (bool) {
        bytes memory question = abi.encodeCall(ICcipVerifierResolver.getOutboundImplementation, (selector, ""));
        (bool answers, bytes memory answer) = account.staticcall(question);
        return answers && answer.length == 32;
    }

    function _at(address[] calldata required, address[] calldata optional, uint256 index)
        private
        pure
        returns (address)
    {
        return index < required.length ? required[index] : optional[index - required.length];
    }
}
