// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {AtomicCoordinator} from "../../../contracts/atomic/AtomicCoordinator.sol";
import {AtomicAssets} from "../../../contracts/examples/AtomicAssets.sol";
import {
    Action,
    ActionState,
    BranchState,
    Decision,
    Instruction,
    Level,
    Participation,
    Phase
} from "../../../contracts/types/Atomic.sol";
import {AtomicHandler} from "./AtomicHandler.sol";

/// @notice What holds of atomic actions whatever happens to chains, GMPs and messages.
/// @dev One invariant function checks everything after each action: a campaign costs far more than its checks.
contract AtomicInvariantsTest is Test {
    uint64 private constant EAST = 902;
    uint64 private constant WEST = 903;
    bytes32 private constant ASSET = "gold";
    uint256 private constant UNITS = 1000;

    AtomicHandler private handler;
    AtomicCoordinator private coordinator;

    function setUp() public {
        handler = new AtomicHandler();
        coordinator = AtomicCoordinator(handler.theCoordinator());
        targetContract(address(handler));
        bytes4[29] memory chosen = [
            handler.begin.selector,
            handler.begin.selector,
            handler.advance.selector,
            handler.advance.selector,
            handler.advance.selector,
            handler.advance.selector,
            handler.dispatch.selector,
            handler.dispatch.selector,
            handler.reply.selector,
            handler.reply.selector,
            handler.deliverNext.selector,
            handler.deliverNext.selector,
            handler.deliverNext.selector,
            handler.deliverOnce.selector,
            handler.retry.selector,
            handler.timeOut.selector,
            handler.timeOut.selector,
            handler.abort.selector,
            handler.settle.selector,
            handler.cancelMessage.selector,
            handler.report.selector,
            handler.reconcileAtHome.selector,
            handler.reconcileAway.selector,
            handler.transfer.selector,
            handler.breakGmp.selector,
            handler.cutOff.selector,
            handler.lie.selector,
            handler.executeWaiting.selector,
            handler.pause.selector
        ];
        bytes4[] memory selectors = new bytes4[](chosen.length + 4);
        for (uint256 index; index < chosen.length; ++index) {
            selectors[index] = chosen[index];
        }
        selectors[chosen.length] = handler.warp.selector;
        selectors[chosen.length + 1] = handler.warp.selector;
        selectors[chosen.length + 2] = handler.warpFar.selector;
        selectors[chosen.length + 3] = handler.strand.selector;
        targetSelector(FuzzSelector(address(handler), selectors));
    }

    function invariant_AtomicActionsKeepTheirPromises() external {
        _aDecisionNeverChangesAndAnEndIsFinal();
        _theDecisionIsRecordedBeforeItLeaves();
        _nothingIsAppliedHereAndReleasedThere();
        _locksHoldForTheWholeWindowAndNoLonger();
        _anEndSaysWhatTheParticipantsDid();
        _anAbortLeavesEverythingAsItWas();
        _eachVoteAndEndCountsOnce();
        _oneUnfinishedActionOnASubject();
    }

    function _aDecisionNeverChangesAndAnEndIsFinal() private {
        assertEq(handler.decisionsChanged(), 0, "a decision changed");
        assertEq(handler.endsChanged(), 0, "an end changed");
    }

    /// @dev What left names its decision, and left after it.
    function _theDecisionIsRecordedBeforeItLeaves() private {
        assertEq(handler.decidedAfterItLeft(), 0, "COMMIT or ABORT left before the decision");
        for (uint256 index; index < handler.actionsCount(); ++index) {
            bytes32 actionId = handler.actions(index);
            Action memory action = coordinator.actionOf(actionId);
            for (uint256 place; place < 2; ++place) {
                bytes32 sent = coordinator.branchOf(actionId, place).decisionId;
                if (sent == 0) continue;
                Phase phase = abi.decode(handler.sentMessageOf(sent).payload, (Instruction)).phase;
                assertTrue((phase == Phase.COMMIT) == (action.decision == Decision.COMMIT), "another phase left");
            }
        }
    }

    /// @dev Applied here and released there would need two decisions.
    function _nothingIsAppliedHereAndReleasedThere() private {
        for (uint256 index; index < handler.actionsCount(); ++index) {
            bytes32 actionId = handler.actions(index);
            Decision decision = coordinator.actionOf(actionId).decision;
            BranchState east = handler.assetsOn(EAST).participationOf(actionId).state;
            BranchState west = handler.assetsOn(WEST).participationOf(actionId).state;
            bool applied = east == BranchState.APPLIED || west == BranchState.APPLIED;
            bool released = east == BranchState.RELEASED || west == BranchState.RELEASED;
            assertFalse(applied && released, "applied here and released there");
            assertTrue(!applied || decision == Decision.COMMIT, "applied without the decision");
            assertTrue(!released || decision == Decision.ABORT, "released without the decision");
        }
    }

    /// @dev A participant that voted yes still holds its lock while a COMMIT may arrive in time: it can't be too late for one of them alone.
    function _locksHoldForTheWholeWindowAndNoLonger() private {
        for (uint256 index; index < handler.actionsCount(); ++index) {
            bytes32 actionId = handler.actions(index);
            Action memory action = coordinator.actionOf(actionId);
            _checkLock(actionId, action, EAST);
            _checkLock(actionId, action, WEST);
        }
    }

    function _anEndSaysWhatTheParticipantsDid() private {
        for (uint256 index; index < handler.actionsCount(); ++index) {
            bytes32 actionId = handler.actions(index);
            Action memory action = coordinator.actionOf(actionId);
            for (uint256 place; place < 2; ++place) {
                BranchState known = coordinator.branchOf(actionId, place).state;
                BranchState state = handler.assetsOn(place == 0 ? EAST : WEST).participationOf(actionId).state;
                if (action.state == ActionState.COMMITTED) assertTrue(state == BranchState.APPLIED, "not applied");
                if (action.state == ActionState.ABORTED) {
                    assertTrue(state != BranchState.APPLIED && state != BranchState.DIVERGED, "applied after all");
                }
                if (known == BranchState.APPLIED) assertTrue(state == BranchState.APPLIED, "it was not applied");
                if (known == BranchState.PREPARED) assertTrue(state != BranchState.NONE, "it never voted");
            }
        }
    }

    /// @dev Of an action that is not committed nothing is left: units are what committed changes made of them.
    function _anAbortLeavesEverythingAsItWas() private {
        for (uint64 chain = EAST; chain <= WEST; ++chain) {
            AtomicAssets assets = handler.assetsOn(chain);
            uint256 units =
                assets.unitsOf(ASSET, makeAddrView("ann")) + assets.unitsOf(ASSET, makeAddrView("initiator"));
            assertEq(units + handler.debited(chain), UNITS + handler.credited(chain), "units");
        }
    }

    function _eachVoteAndEndCountsOnce() private {
        for (uint256 index; index < handler.actionsCount(); ++index) {
            bytes32 actionId = handler.actions(index);
            Action memory action = coordinator.actionOf(actionId);
            uint8 open;
            for (uint256 place; place < 2; ++place) {
                BranchState state = coordinator.branchOf(actionId, place).state;
                bool settled =
                    state != BranchState.NONE && state != BranchState.PREPARED && state != BranchState.DIVERGED;
                if (action.decision == Decision.NONE ? state == BranchState.NONE : !settled) ++open;
            }
            assertEq(action.pending, open, "pending");
        }
    }

    function _oneUnfinishedActionOnASubject() private {
        uint256 unfinished;
        for (uint256 index; index < handler.actionsCount(); ++index) {
            Action memory action = coordinator.actionOf(handler.actions(index));
            if (action.level == Level.BEST_EFFORT || coordinator.phaseEndsAt(handler.actions(index)) == 0) continue;
            ++unfinished;
            assertEq(coordinator.actionOn(ASSET), handler.actions(index));
        }
        assertLe(unfinished, 1);
    }

    /// @dev A fixed walk, to see that the campaign's actions reach what the invariants are about.
    function test_TheActionsReachEveryState() external {
        vm.pauseGasMetering();
        uint256[10] memory states;
        uint256[10] memory branches;
        for (uint256 world; world < 8; ++world) {
            setUp();
            bytes4[] memory selectors = targetSelectors()[0].selectors;
            // What chance finds too seldom for so short a walk.
            if (world == 0) _loseALock();
            for (uint256 step; step < 160; ++step) {
                uint256 seed = uint256(keccak256(abi.encode(world, step)));
                bytes32[2] memory arguments = [keccak256(abi.encode(seed)), keccak256(abi.encode(seed, seed))];
                (bool done,) = address(handler)
                    .call(abi.encodePacked(selectors[seed % selectors.length], arguments, bytes32(seed % 2)));
                assertTrue(done, "an action reverted");
            }
            for (uint8 state = 1; state <= uint8(ActionState.ROLLBACK_INCOMPLETE); ++state) {
                states[state] += handler.seen(ActionState(state));
            }
            for (uint8 state = 1; state <= uint8(BranchState.DIVERGED); ++state) {
                branches[state] += handler.seenAtParticipants(BranchState(state));
            }
        }
        for (uint8 state = 1; state <= uint8(ActionState.ROLLBACK_INCOMPLETE); ++state) {
            assertGt(states[state], 0, string.concat("no action was ever in state ", vm.toString(state)));
        }
        for (uint8 state = 1; state <= uint8(BranchState.DIVERGED); ++state) {
            if (BranchState(state) == BranchState.NOT_APPLIED) continue; // only coordinators know it
            assertGt(branches[state], 0, string.concat("no participant was ever in state ", vm.toString(state)));
        }
    }

    /// @dev A move is decided, and its lock ends before COMMIT arrives.
    function _loseALock() private {
        handler.begin(2, 2, UNITS / 2);
        handler.advance(0);
        handler.strand(0);
        handler.advance(0);
    }

    function _checkLock(bytes32 actionId, Action memory action, uint64 chain) private view {
        AtomicAssets assets = handler.assetsOn(chain);
        Participation memory part = assets.participationOf(actionId);
        (address holder, uint64 until,) = assets.lockOf(ASSET);
        bool holds = holder == address(uint160(uint256(actionId)));
        uint256 preparedAt = handler.preparedAt(actionId, chain);
        if (part.state != BranchState.PREPARED) return assertFalse(holds, "a lock without a vote");
        if (holds) assertLe(until, preparedAt + action.window.lockTtl, "a lock outlives its time");
        bool undecided = action.decision == Decision.NONE
            && block.timestamp <= action.begunAt + action.window.prepareTtl + action.window.decisionTtl;
        bool insisted = action.decision == Decision.COMMIT
            && block.timestamp < action.decidedAt + action.window.maxRetries * action.window.maxBackoff;
        if (undecided || insisted) assertTrue(holds, "the lock ended within the window");
    }

    function makeAddrView(string memory name) private pure returns (address) {
        return vm.addr(uint256(keccak256(bytes(name))));
    }
}
