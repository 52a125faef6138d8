// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AtomicParticipant} from "../../../contracts/atomic/AtomicParticipant.sol";
import {IAtomicCoordinator} from "../../../contracts/interfaces/IAtomicCoordinator.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {ActionRequest, BranchRequest, Level, Window} from "../../../contracts/types/Atomic.sol";

/// @notice The third dApp of docs/recipes.md, on each chain where an asset is listed.
contract Listings is AtomicParticipant {
    mapping(bytes32 asset => bool) public isFrozen;
    mapping(bytes32 asset => address) public holderOf;

    error Frozen(bytes32 asset);

    constructor(IRouter router_, address owner_, Window memory window) AtomicParticipant(router_, owner_, window) {}

    function buy(bytes32 asset) external {
        _requireMovable(asset); // no action holds it
        if (isFrozen[asset]) revert Frozen(asset);
        holderOf[asset] = msg.sender;
    }

    function _refusal(bytes32 asset, bytes memory) internal view override returns (bytes32) {
        return isFrozen[asset] ? bytes32("FROZEN") : bytes32(0); // PREPARE: votes no with this reason
    }

    function _apply(bytes32 asset, bytes memory) internal override {
        isFrozen[asset] = true; // COMMIT
    }
}

/// @notice On the coordinator's chain; the coordinator's owner has made it an initiator.
contract Regulator {
    function freezeEverywhere(IAtomicCoordinator coordinator, bytes32 asset, BranchRequest[] calldata listings)
        external
        payable
        returns (bytes32 actionId)
    {
        Window memory window; // all zeros: the coordinator's default window
        actionId = coordinator.begin(ActionRequest(Level.ALL_OR_NOTHING, asset, window, listings));
        for (uint256 branch; branch < listings.length; ++branch) {
            uint256 fees = coordinator.quoteDispatch(actionId, branch);
            coordinator.dispatch{value: fees}(actionId, branch);
        }
    }
}
