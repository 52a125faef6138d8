// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AtomicParticipant} from "../atomic/AtomicParticipant.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Window} from "../types/Atomic.sol";

/// @title AtomicParameters
/// @notice Values that change on all chains or on none. A change names the value that it replaces, so that it is applied only
///         once.
contract AtomicParameters is AtomicParticipant {
    mapping(bytes32 name => uint256) public valueOf;

    event ParameterSet(bytes32 indexed name, uint256 value);

    constructor(IRouter router_, address owner_, Window memory window) AtomicParticipant(router_, owner_, window) {}

    /// @notice Sets a value on this chain only; rejected while an action holds it.
    function set(bytes32 name, uint256 value) external onlyOwner {
        _requireMovable(name);
        _set(name, value);
    }

    /// @dev A change is `abi.encode(uint256 before, uint256 after)`.
    function _refusal(bytes32 name, bytes memory change) internal view override returns (bytes32) {
        (uint256 present,) = abi.decode(change, (uint256, uint256));
        return valueOf[name] == present ? bytes32(0) : bytes32("OTHER_VALUE");
    }

    function _apply(bytes32 name, bytes memory change) internal override {
        (, uint256 value) = abi.decode(change, (uint256, uint256));
        _set(name, value);
    }

    function _set(bytes32 name, uint256 value) private {
        valueOf[name] = value;
        emit ParameterSet(name, value);
    }
}
