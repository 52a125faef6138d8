// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Roles} from "./Roles.sol";
import {IRecipientPolicy} from "./interfaces/IRecipientPolicy.sol";
import {Gmp, GmpSet, HIGHEST_GMP, NO_GMPS} from "./types/Gmp.sol";

/// @dev Recipients' policies and lanes' floors, as {IRecipientPolicy} specifies them.
abstract contract RecipientPolicy is IRecipientPolicy, Roles {
    /// @inheritdoc IRecipientPolicy
    function setPolicy(uint64 chain, uint8 quorum, GmpSet gmps) external {
        if (quorum > gmps.count() || (quorum == 0 && gmps != NO_GMPS)) revert InvalidPolicy(quorum, gmps);
        _policies[msg.sender][chain] = Policy({quorum: quorum, gmps: gmps});
        _tables[msg.sender] = _tables[msg.sender].withPolicy();
        emit PolicySet(msg.sender, chain, quorum, gmps);
    }

    /// @inheritdoc IRecipientPolicy
    function setFloor(uint64 chain, uint8 floor) external onlyRevoker {
        if (floor < _lanes[chain].word.floor()) _checkOwner();
        _setFloor(chain, floor);
    }

    /// @inheritdoc IRecipientPolicy
    function policyOf(address recipient, uint64 chain) external view returns (uint8 quorum, GmpSet gmps) {
        Policy memory policy = _policies[recipient][chain];
        return (policy.quorum, policy.gmps);
    }

    /// @inheritdoc IRecipientPolicy
    function floorOf(uint64 chain) external view returns (uint8) {
        return _lanes[chain].word.floor();
    }

    /// @dev The only way to change a floor, so that no lane has a floor of zero or one that cannot be reached.
    function _setFloor(uint64 chain, uint8 floor) internal {
        if (floor == 0 || floor > Gmp.unwrap(HIGHEST_GMP)) revert InvalidFloor(floor);
        _lanes[chain].word = _lanes[chain].word.withFloor(floor);
        emit FloorSet(chain, floor);
    }
}
