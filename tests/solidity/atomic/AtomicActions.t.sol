// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {ActionState, Cause, Decision, Level} from "../../../contracts/types/Atomic.sol";
import {AtomicChains} from "./AtomicChains.sol";

/// @notice Atomic actions over three chains, step by step.
contract AtomicActionsTest is Test, AtomicChains {
    function setUp() external {
        setUpChains();
    }

    function _begin(Level level) private returns (bytes32 actionId) {
        vm.prank(initiator);
        return coordinator.begin(freeze(level));
    }

    function test_AllPrepareAndTheChangeIsMadeEverywhere() external {
        bytes32 actionId = _begin(Level.ALL_OR_NOTHING);
        tell(actionId, 0);
        tell(actionId, 1);
        answer(actionId, EAST);
        assertFalse(assets[EAST].isFrozen(ASSET));
        answer(actionId, WEST);
        assertTrue(coordinator.actionOf(actionId).decision == Decision.COMMIT);
        tell(actionId, 0);
        tell(actionId, 1);
        assertTrue(assets[EAST].isFrozen(ASSET) && assets[WEST].isFrozen(ASSET));
        answer(actionId, EAST);
        answer(actionId, WEST);
        assertTrue(coordinator.actionOf(actionId).state == ActionState.COMMITTED);
        assertEq(coordinator.actionOn(ASSET), 0);
    }
}
