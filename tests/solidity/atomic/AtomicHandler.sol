// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AtomicAssets} from "../../../contracts/examples/AtomicAssets.sol";
import {Lanes} from "../../../contracts/client/Lanes.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {InMemoryGmp} from "../../../contracts/testing/InMemoryGmp.sol";
import {
    Action,
    ActionRequest,
    ActionState,
    Branch,
    BranchState,
    Decision,
    Instruction,
    Level,
    Participation,
    Phase,
    Reply
} from "../../../contracts/types/Atomic.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {Kind, Message} from "../../../contracts/types/Message.sol";
import {AtomicChains} from "./AtomicChains.sol";

/// @dev What may happen to atomic actions. None of it may revert: what is refused is refused inside. GMP 3 lies; two receipts
///      are needed for everything.
contract AtomicHandler is AtomicChains {
    uint256 private constant MOST_ACTIONS = 8;
    uint8 private constant LIAR = 3;

    bytes32[] public actions;
    bytes32[] public messages;

    /// @dev What was true when it was first seen.
    mapping(bytes32 actionId => Decision) public firstDecision;
    mapping(bytes32 actionId => ActionState) public firstEnd;
    mapping(bytes32 actionId => mapping(uint64 chain => uint256 time)) public preparedAt;
    mapping(bytes32 actionId => mapping(uint64 chain => BranchState)) public firstEndOfBranch;

    /// @dev By chain, units that actions were seen to take and to give.
    mapping(uint64 chain => uint256) public debited;
    mapping(uint64 chain => uint256) public credited;

    /// @dev No delivery reaches or leaves a chain that is cut off.
    mapping(uint64 chain => bool) public isCutOff;

    /// @dev How often each state of an action was seen, so that the campaign shows what it reaches.
    mapping(ActionState => uint256) public seen;
    mapping(BranchState => uint256) public seenAtParticipants;
    uint256 public decisionsChanged;
    uint256 public endsChanged;
    uint256 public decidedAfterItLeft;

    constructor() {
        setUpChains();
        vm.prank(owner);
        coordinator.setInitiator(address(this), true);
    }

    /// @dev Keeps the books after every action.
    modifier watched() {
        vm.chainId(HOME);
        _;
        vm.chainId(HOME);
        for (uint256 index; index < actions.length; ++index) {
            _watch(actions[index]);
        }
    }

    // ---- what the initiator, anybody and the owner do

    function begin(uint256 levelSeed, uint256 kind, uint256 units) external watched {
        if (actions.length == MOST_ACTIONS) return;
        // Mostly both phases: the other levels have no votes to go wrong.
        Level level =
            levelSeed % 5 == 0 ? Level.BEST_EFFORT : levelSeed % 5 == 1 ? Level.GUARANTEED : Level.ALL_OR_NOTHING;
        ActionRequest memory made = move(uint128(bound(units, 1, UNITS + UNITS / 4)));
        if (kind % 4 == 0) made = freeze(level);
        if (kind % 4 == 1) {
            bytes memory change = _change(AtomicAssets.Act.UNFREEZE, address(0), 0);
            made = request(level, change, change);
        }
        made.level = level;
        try coordinator.begin(made) returns (bytes32 actionId) {
            actions.push(actionId);
        } catch {}
    }

    function dispatch(uint256 seed, uint256 branch) external watched {
        if (actions.length == 0) return;
        try coordinator.dispatch(_latest(seed), branch % 2) returns (bytes32 messageId) {
            messages.push(messageId);
        } catch {}
    }

    function reply(uint256 seed, uint256 where) external watched {
        if (actions.length == 0) return;
        bytes32 actionId = _latest(seed);
        uint64 chain = _away(where);
        vm.chainId(chain);
        try assets[chain].reply(actionId) returns (bytes32 messageId) {
            messages.push(messageId);
        } catch {}
    }

    function retry(uint256 seed) external watched {
        if (messages.length == 0) return;
        bytes32 messageId = _message(seed);
        Message memory message = messageOf(messageId);
        if (message.sourceChain == HOME) {
            try coordinator.retry(retryOf(messageId)) {} catch {}
        }
    }

    function timeOut(uint256 seed) external watched {
        if (actions.length == 0) return;
        try coordinator.timeOut(_latest(seed)) {} catch {}
    }

    function abort(uint256 seed) external watched {
        if (actions.length == 0 || seed % 3 != 0) return;
        try coordinator.abort(_latest(seed)) {} catch {}
    }

    function settle(uint256 seed, uint256 branch) external watched {
        if (actions.length == 0) return;
        try coordinator.settle(_latest(seed), branch % 2) {} catch {}
    }

    function cancelMessage(uint256 seed) external watched {
        if (messages.length == 0 || seed % 2 == 0) return;
        Message memory message = messageOf(_message(seed));
        vm.chainId(message.sourceChain);
        vm.prank(owner);
        if (message.sourceChain == HOME) {
            try coordinator.cancel(message, Lanes.unpriced(ALL)) returns (bytes32 id) {
                messages.push(id);
            } catch {}
        } else {
            try assets[message.sourceChain].cancel(message, Lanes.unpriced(ALL)) returns (bytes32 id) {
                messages.push(id);
            } catch {}
        }
    }

    function report(uint256 seed) external watched {
        if (messages.length == 0) return;
        Message memory message = messageOf(_message(seed));
        vm.chainId(message.destinationChain);
        IRouter router = routers[message.destinationChain];
        try router.expire(message) {} catch {}
        try router.report(message, 2, Lanes.unpriced(ALL), address(this)) returns (bytes32 id) {
            messages.push(id);
        } catch {}
    }

    /// @dev The owner only vouches for a branch whose participant has in truth done what was decided.
    function reconcileAtHome(uint256 seed, uint256 branch) external watched {
        if (actions.length == 0) return;
        bytes32 actionId = _latest(seed);
        uint64 chain = branch % 2 == 0 ? EAST : WEST;
        BranchState wanted =
            coordinator.actionOf(actionId).decision == Decision.COMMIT ? BranchState.APPLIED : BranchState.RELEASED;
        if (assets[chain].participationOf(actionId).state != wanted) return;
        vm.prank(owner);
        try coordinator.reconcile(actionId, branch % 2, "seen") {} catch {}
    }

    function reconcileAway(uint256 seed, uint256 where) external watched {
        if (actions.length == 0) return;
        bytes32 actionId = _latest(seed);
        uint64 chain = _away(where);
        vm.chainId(chain);
        vm.prank(owner);
        try assets[chain].reconcile(actionId) {} catch {}
    }

    function transfer(uint256 where, uint256 units, uint256 seed) external watched {
        bool back = seed % 2 == 0;
        uint64 chain = _away(where);
        vm.chainId(chain);
        vm.prank(back ? initiator : ann);
        try assets[chain].transfer(ASSET, back ? ann : initiator, uint128(bound(units, 1, UNITS / 2))) {} catch {}
    }

    // ---- what GMPs and chains do

    function deliverNext(uint256 seed) public watched {
        if (messages.length == 0) return;
        bytes32 messageId = _message(seed);
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            _carry(messageId, gmp);
        }
    }

    function deliverOnce(uint256 seed, uint256 gmp) external watched {
        if (messages.length != 0) _carry(_message(seed), uint8(1 + gmp % GMPS));
    }

    function breakGmp(uint256 gmp, uint256 seed) external watched {
        networks[uint8(1 + gmp % GMPS)].setBroken(seed % 3 == 0);
    }

    function cutOff(uint256 where, uint256 seed) external watched {
        isCutOff[_away(where)] = seed % 3 == 0;
    }

    /// @dev One GMP delivers what no one sent: another phase, another vote, another outcome.
    function lie(uint256 seed, uint256 phase, uint256 state) external watched {
        if (messages.length == 0) return;
        (bool found, InMemoryGmp.Parcel memory parcel) = parcelOf(_message(seed), LIAR);
        if (!found) return;
        Message memory message = this.decodeEnvelope(parcel.body);
        // Cancellations and reports are the routers' own, and their campaign lies about those.
        if (message.kind != Kind.PLAIN && message.kind != Kind.LOCK_MANAGEMENT) return;
        if (message.sender == bytes32(uint256(uint160(address(coordinator))))) {
            Instruction memory instruction = abi.decode(message.payload, (Instruction));
            instruction.phase = Phase(phase % 3);
            message.payload = abi.encode(instruction);
        } else if (message.recipient == bytes32(uint256(uint160(address(coordinator))))) {
            Reply memory answered = abi.decode(message.payload, (Reply));
            answered.phase = phase % 2 == 0 ? Phase.VOTE : Phase.FINALIZE;
            answered.state = BranchState(1 + state % 4);
            message.payload = abi.encode(answered);
        } else {
            return;
        }
        message.nonce += 1000;
        bytes memory body = message.encode(message.id());
        vm.chainId(parcel.destinationChain);
        try networks[LIAR].deliver(parcel.sourceChain, parcel.sender, parcel.recipient, body) {} catch {}
    }

    function executeWaiting(uint256 seed) external watched {
        if (messages.length == 0) return;
        Message memory message = messageOf(_message(seed));
        vm.chainId(message.destinationChain);
        try routers[message.destinationChain].execute(message) {} catch {}
    }

    function pause(uint256 where, uint256 gmp, uint256 length) external watched {
        uint48 until = uint48(block.timestamp + bound(length, 1, 400));
        uint64 chain = HOME + uint64(where % CHAINS);
        vm.chainId(chain);
        vm.prank(owner);
        if (gmp % 2 == 0) {
            try routers[chain].pauseGmp(Gmp.wrap(uint8(1 + gmp % GMPS)), until) {} catch {}
        } else {
            try routers[chain].pauseLane(chain == HOME ? EAST : HOME, until) {} catch {}
        }
    }

    function warp(uint256 length) external watched {
        vm.warp(block.timestamp + bound(length, 1, 250));
    }

    /// @dev Without long waits no lock would ever end.
    function warpFar(uint256 length) external watched {
        if (length % 3 == 0) vm.warp(block.timestamp + bound(length, 250, 2500));
    }

    /// @dev The COMMIT stays away for longer than the lock holds, and the units go elsewhere meanwhile.
    function strand(uint256 seed) external watched {
        if (actions.length == 0) return;
        Action memory action = coordinator.actionOf(_latest(seed));
        if (action.state != ActionState.COMMITTING && action.state != ActionState.DIVERGED) return;
        vm.warp(block.timestamp + action.window.lockTtl);
        uint256 units = assets[EAST].unitsOf(ASSET, ann);
        vm.chainId(EAST);
        vm.prank(ann);
        try assets[EAST].transfer(ASSET, initiator, uint128(units)) {} catch {}
    }

    /// @dev The whole next step of an action at once, so that short campaigns come to an end, too.
    function advance(uint256 seed) external watched {
        if (actions.length == 0) return;
        bytes32 actionId = _latest(seed);
        for (uint256 branch; branch < 2; ++branch) {
            vm.chainId(HOME);
            try coordinator.dispatch(actionId, branch) returns (bytes32 messageId) {
                messages.push(messageId);
                _carryAll(messageId);
            } catch {}
            uint64 chain = branch == 0 ? EAST : WEST;
            vm.chainId(chain);
            try assets[chain].reply(actionId) returns (bytes32 messageId) {
                messages.push(messageId);
                _carryAll(messageId);
            } catch {}
        }
    }

    function actionsCount() external view returns (uint256) {
        return actions.length;
    }

    function assetsOn(uint64 chain) external view returns (AtomicAssets) {
        return assets[chain];
    }

    function theCoordinator() external view returns (address) {
        return address(coordinator);
    }

    function sentMessageOf(bytes32 messageId) external returns (Message memory) {
        return messageOf(messageId);
    }

    // ---- the books

    function _watch(bytes32 actionId) private {
        Action memory action = coordinator.actionOf(actionId);
        if (firstDecision[actionId] == Decision.NONE) firstDecision[actionId] = action.decision;
        else if (firstDecision[actionId] != action.decision) ++decisionsChanged;
        if (firstEnd[actionId] != ActionState.NONE && firstEnd[actionId] != action.state) ++endsChanged;
        bool over = action.state == ActionState.COMMITTED || action.state == ActionState.ABORTED
            || action.state == ActionState.PARTIALLY_COMMITTED;
        if (over) firstEnd[actionId] = action.state;
        ++seen[action.state];
        for (uint256 branch; branch < 2; ++branch) {
            _watchBranch(actionId, branch, action.decision);
        }
    }

    function _watchBranch(bytes32 actionId, uint256 index, Decision decision) private {
        uint64 chain = index == 0 ? EAST : WEST;
        Branch memory branch = coordinator.branchOf(actionId, index);
        if (branch.decisionId != 0 && decision == Decision.NONE) ++decidedAfterItLeft;
        Participation memory part = assets[chain].participationOf(actionId);
        ++seenAtParticipants[part.state];
        if (part.state == BranchState.PREPARED && preparedAt[actionId][chain] == 0) {
            preparedAt[actionId][chain] = block.timestamp;
        }
        BranchState before = firstEndOfBranch[actionId][chain];
        if (before == BranchState.NONE && (part.state == BranchState.APPLIED || part.state == BranchState.RELEASED)) {
            firstEndOfBranch[actionId][chain] = part.state;
            if (part.state == BranchState.APPLIED) _book(chain, branch.change);
        } else if (before != BranchState.NONE && before != part.state) {
            ++endsChanged;
        }
    }

    function _book(uint64 chain, bytes memory encoded) private {
        AtomicAssets.Change memory change = abi.decode(encoded, (AtomicAssets.Change));
        if (change.act == AtomicAssets.Act.DEBIT) debited[chain] += change.units;
        if (change.act == AtomicAssets.Act.CREDIT) credited[chain] += change.units;
    }

    // ---- inner workings

    function _carryAll(bytes32 messageId) private {
        _carry(messageId, 1);
        _carry(messageId, 2);
        _carry(messageId, 3);
    }

    function _carry(bytes32 messageId, uint8 gmp) private {
        (bool found, InMemoryGmp.Parcel memory parcel) = parcelOf(messageId, gmp);
        if (!found || isCutOff[parcel.sourceChain] || isCutOff[parcel.destinationChain]) return;
        vm.chainId(parcel.destinationChain);
        try networks[gmp].deliver(parcel.sourceChain, parcel.sender, parcel.recipient, parcel.body) {} catch {}
    }

    /// @dev One of the last three actions.
    function _latest(uint256 seed) private view returns (bytes32) {
        uint256 reach = actions.length < 3 ? actions.length : 3;
        return actions[actions.length - 1 - seed % reach];
    }

    /// @dev Mostly one of the last messages: old ones are over.
    function _message(uint256 seed) private view returns (bytes32) {
        uint256 reach = seed % 4 == 0 || messages.length < 6 ? messages.length : 6;
        return messages[messages.length - 1 - (seed >> 2) % reach];
    }

    function _away(uint256 seed) private pure returns (uint64) {
        return seed % 2 == 0 ? EAST : WEST;
    }
}
