// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IParameters} from "../interfaces/IParameters.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {GmpSet} from "../types/Gmp.sol";
import {Kind} from "../types/Message.sol";

/// @title Parameters
/// @notice Changed by the owner, meant to be a timelock here, or by a message of the kind GOVERNANCE_EXECUTE from the governor's
///         chain.
/// @dev This contract's policy at the router determines how many GMPs must agree on such a message.
contract Parameters is IParameters, Ownable2Step {
    struct Parameter {
        uint256 value;
        /// @dev The number of the change that set it; 0 = never set.
        uint64 number;
    }

    IRouter public immutable router;

    /// @notice The only sender whose messages are accepted, as an ERC-7930 address.
    bytes public governor;

    mapping(bytes32 name => Parameter) private _parameters;

    constructor(address timelock, IRouter router_, uint64 chain, address governor_, uint8 quorum, GmpSet gmps)
        Ownable(timelock)
    {
        router = router_;
        _setGovernor(chain, governor_, quorum, gmps);
    }

    /// @inheritdoc IParameters
    function set(uint64 number, bytes32[] calldata names, uint256[] calldata values) external onlyOwner {
        _validate(number, names.length, values.length);
        for (uint256 index; index < names.length; ++index) {
            _set(number, names[index], values[index]);
        }
    }

    /// @inheritdoc IParameters
    function setGovernor(uint64 chain, address account, uint8 quorum, GmpSet gmps) external onlyOwner {
        _setGovernor(chain, account, quorum, gmps);
    }

    /// @inheritdoc IERC7786Recipient
    function receiveMessage(bytes32 receiveId, bytes calldata sender, bytes calldata payload)
        external
        payable
        returns (bytes4)
    {
        if (msg.sender != address(router)) revert NotRouter(msg.sender);
        if (keccak256(sender) != keccak256(governor)) revert NotGovernor(sender);
        (, Kind kind,,) = router.executing();
        if (kind != Kind.GOVERNANCE_EXECUTE) revert NotGovernanceMessage(receiveId);
        (uint64 number, bytes32[] memory names, uint256[] memory values) =
            abi.decode(payload, (uint64, bytes32[], uint256[]));
        _validate(number, names.length, values.length);
        for (uint256 index; index < names.length; ++index) {
            // Messages arrive in any order: values set by a later change stay, and the others are applied.
            uint64 present = _parameters[names[index]].number;
            if (number > present) _set(number, names[index], values[index]);
            else emit ChangeSuperseded(names[index], values[index], number, present);
        }
        return IERC7786Recipient.receiveMessage.selector;
    }

    /// @inheritdoc IParameters
    function valueOf(bytes32 name) external view returns (uint256) {
        if (_parameters[name].number == 0) revert UnknownParameter(name);
        return _parameters[name].value;
    }

    /// @inheritdoc IParameters
    function numberOf(bytes32 name) external view returns (uint64) {
        return _parameters[name].number;
    }

    /// @dev Without an owner only messages could change values, and no account could set another governor.
    function renounceOwnership() public view override onlyOwner {
        revert RenouncingDisabled();
    }

    function _setGovernor(uint64 chain, address account, uint8 quorum, GmpSet gmps) private {
        if (account == address(0) || quorum == 0) revert InvalidGovernor(chain, account, quorum);
        // The encoding in which a router names senders; any other would never match.
        governor = InteroperableAddress.formatEvmV1(chain, account);
        router.setPolicy(chain, quorum, gmps);
        emit GovernorSet(chain, account, quorum, gmps);
    }

    function _set(uint64 number, bytes32 name, uint256 value) private {
        _parameters[name] = Parameter(value, number);
        emit ParameterSet(name, value, number);
    }

    function _validate(uint64 number, uint256 names, uint256 values) private pure {
        if (number == 0) revert ZeroNumber();
        if (names != values) revert LengthsDiffer(names, values);
    }
}
