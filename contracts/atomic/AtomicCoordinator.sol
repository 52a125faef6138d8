// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Lane, Lanes} from "../client/Lanes.sol";
import {RouterClient} from "../client/RouterClient.sol";
import {IAtomicCoordinator} from "../interfaces/IAtomicCoordinator.sol";
import {IMessageSender} from "../interfaces/IMessageSender.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {
    Action,
    ActionRequest,
    ActionState,
    Branch,
    BranchState,
    Cause,
    Decision,
    Instruction,
    Level,
    Phase,
    Reply,
    Window
} from "../types/Atomic.sol";
import {Kind, MIN_TTL, Retry, Route} from "../types/Message.sol";
import {Execution} from "../types/MessageRecords.sol";
import {AtomicActions} from "./AtomicActions.sol";

/// @title AtomicCoordinator
/// @notice The coordinator of atomic actions: {AtomicActions} with its messages.
/// @dev PREPARE expires with its phase. COMMIT and ABORT never expire, because a decision must be carried out.
contract AtomicCoordinator is AtomicActions, RouterClient {
    struct Place {
        bytes32 actionId;
        uint8 branch;
    }

    Window private _defaultWindow;
    mapping(uint64 chain => mapping(address participant => Lane)) private _lanes;
    mapping(bytes32 messageId => Place) internal _places;

    /// @inheritdoc IAtomicCoordinator
    mapping(address account => bool) public isInitiator;

    constructor(IRouter router_, address owner_, Window memory window) RouterClient(router_, owner_) {
        _setDefaultWindow(window);
    }

    // ---- configuration

    /// @inheritdoc IAtomicCoordinator
    function setInitiator(address account, bool allowed) external onlyOwner {
        isInitiator[account] = allowed;
        emit InitiatorSet(account, allowed);
    }

    /// @inheritdoc IAtomicCoordinator
    function setParticipant(Lane calldata lane) external onlyOwner {
        _lanes[lane.chain][lane.recipient] = lane;
        emit ParticipantSet(lane.chain, lane.recipient);
    }

    /// @inheritdoc IAtomicCoordinator
    function setDefaultWindow(Window calldata window) external onlyOwner {
        _setDefaultWindow(window);
    }

    // ---- actions

    /// @inheritdoc IAtomicCoordinator
    function begin(ActionRequest calldata request) external returns (bytes32 actionId) {
        if (!isInitiator[msg.sender]) revert NotInitiator(msg.sender);
        Window memory window = request.window;
        if (window.isZero()) window = _defaultWindow;
        else _requireUsable(window);
        _requireParticipants(request);
        return _begin(request, window);
    }

    /// @inheritdoc IAtomicCoordinator
    function dispatch(bytes32 actionId, uint256 branch) external payable returns (bytes32 messageId) {
        (Route memory made, Phase phase) = _messageFor(actionId, branch);
        Branch storage part = _branches[actionId][branch];
        // Written before the call: an account that gets a refund during it may end the action.
        part.sentAt = uint64(block.timestamp);
        uint256 rest;
        (messageId, rest) = Lanes.sendWithin(router, made, msg.value);
        if (phase == Phase.PREPARE) part.prepareId = messageId;
        else part.decisionId = messageId;
        _places[messageId] = Place(actionId, uint8(branch));
        emit PhaseDispatched(actionId, uint8(branch), messageId, phase, part.chain);
        Lanes.refund(made, rest);
    }

    /// @inheritdoc IAtomicCoordinator
    function abort(bytes32 actionId) external {
        Action storage action = _action(actionId);
        if (msg.sender != action.initiator && msg.sender != owner()) revert NotInitiatorOrOwner(actionId, msg.sender);
        _decide(actionId, Decision.ABORT, Cause.CANCELLED);
    }

    /// @inheritdoc IAtomicCoordinator
    function timeOut(bytes32 actionId) external {
        _action(actionId);
        _timeOut(actionId);
    }

    /// @inheritdoc IAtomicCoordinator
    function settle(bytes32 actionId, uint256 branch) external {
        Action storage action = _action(actionId);
        Branch storage part = _branch(actionId, branch);
        bool open = action.state == ActionState.COMMITTING || action.state == ActionState.PARTIALLY_COMMITTED;
        if (action.level != Level.BEST_EFFORT || !open || _isSettled(part.state)) {
            revert WrongState(actionId, action.state);
        }
        Execution outcome = router.outcomeOf(part.decisionId);
        if (outcome == Execution.NONE) revert NotReported(part.decisionId);
        _settle(actionId, branch, outcome == Execution.EXECUTED ? BranchState.APPLIED : BranchState.NOT_APPLIED);
    }

    /// @inheritdoc IAtomicCoordinator
    function reconcile(bytes32 actionId, uint256 branch, bytes32 evidence) external onlyOwner {
        Action storage action = _action(actionId);
        if (!_isStalled(action.state) || _isSettled(_branch(actionId, branch).state)) {
            revert WrongState(actionId, action.state);
        }
        emit BranchReconciled(actionId, uint8(branch), evidence);
        _settle(actionId, branch, BranchState.RECONCILED);
    }

    // ---- views

    /// @inheritdoc IAtomicCoordinator
    function actionOfMessage(bytes32 messageId) external view returns (bytes32 actionId, uint8 branch) {
        Place memory place = _places[messageId];
        return (place.actionId, place.branch);
    }

    /// @inheritdoc IAtomicCoordinator
    function quoteDispatch(bytes32 actionId, uint256 branch) external view returns (uint256 fees) {
        (Route memory made,) = _messageFor(actionId, branch);
        fees = Lanes.price(router, made);
    }

    /// @inheritdoc IAtomicCoordinator
    function defaultWindow() external view returns (Window memory) {
        return _defaultWindow;
    }

    /// @inheritdoc IAtomicCoordinator
    function laneOf(uint64 chain, address participant) external view returns (Lane memory) {
        return _lanes[chain][participant];
    }

    // ---- messages

    /// @dev Handles a vote or a confirmation. The message is executed whatever it says, because it can't be sent again.
    function _handle(bytes32 messageId, uint64 chain, address sender, bytes calldata payload) internal override {
        Reply memory reply = abi.decode(payload, (Reply));
        _action(reply.actionId);
        Branch storage part = _branch(reply.actionId, reply.branch);
        if (part.chain != chain || part.participant != sender) revert NotParticipant(reply.actionId, chain, sender);
        bool counted = reply.phase == Phase.VOTE
            ? _countVote(reply.actionId, reply.branch, reply.state == BranchState.PREPARED, reply.reason)
            : _finalize(reply.actionId, reply.branch, reply.state, reply.reason);
        if (!counted) emit ReplyIgnored(reply.actionId, reply.branch, messageId, reply.state);
    }

    /// @dev Before the decision retries are limited (OIP-144), after it they are not.
    function _beforeRetry(Retry calldata request) internal override {
        Place memory place = _places[request.messageId];
        if (place.actionId == 0) return;
        Action storage action = _actions[place.actionId];
        Branch storage part = _branches[place.actionId][place.branch];
        bytes32 present = action.decision == Decision.NONE ? part.prepareId : part.decisionId;
        if (_isOver(action.state) || request.messageId != present || !_owesAnswer(action, part)) {
            revert NothingToDispatch(place.actionId, place.branch);
        }
        if (action.decision == Decision.NONE && part.retries >= action.window.maxRetries) {
            revert RetriesExhausted(place.actionId, place.branch, part.retries);
        }
        part.sentAt = uint64(block.timestamp);
        emit PhaseRetried(place.actionId, place.branch, request.messageId, ++part.retries);
    }

    /// @dev The current phase's message to a participant. Without a recorded decision there is neither COMMIT nor ABORT.
    function _messageFor(bytes32 actionId, uint256 branch) private view returns (Route memory made, Phase phase) {
        Action storage action = _action(actionId);
        Branch storage part = _branch(actionId, branch);
        if (_isOver(action.state)) revert WrongState(actionId, action.state);
        if (!_owesAnswer(action, part)) revert NothingToDispatch(actionId, branch);
        phase = _phaseOf(action.decision);
        bytes32 sent = phase == Phase.PREPARE ? part.prepareId : part.decisionId;
        if (sent != 0 && !_endedInVain(sent)) revert AlreadyDispatched(actionId, branch, sent);

        bool hasChange = phase == Phase.PREPARE || (phase == Phase.COMMIT && action.level != Level.ALL_OR_NOTHING);
        Instruction memory instruction = Instruction({
            phase: phase,
            level: action.level,
            number: action.number,
            branch: uint8(branch),
            subject: action.subject,
            window: action.window,
            change: hasChange ? part.change : bytes("")
        });
        Lane memory lane = _lanes[part.chain][part.participant];
        Kind kind = phase == Phase.PREPARE ? Kind.LOCK_MANAGEMENT : Kind.PLAIN;
        lane.ttl = phase == Phase.PREPARE || action.level == Level.BEST_EFFORT ? _timeLeft(actionId, action) : 0;
        made = lane.request(kind, abi.encode(instruction), msg.sender);
        made.replaces = sent;
    }

    function _phaseOf(Decision decision) private pure returns (Phase) {
        if (decision == Decision.NONE) return Phase.PREPARE;
        return decision == Decision.COMMIT ? Phase.COMMIT : Phase.ABORT;
    }

    /// @dev The remaining TTL of PREPARE, or of a BEST_EFFORT action's message; in seconds, never 0.
    function _timeLeft(bytes32 actionId, Action storage action) private view returns (uint32) {
        uint64 end = action.begunAt + action.window.prepareTtl;
        if (block.timestamp >= end) revert PhaseOver(actionId, end);
        return uint32(end - block.timestamp);
    }

    function _endedInVain(bytes32 messageId) private view returns (bool) {
        Execution outcome = router.outcomeOf(messageId);
        return outcome == Execution.EXPIRED || outcome == Execution.CANCELLED;
    }

    function _requireParticipants(ActionRequest calldata request) private view {
        for (uint256 index; index < request.branches.length; ++index) {
            (uint64 chain, address participant) = (request.branches[index].chain, request.branches[index].participant);
            if (_lanes[chain][participant].recipient == address(0)) revert UnknownParticipant(chain, participant);
            for (uint256 other; other < index; ++other) {
                if (request.branches[other].chain == chain && request.branches[other].participant == participant) {
                    revert DuplicateParticipant(chain, participant);
                }
            }
        }
    }

    function _setDefaultWindow(Window memory window) private {
        _requireUsable(window);
        _defaultWindow = window;
        emit DefaultWindowSet(window);
    }

    /// @dev The router's minimum TTL: with less, no PREPARE could be sent.
    function _requireUsable(Window memory window) private pure {
        window.requireSound();
        if (window.prepareTtl < MIN_TTL) revert IMessageSender.TtlTooShort(window.prepareTtl, MIN_TTL);
    }
}
