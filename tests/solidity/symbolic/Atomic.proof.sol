// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AtomicCoordinator} from "../../../contracts/atomic/AtomicCoordinator.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {
    Action,
    ActionState,
    Branch,
    BranchState,
    Cause,
    Decision,
    Level,
    Window
} from "../../../contracts/types/Atomic.sol";
import {Symbolic} from "./Symbolic.sol";

/// @dev A coordinator whose records can be set, and whose replies need no message. It holds one action with two participants.
contract OpenCoordinator is AtomicCoordinator {
    /// @dev Not a constant: the compiler would compute some slots of storage itself, and halmos would not know them again.
    bytes32 public immutable ID = "action";

    constructor(address router_) AtomicCoordinator(IRouter(router_), router_, Window(600, 300, 2, 150, 1200)) {}

    function put(Action calldata record, BranchState first, BranchState second, bytes32 prepareId) external {
        _actions[ID] = record;
        _put(first, prepareId);
        _put(second, prepareId);
    }

    function vote(uint256 index, bool yes) external {
        _countVote(ID, index, yes, 0);
    }

    function action() external view returns (Action memory) {
        return _actions[ID];
    }

    function _put(BranchState state, bytes32 prepareId) private {
        Branch storage branch = _branches[ID].push();
        (branch.state, branch.prepareId) = (state, prepareId);
    }
}

/// @dev The coordinator's state machine: how it counts votes.
contract AtomicProofs is Symbolic {
    uint64 private constant BEGUN_AT = 1_700_000_000;

    OpenCoordinator private coordinator;

    function setUp() public {
        coordinator = new OpenCoordinator(address(this));
    }

    function check_AVoteCountsOnce(uint8 index, bool yes, bool again) public {
        _assertOneVoteIsOne(index, index, yes, again);
    }

    function control_AVoteCountsOnce(uint8 index, bool yes, bool again) public {
        _assertOneVoteIsOne(index, 1 - index, yes, again);
    }

    function _assertOneVoteIsOne(uint8 index, uint8 other, bool yes, bool again) private {
        vm.assume(index < 2);
        vm.warp(BEGUN_AT);
        coordinator.put(
            _action(Level.ALL_OR_NOTHING, ActionState.PREPARING, Decision.NONE, 2),
            BranchState.NONE,
            BranchState.NONE,
            "sent"
        );
        coordinator.vote(index, yes);
        Action memory before = coordinator.action();
        coordinator.vote(other, again);
        Action memory present = coordinator.action();
        assert(present.pending == before.pending && present.decision == before.decision);
    }

    function _action(Level level, ActionState state, Decision decision, uint8 pending)
        private
        view
        returns (Action memory made)
    {
        made.initiator = address(this);
        made.level = level;
        made.state = state;
        made.decision = decision;
        made.cause = Cause.NONE;
        made.pending = pending;
        made.branches = 2;
        made.number = 1;
        made.begunAt = BEGUN_AT;
        made.subject = "subject";
        made.window = Window(600, 300, 2, 150, 1200);
    }
}
