// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

import {IParameters} from "../interfaces/IParameters.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {GmpSet} from "../types/Gmp.sol";
import {Kind} from "../types/Message.sol";

/// @title Parameters
/// @notice Changed by the timelock here, or by a message of the kind GOVERNANCE_EXECUTE from the governor's chain.
/// @dev How many GMPs must agree on such a message is this contract's policy in the router, set at construction.
contract Parameters is IParameters {
    address public immutable timelock;
    IRouter public immutable router;

    /// @notice The only sender whose messages are obeyed, as an ERC-7930 address.
    bytes public governor;

    mapping(bytes32 name => uint256 value) private _values;
    mapping(bytes32 name => bool known) private _known;

    /// @param chain The governor's chain; its messages need `quorum` receipts of `gmps`.
    constructor(address timelock_, IRouter router_, bytes memory governor_, uint64 chain, uint8 quorum, GmpSet gmps) {
        router_.setPolicy(chain, quorum, gmps);
        timelock = timelock_;
        router = router_;
        governor = governor_;
    }

    /// @inheritdoc IParameters
    function set(bytes32[] calldata names, uint256[] calldata values) external {
        if (msg.sender != timelock) revert NotGovernance(msg.sender);
        _set(names, values);
    }

    /// @inheritdoc IERC7786Recipient
    function receiveMessage(bytes32 receiveId, bytes calldata sender, bytes calldata payload)
        external
        payable
        returns (bytes4)
    {
        if (msg.sender != address(router)) revert NotGovernance(msg.sender);
        if (keccak256(sender) != keccak256(governor)) revert NotGovernor(sender);
        (, Kind kind,,) = router.executing();
        if (kind != Kind.GOVERNANCE_EXECUTE) revert NotGovernanceMessage(receiveId);
        (bytes32[] memory names, uint256[] memory values) = abi.decode(payload, (bytes32[], uint256[]));
        _set(names, values);
        return IERC7786Recipient.receiveMessage.selector;
    }

    /// @inheritdoc IParameters
    function valueOf(bytes32 name) external view returns (uint256) {
        if (!_known[name]) revert UnknownParameter(name);
        return _values[name];
    }

    function _set(bytes32[] memory names, uint256[] memory values) private {
        if (names.length != values.length) revert LengthsDiffer(names.length, values.length);
        for (uint256 index; index < names.length; ++index) {
            _values[names[index]] = values[index];
            _known[names[index]] = true;
            emit ParameterSet(names[index], values[index]);
        }
    }
}
