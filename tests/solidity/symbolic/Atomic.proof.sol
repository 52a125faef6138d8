// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AtomicCoordinator} from "../../../contracts/atomic/AtomicCoordinator.sol";
import {Lane} from "../../../contracts/client/Lanes.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {
    Action,
    ActionRequest,
    ActionState,
    Branch,
    BranchRequest,
    BranchState,
    Decision,
    Level,
    Phase,
    Reply,
    Window
} from "../../../contracts/types/Atomic.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Retry, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {Symbolic} from "./Symbolic.sol";

/// @dev What claims speak of: an action and its two participants, as the coordinator has them. Numbers of enums, and not the enums:
///      each check of a range would be a path of its own.
struct Record {
    uint256 state;
    uint256 decision;
    uint256 pending;
    uint256 first;
    uint256 second;
}

/// @dev Takes every message, remembers which phases left, and what the coordinator had decided when the last one did.
contract PhaseRouter {
    OpenCoordinator private coordinator;

    /// @dev How the message that was sent before has ended.
    Execution private outcome;

    /// @dev Bit `Phase` is set once a message of that phase has left.
    uint256 public left;
    uint256 public decisionWhenItLeft;

    function put(OpenCoordinator coordinator_, Execution outcome_, uint256 left_) external {
        (coordinator, outcome, left) = (coordinator_, outcome_, left_);
    }

    /// @dev Every GMP is free. The request itself holds the most that it pays each of them, which no call here could pay.
    function quoteRoute(Route calldata made) external pure returns (uint256, GmpFee[] memory) {
        return (0, new GmpFee[](made.gmps.length));
    }

    /// @dev The phase is the first field of the payload's only struct.
    function route(Route calldata made) external payable returns (bytes32) {
        left |= 1 << uint256(bytes32(made.payload[32:64]));
        decisionWhenItLeft = coordinator.record().decision;
        return "sent again";
    }

    function outcomeOf(bytes32) external view returns (Execution) {
        return outcome;
    }

    function retryRoute(Retry calldata) external payable returns (uint32) {
        return 1;
    }
}

/// @dev A coordinator whose record can be set. It holds one action with two participants, {EAST} and {WEST} on chains 1 and 2.
contract OpenCoordinator is AtomicCoordinator {
    /// @dev Not a constant: the compiler would compute some slots of storage itself, and halmos would not know them again.
    bytes32 public immutable ID = "action";
    bytes32 public constant SENT = "sent";
    address public constant EAST = address(0xEA);
    address public constant WEST = address(0xBE);

    constructor(PhaseRouter router_)
        AtomicCoordinator(IRouter(address(router_)), msg.sender, Window(600, 300, 2, 150, 1200))
    {
        Action storage action = _actions[ID];
        (action.initiator, action.branches, action.number, action.subject) = (msg.sender, 2, 1, "subject");
        (action.begunAt, action.decidedAt) = (uint64(block.timestamp), uint64(block.timestamp));
        action.window = Window(600, 300, 2, 150, 1200);
        _add(1, EAST);
        _add(2, WEST);
        _places[SENT] = Place(ID, 0);
    }

    /// @param sentId Of the present phase's message to each participant; 0 if none was sent.
    function put(Level level, Record calldata put_, bytes32 sentId) external {
        Action storage action = _actions[ID];
        (action.level, action.state) = (level, ActionState(put_.state));
        (action.decision, action.pending) = (Decision(put_.decision), uint8(put_.pending));
        _put(_branches[ID][0], put_.first, sentId);
        _put(_branches[ID][1], put_.second, sentId);
    }

    function handle(uint64 chain, address sender, bytes calldata payload) external {
        _handle("reply", chain, sender, payload);
    }

    /// @dev What {AtomicActions-_decide} would be without its check.
    function decideUnchecked(Decision decision) external {
        _actions[ID].decision = decision;
    }

    function sendUnchecked(uint8 phase) external {
        Route memory made;
        made.payload = abi.encode(uint256(32), phase);
        router.route(made);
    }

    function record() external view returns (Record memory) {
        return recordOf(ID);
    }

    function recordOf(bytes32 actionId) public view returns (Record memory) {
        Action storage action = _actions[actionId];
        Branch[] storage branches = _branches[actionId];
        return Record(
            uint8(action.state),
            uint8(action.decision),
            action.pending,
            uint8(branches[0].state),
            uint8(branches[1].state)
        );
    }

    function _add(uint64 chain, address participant) private {
        Branch storage branch = _branches[ID].push();
        (branch.chain, branch.participant, branch.sentAt) = (chain, participant, uint64(block.timestamp));
    }

    function _put(Branch storage branch, uint256 state, bytes32 sentId) private {
        (branch.state, branch.prepareId, branch.decisionId) = (BranchState(state), sentId, sentId);
    }
}

/// @dev The coordinator's state machine. Each claim is about one step: any call with any arguments, from any record that {_isSound}.
///      That the record is sound afterwards is claimed, too, so what holds for a step holds for every history.
abstract contract AtomicWorld is Symbolic {
    uint256 internal constant BEGUN_AT = 1_700_000_000;
    uint256 internal constant COMMIT_LEFT = 1 << uint256(uint8(Phase.COMMIT));
    uint256 internal constant ABORT_LEFT = 1 << uint256(uint8(Phase.ABORT));
    uint256 internal constant LEVELS = 3;
    uint256 internal constant BRANCH_STATES = 8;

    PhaseRouter internal router;
    OpenCoordinator internal coordinator;

    function setUp() public {
        vm.warp(BEGUN_AT);
        router = new PhaseRouter();
        coordinator = new OpenCoordinator(router);
        coordinator.setInitiator(address(this), true);
        coordinator.setRetrier(address(this), true);
        coordinator.setParticipant(Lane(1, coordinator.EAST(), 100_000, 0, 1, GmpSet.wrap(1), 0));
        coordinator.setParticipant(Lane(2, coordinator.WEST(), 100_000, 0, 1, GmpSet.wrap(1), 0));
    }

    // ---- steps

    function _start(Record memory record, uint8 level, bool sent, uint32 later) internal {
        vm.assume(level < LEVELS);
        vm.assume(_isSound(record));
        vm.assume(_suits(level, record));
        coordinator.put(Level(level), record, sent ? coordinator.SENT() : bytes32(0));
        vm.warp(BEGUN_AT + later);
    }

    /// @dev What has left before is what was decided before.
    function _assumeLeft(Record memory record, uint256 left) internal {
        vm.assume(left & COMMIT_LEFT == 0 || record.decision == uint8(Decision.COMMIT));
        vm.assume(left & ABORT_LEFT == 0 || record.decision == uint8(Decision.ABORT));
        router.put(coordinator, Execution.NONE, left);
    }

    function _reply(bool west, Phase phase, uint8 reported) internal {
        vm.assume(reported < BRANCH_STATES);
        Reply memory said = Reply(phase, coordinator.ID(), west ? 1 : 0, BranchState(reported), 0);
        coordinator.handle(west ? 2 : 1, west ? coordinator.WEST() : coordinator.EAST(), abi.encode(said));
    }

    function _call(uint8 call, bool west) internal {
        bytes32 actionId = coordinator.ID();
        uint256 branch = west ? 1 : 0;
        if (call == 0) coordinator.abort(actionId);
        else if (call == 1) coordinator.timeOut(actionId);
        else if (call == 2) coordinator.settle(actionId, branch);
        else coordinator.reconcile(actionId, branch, "evidence");
    }

    function _send(bool retries) internal {
        if (!retries) {
            coordinator.dispatch(coordinator.ID(), 0);
            return;
        }
        Retry memory again;
        again.messageId = coordinator.SENT();
        coordinator.retry(again);
    }

    function _begin(uint8 level) internal returns (Record memory) {
        vm.assume(level < LEVELS);
        ActionRequest memory made;
        (made.level, made.subject, made.branches) = (Level(level), "subject", new BranchRequest[](2));
        made.branches[0] = BranchRequest(1, coordinator.EAST(), "");
        made.branches[1] = BranchRequest(2, coordinator.WEST(), "");
        return coordinator.recordOf(coordinator.begin(made));
    }

    // ---- what is claimed

    function _assertKept(Record memory before) internal view {
        Record memory found = coordinator.record();
        assert(_isSound(found));
        assert(_either(_is(before.decision, 0), _is(found.decision, before.decision)));
        assert(_either(!_isFinal(before.state), _is(found.state, before.state)));
    }

    function _assertDecidedWhenItLeft() internal view {
        uint256 left = router.left();
        assert(left & COMMIT_LEFT == 0 || router.decisionWhenItLeft() == uint8(Decision.COMMIT));
        assert(left & ABORT_LEFT == 0 || router.decisionWhenItLeft() == uint8(Decision.ABORT));
    }

    /// @dev Before any vote, when every reply of a participant changes something.
    function _assertRefused(uint8 level, bool west, uint64 chain, address sender, bool votes) internal {
        Record memory begun = Record(uint8(ActionState.PREPARING), uint8(Decision.NONE), 2, 0, 0);
        _start(begun, level, false, 0);
        Phase phase = votes ? Phase.VOTE : Phase.FINALIZE;
        Reply memory said = Reply(phase, coordinator.ID(), west ? 1 : 0, BranchState.PREPARED, 0);
        try coordinator.handle(chain, sender, abi.encode(said)) {
            assert(false);
        } catch {}
    }

    function _assertSame(Record memory found, Record memory expected) internal pure {
        assert(_pack(found) == _pack(expected));
    }

    function _pack(Record memory record) internal pure returns (uint256) {
        return
            record.state | (record.decision << 8) | (record.pending << 16) | (record.first << 24)
                | (record.second << 32);
    }

    /// @dev Only ALL_OR_NOTHING has votes, and may be aborted. Level and decision never change.
    function _suits(uint8 level, Record memory record) internal pure returns (bool) {
        return _either(_is(level, uint8(Level.ALL_OR_NOTHING)), _is(record.decision, uint8(Decision.COMMIT)));
    }

    /// @dev The state goes with the decision, every answer that is owed is counted, and an action is over when none is owed.
    ///      Without `&&` and `||`: each would be two paths.
    function _isSound(Record memory record) internal pure returns (bool) {
        bool undecided = _is(record.decision, uint8(Decision.NONE));
        bool commits = _is(record.decision, uint8(Decision.COMMIT));
        bool aborts = _is(record.decision, uint8(Decision.ABORT));
        bool sound = _either(_either(undecided, commits), aborts);
        sound = _both(sound, _either(!undecided, _is(record.state, uint8(ActionState.PREPARING))));
        sound = _both(sound, _either(!commits, _isCommit(record.state)));
        sound = _both(sound, _either(!aborts, _isAbort(record.state)));
        sound = _both(sound, _both(record.first < BRANCH_STATES, record.second < BRANCH_STATES));
        sound = _both(sound, _either(!undecided, _both(record.first < 2, record.second < 2)));
        uint256 owed = _owes(undecided, record.first) + _owes(undecided, record.second);
        sound = _both(sound, record.pending == owed);
        bool isPartial = _is(record.state, uint8(ActionState.PARTIALLY_COMMITTED));
        return _both(sound, _either(isPartial, _same(record.pending == 0, _isFinal(record.state))));
    }

    function _isCommit(uint256 state) internal pure returns (bool) {
        bool open = _either(_is(state, uint8(ActionState.COMMITTING)), _is(state, uint8(ActionState.DIVERGED)));
        bool over =
            _either(_is(state, uint8(ActionState.COMMITTED)), _is(state, uint8(ActionState.PARTIALLY_COMMITTED)));
        return _either(open, over);
    }

    function _isAbort(uint256 state) internal pure returns (bool) {
        bool open = _either(_is(state, uint8(ActionState.ABORTING)), _is(state, uint8(ActionState.ROLLBACK_INCOMPLETE)));
        return _either(open, _is(state, uint8(ActionState.ABORTED)));
    }

    function _isFinal(uint256 state) internal pure returns (bool) {
        bool commits =
            _either(_is(state, uint8(ActionState.COMMITTED)), _is(state, uint8(ActionState.PARTIALLY_COMMITTED)));
        return _either(commits, _is(state, uint8(ActionState.ABORTED)));
    }

    /// @dev 1 if the participant owes its vote or, after the decision, its end.
    function _owes(bool undecided, uint256 state) internal pure returns (uint256) {
        bool noEnd = _either(_is(state, uint8(BranchState.PREPARED)), _is(state, uint8(BranchState.DIVERGED)));
        return _bit(_either(_is(state, uint8(BranchState.NONE)), _both(!undecided, noEnd)));
    }

    function _is(uint256 a, uint256 b) internal pure returns (bool) {
        return a == b;
    }

    function _same(bool a, bool b) internal pure returns (bool) {
        return a == b;
    }

    function _either(bool a, bool b) internal pure returns (bool c) {
        assembly {
            c := or(a, b)
        }
    }

    function _both(bool a, bool b) internal pure returns (bool c) {
        assembly {
            c := and(a, b)
        }
    }

    function _bit(bool a) internal pure returns (uint256 b) {
        assembly {
            b := a
        }
    }
}

contract AtomicProofs is AtomicWorld {
    function check_ANewActionIsSound(uint8 level) public {
        Record memory record = _begin(level);
        assert(_isSound(record));
        assert(_suits(level, record));
    }

    /// @dev Of one whose pending answers are not counted.
    function control_ANewActionIsSound(uint8 level) public {
        Record memory record = _begin(level);
        record.pending = 0;
        assert(_isSound(record));
    }

    // ---- what leaves

    function check_NothingLeavesBeforeItsDecisionIsRecorded(Record memory record, uint8 level, bool west, bool sent)
        public
    {
        _start(record, level, sent, 0);
        router.put(coordinator, Execution.EXPIRED, 0);
        coordinator.dispatch(coordinator.ID(), west ? 1 : 0);
        _assertDecidedWhenItLeft();
    }

    /// @dev From a coordinator that sends without asking its record.
    function control_NothingLeavesBeforeItsDecisionIsRecorded(Record memory record, uint8 level, uint8 phase) public {
        _start(record, level, false, 0);
        router.put(coordinator, Execution.NONE, 0);
        vm.assume(phase < 3);
        coordinator.sendUnchecked(phase);
        _assertDecidedWhenItLeft();
    }

    // ---- who answers, and how often it counts

    function check_OnlyItsParticipantAnswers(uint8 level, bool west, uint64 chain, address sender, bool votes) public {
        vm.assume(chain != (west ? 2 : 1) || sender != (west ? coordinator.WEST() : coordinator.EAST()));
        _assertRefused(level, west, chain, sender, votes);
    }

    function control_OnlyItsParticipantAnswers(uint8 level, bool west, uint64 chain, address sender, bool votes)
        public
    {
        _assertRefused(level, west, chain, sender, votes);
    }

    function check_AVoteCountsOnce(Record memory record, uint8 level, bool west, uint8 reported, uint8 again) public {
        _start(record, level, false, 0);
        _reply(west, Phase.VOTE, reported);
        Record memory counted = coordinator.record();
        vm.assume(_pack(counted) != _pack(record));
        _reply(west, Phase.VOTE, again);
        _assertSame(coordinator.record(), counted);
    }

    /// @dev The second vote is the other participant's.
    function control_AVoteCountsOnce(Record memory record, uint8 level, bool west, uint8 reported, uint8 again) public {
        _start(record, level, false, 0);
        _reply(west, Phase.VOTE, reported);
        Record memory counted = coordinator.record();
        vm.assume(_pack(counted) != _pack(record));
        _reply(!west, Phase.VOTE, again);
        _assertSame(coordinator.record(), counted);
    }
}

/// @dev Claims that take a minute or more.
contract AtomicDeepProofs is AtomicWorld {
    // ---- every step leaves a sound record, keeps a decision that was made, and an end that was recorded

    function check_AReplyKeepsDecisionAndEnd(
        Record memory record,
        uint8 level,
        bool votes,
        bool west,
        uint8 reported,
        uint32 later
    ) public {
        _start(record, level, false, later);
        _reply(west, votes ? Phase.VOTE : Phase.FINALIZE, reported);
        _assertKept(record);
    }

    function control_AReplyKeepsDecisionAndEnd(
        Record memory record,
        uint8 level,
        bool votes,
        bool west,
        uint8 reported,
        uint32 later
    ) public {
        _start(record, level, false, later);
        coordinator.decideUnchecked(Decision.ABORT);
        _reply(west, votes ? Phase.VOTE : Phase.FINALIZE, reported);
        _assertKept(record);
    }

    function check_ACallKeepsDecisionAndEnd(
        Record memory record,
        uint8 level,
        uint8 call,
        bool west,
        uint8 outcome,
        uint32 later
    ) public {
        _start(record, level, false, later);
        router.put(coordinator, Execution(outcome), 0);
        _call(call, west);
        _assertKept(record);
    }

    function control_ACallKeepsDecisionAndEnd(
        Record memory record,
        uint8 level,
        uint8 call,
        bool west,
        uint8 outcome,
        uint32 later
    ) public {
        _start(record, level, false, later);
        router.put(coordinator, Execution(outcome), 0);
        coordinator.decideUnchecked(Decision.ABORT);
        _call(call, west);
        _assertKept(record);
    }

    function check_ASendingKeepsDecisionAndEnd(Record memory record, uint8 level, bool retries, bool sent) public {
        _start(record, level, sent, 0);
        router.put(coordinator, Execution.EXPIRED, 0);
        _send(retries);
        _assertKept(record);
    }

    function control_ASendingKeepsDecisionAndEnd(Record memory record, uint8 level, bool retries, bool sent) public {
        _start(record, level, sent, 0);
        router.put(coordinator, Execution.EXPIRED, 0);
        coordinator.decideUnchecked(Decision.ABORT);
        _send(retries);
        _assertKept(record);
    }

    function check_CommitAndAbortNeverBothLeave(Record memory record, uint8 level, bool west, uint8 left) public {
        _start(record, level, false, 0);
        _assumeLeft(record, left);
        coordinator.dispatch(coordinator.ID(), west ? 1 : 0);
        assert(router.left() & COMMIT_LEFT == 0 || router.left() & ABORT_LEFT == 0);
    }

    /// @dev From a coordinator whose decision changes.
    function control_CommitAndAbortNeverBothLeave(Record memory record, uint8 level, bool west, uint8 left) public {
        _start(record, level, false, 0);
        _assumeLeft(record, left);
        coordinator.decideUnchecked(Decision.ABORT);
        coordinator.dispatch(coordinator.ID(), west ? 1 : 0);
        assert(router.left() & COMMIT_LEFT == 0 || router.left() & ABORT_LEFT == 0);
    }
}
