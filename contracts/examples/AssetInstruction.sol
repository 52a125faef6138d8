// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Kind} from "../types/Message.sol";

/// @dev What one registry tells another about an asset.
enum Action {
    /// @dev The asset has a new owner or amount.
    SYNC,
    FREEZE,
    UNFREEZE,
    /// @dev The asset goes to another owner, frozen or locked as it may be.
    SEIZE,
    LOCK,
    UNLOCK,
    /// @dev A ledger that is not an EVM chain reports a new owner or amount.
    ATTEST,
    BEGIN_ROLLBACK,
    COMPLETE_ROLLBACK
}

/// @dev An instruction as it travels; what an action does not need is zero.
struct Instruction {
    Action action;
    bytes32 asset;
    /// @dev The state it was made for. All but locks, unlocks and the end of a rollback.
    bytes32 stateHash;
    /// @dev Place among the asset's locks and unlocks, from 1.
    uint64 sequence;
    /// @dev The foreign ledger and its transaction; for `ATTEST`.
    bytes32 ledger;
    bytes32 transactionId;
    /// @dev New owner, or holder of the lock.
    address account;
    uint128 units;
    /// @dev Seconds; for `LOCK`.
    uint64 lockTtl;
    /// @dev The lock under which the sender acts, 0 when it holds none; for `SYNC`.
    uint32 fence;
}

using {kindOf} for Action global;

/// @dev The kind of message that carries an action: it decides how long the bridge tries.
function kindOf(Action action) pure returns (Kind) {
    if (action == Action.FREEZE || action == Action.SEIZE) return Kind.REGULATORY_ACTION_CRITICAL;
    if (action == Action.UNFREEZE) return Kind.REGULATORY_ACTION;
    if (action == Action.LOCK || action == Action.UNLOCK) return Kind.LOCK_MANAGEMENT;
    return Kind.STATE_SYNC;
}
