// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AttestationGuard} from "../client/AttestationGuard.sol";
import {ExpiringLocks} from "../client/ExpiringLocks.sol";
import {Lane, Lanes} from "../client/Lanes.sol";
import {OrderedGuard} from "../client/OrderedGuard.sol";
import {RouterClient} from "../client/RouterClient.sol";
import {StateHashGuard} from "../client/StateHashGuard.sol";
import {ILockedRecipient, MessageLock} from "../interfaces/ILockedRecipient.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Route} from "../types/Message.sol";
import {Action, Instruction} from "./AssetInstruction.sol";

/// @title AssetRegistry
/// @notice Keeps the ownership of assets synchronised on several chains. Regulators can freeze and seize assets. Locks keep an
///         asset unchanged while another chain works on it. A ledger that is not an EVM chain may report by attestation.
/// @dev Five checks in this order: the router's dedup by id, the allowed route, the sender's permission, the rollback
///      check, and the guard of the action. A message that fails changes nothing and can be executed again.
contract AssetRegistry is
    RouterClient,
    StateHashGuard,
    OrderedGuard,
    AttestationGuard,
    ExpiringLocks,
    ILockedRecipient
{
    struct Asset {
        address owner;
        uint64 version;
        bool frozen;
        bool rollingBack;
        uint128 units;
    }

    mapping(bytes32 asset => Asset) private _assets;
    mapping(bytes32 asset => uint32 ttl) private _leastTtl;
    mapping(uint64 chain => Lane) private _lanes;
    mapping(uint64 chain => mapping(address sender => mapping(Action => bool))) private _permitted;
    mapping(address account => bool) public isOperator;

    event AssetCreated(bytes32 indexed asset, address indexed owner, uint128 units);
    event AssetChanged(bytes32 indexed asset, Action indexed action, bytes32 stateHash, bytes32 messageId);
    event Instructed(bytes32 indexed asset, Action indexed action, uint64 indexed chain, bytes32 messageId);
    event PermissionSet(uint64 indexed chain, address indexed sender, Action indexed action, bool permitted);
    event OperatorSet(address indexed account, bool allowed);
    event LaneSet(uint64 indexed chain, address recipient);
    event LeastTtlSet(bytes32 indexed asset, uint32 ttl);

    /// @notice Only an operator may call this.
    error NotOperator(address account);
    /// @notice The sender may not take this action here.
    error NotPermitted(uint64 chain, address sender, Action action);
    /// @notice The asset does not exist here.
    error UnknownAsset(bytes32 asset);
    /// @notice The asset already exists here.
    error AssetExists(bytes32 asset);
    /// @notice The asset is frozen.
    error AssetFrozen(bytes32 asset);
    /// @notice The owner is the zero address.
    error ZeroOwner();

    /// @notice `ROLLBACK_INCOMPLETE_REJECT`: the asset is being rolled back; it cannot be changed otherwise until that is done.
    error RollbackIncomplete(bytes32 asset);

    /// @notice The asset is not being rolled back.
    error NoRollback(bytes32 asset);

    /// @notice The sender acts under a lock that is not the current one.
    error StaleFence(bytes32 asset, uint32 fence, uint32 present);

    constructor(IRouter router_, address owner_, RetryWindow memory window) RouterClient(router_, owner_) {
        _setRetryWindow(window);
    }

    /// @notice Creates an asset here. Each registry must create it identically before the first message about it.
    function create(bytes32 asset, address assetOwner, uint128 units) external onlyOwner {
        if (assetOwner == address(0)) revert ZeroOwner();
        if (_assets[asset].owner != address(0)) revert AssetExists(asset);
        _assets[asset] = Asset({owner: assetOwner, version: 1, frozen: false, rollingBack: false, units: units});
        emit AssetCreated(asset, assetOwner, units);
    }

    /// @notice Permits `sender` on `chain` to take an action here. Its route must be allowed as well.
    function setPermission(uint64 chain, address sender, Action action, bool permitted) external onlyOwner {
        _permitted[chain][sender][action] = permitted;
        emit PermissionSet(chain, sender, action, permitted);
    }

    function setOperator(address account, bool allowed) external onlyOwner {
        isOperator[account] = allowed;
        emit OperatorSet(account, allowed);
    }

    function setLane(Lane calldata lane) external onlyOwner {
        _lanes[lane.chain] = lane;
        emit LaneSet(lane.chain, lane.recipient);
    }

    /// @notice Sets the minimum TTL of messages about the asset, in seconds.
    function setLeastTtl(bytes32 asset, uint32 ttl) external onlyOwner {
        _leastTtl[asset] = ttl;
        emit LeastTtlSet(asset, ttl);
    }

    function setRetryWindow(RetryWindow calldata window) external onlyOwner {
        _setRetryWindow(window);
    }

    /// @notice Skips a lock or unlock that will never arrive, so that later ones can be applied.
    function skip(bytes32 asset, uint64 sequence) external onlyOwner {
        _skip(asset, sequence);
    }

    /// @inheritdoc ILockedRecipient
    /// @dev For as long as the retry window asks for.
    function retakeLock(bytes calldata payload) external {
        if (!isRetrier(msg.sender)) revert NotLockRetaker(msg.sender);
        Instruction memory instruction = abi.decode(payload, (Instruction));
        _retakeLock(instruction.asset, instruction.fence, leastLockTtl());
    }

    /// @notice Sends an instruction to the registry on `chain`. `msg.value` pays; the rest is returned to the caller.
    function instruct(uint64 chain, Instruction calldata instruction) external payable returns (bytes32 messageId) {
        if (!isOperator[msg.sender]) revert NotOperator(msg.sender);
        Lane memory lane = _lanes[chain];
        lane.ttl = resolveTtl(instruction.asset, lane.ttl);
        Route memory made = lane.request(instruction.action.kindOf(), abi.encode(instruction), msg.sender);
        messageId = Lanes.send(router, made, msg.value);
        emit Instructed(instruction.asset, instruction.action, chain, messageId);
    }

    /// @notice The TTL of a message about an asset, in seconds: the sender's choice, but at least the asset's minimum. 0 means
    ///         that it never expires, and is kept.
    function resolveTtl(bytes32 asset, uint32 senderTtl) public view returns (uint32) {
        if (senderTtl == 0) return 0;
        return senderTtl < _leastTtl[asset] ? _leastTtl[asset] : senderTtl;
    }

    /// @inheritdoc ILockedRecipient
    function lockFor(bytes calldata payload) external view returns (MessageLock lock, uint64 until) {
        Instruction memory instruction = abi.decode(payload, (Instruction));
        if (instruction.fence == 0) return (MessageLock.NONE, 0);
        uint32 fence;
        (, until, fence) = lockOf(instruction.asset);
        if (fence == instruction.fence && until != 0) return (MessageLock.HELD, until);
        return (_isExpired(instruction.asset, instruction.fence) ? MessageLock.EXPIRED : MessageLock.LOST, 0);
    }

    function assetOf(bytes32 asset) external view returns (Asset memory) {
        return _assets[asset];
    }

    /// @inheritdoc StateHashGuard
    function currentStateHash(bytes32 asset) public view override returns (bytes32) {
        Asset memory present = _assets[asset];
        return keccak256(abi.encode(asset, present.owner, present.version, present.frozen, present.units));
    }

    function _handle(bytes32 messageId, uint64 chain, address sender, bytes calldata payload) internal override {
        Instruction memory instruction = abi.decode(payload, (Instruction));
        Action action = instruction.action;
        if (!_permitted[chain][sender][action]) revert NotPermitted(chain, sender, action);
        Asset storage asset = _assets[instruction.asset];
        if (asset.owner == address(0)) revert UnknownAsset(instruction.asset);
        if (asset.rollingBack && action != Action.COMPLETE_ROLLBACK) revert RollbackIncomplete(instruction.asset);

        if (action == Action.LOCK || action == Action.UNLOCK) _applyLock(instruction);
        else if (action == Action.COMPLETE_ROLLBACK) _completeRollback(asset, instruction);
        else _applyToState(asset, instruction, messageId);
        emit AssetChanged(instruction.asset, action, currentStateHash(instruction.asset), messageId);
    }

    /// @dev Locks don't touch the state; their order is what counts.
    function _applyLock(Instruction memory instruction) private {
        _takeInOrder(instruction.asset, instruction.sequence);
        if (instruction.action == Action.LOCK) {
            _takeLock(instruction.asset, instruction.account, instruction.lockTtl);
        } else {
            _releaseLock(instruction.asset, instruction.account);
        }
    }

    /// @dev Everything else is made for one state and changes it, so that the same change can't be made twice.
    function _applyToState(Asset storage asset, Instruction memory instruction, bytes32 messageId) private {
        _requireState(instruction.asset, instruction.stateHash);
        Action action = instruction.action;
        if (action == Action.ATTEST) _useAttestation(instruction.ledger, instruction.transactionId, messageId);

        if (action == Action.FREEZE) {
            asset.frozen = true;
        } else if (action == Action.UNFREEZE) {
            asset.frozen = false;
        } else if (action == Action.BEGIN_ROLLBACK) {
            asset.rollingBack = true;
        } else {
            // A regulator's seizure stops at neither a freeze nor a lock.
            if (action != Action.SEIZE) _requireMovable(asset, instruction);
            _set(asset, instruction);
        }
        ++asset.version;
    }

    function _completeRollback(Asset storage asset, Instruction memory instruction) private {
        if (!asset.rollingBack) revert NoRollback(instruction.asset);
        asset.rollingBack = false;
        _set(asset, instruction);
        ++asset.version;
    }

    function _requireMovable(Asset storage asset, Instruction memory instruction) private view {
        if (asset.frozen) revert AssetFrozen(instruction.asset);
        (address holder,, uint32 fence) = lockOf(instruction.asset);
        uint32 present = holder == address(0) ? 0 : fence;
        if (instruction.fence != present) revert StaleFence(instruction.asset, instruction.fence, present);
    }

    function _set(Asset storage asset, Instruction memory instruction) private {
        if (instruction.account == address(0)) revert ZeroOwner();
        asset.owner = instruction.account;
        asset.units = instruction.units;
    }
}
