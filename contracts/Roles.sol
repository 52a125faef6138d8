// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RouterState} from "./RouterState.sol";
import {IRoles} from "./interfaces/IRoles.sol";

/// @dev The roles. The owner, meant to be a timelock, may do everything. A revoker may revoke trust at once, a guardian may pause,
///      and a tripwire, meant to be a program, may pause a GMP for a short time.
abstract contract Roles is IRoles, RouterState {
    modifier onlyRevoker() {
        if (msg.sender != _revoker && msg.sender != owner()) revert NotRevoker(msg.sender);
        _;
    }

    /// @inheritdoc IRoles
    function setRevoker(address account) external onlyOwner {
        _revoker = account;
        emit RevokerSet(account);
    }

    /// @inheritdoc IRoles
    function setGuardian(address account) external onlyOwner {
        (_guardian, _guardianPausesEnd) = (account, 0);
        emit GuardianSet(account);
    }

    /// @inheritdoc IRoles
    function setTripwire(address account) external onlyOwner {
        _tripwire = account;
        emit TripwireSet(account);
    }

    /// @inheritdoc IRoles
    function revoker() external view returns (address) {
        return _revoker;
    }

    /// @inheritdoc IRoles
    function guardian() external view returns (address) {
        return _guardian;
    }

    /// @inheritdoc IRoles
    function tripwire() external view returns (address) {
        return _tripwire;
    }
}
