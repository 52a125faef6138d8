// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev What an atomic action guarantees (docs/atomic-actions.md).
enum Level {
    /// @dev One message to each participant, without lock or confirmation. What has not been applied before it expires never is.
    BEST_EFFORT,
    /// @dev Decided when it begins, then pursued until every participant has applied it. Never aborted.
    GUARANTEED,
    /// @dev Two phases: every participant first locks and votes, and a single refusal aborts the action for all.
    ALL_OR_NOTHING
}

/// @dev The coordinator's decision. Once it is not NONE it never changes.
enum Decision {
    NONE,
    COMMIT,
    ABORT
}

/// @dev Why the coordinator decided as it did.
enum Cause {
    NONE,
    /// @dev The action's level, at the beginning.
    LEVEL,
    /// @dev Every participant voted yes in time.
    ALL_PREPARED,
    /// @dev A participant voted no.
    REFUSED,
    /// @dev A participant did not vote within its retries, or within the time to decide.
    TIMED_OUT,
    /// @dev The initiator or the owner aborted it.
    CANCELLED,
    /// @dev A participant reported an outcome before there was a decision.
    CONTRADICTED
}

/// @dev How far an action has come. COMMITTED, PARTIALLY_COMMITTED and ABORTED are final.
enum ActionState {
    NONE,
    /// @dev Waiting for votes; only for ALL_OR_NOTHING. There is no decision yet.
    PREPARING,
    /// @dev COMMIT is decided; not every participant has confirmed it.
    COMMITTING,
    /// @dev COMMIT was decided, and every participant applied it or was reconciled.
    COMMITTED,
    /// @dev The outcome of a BEST_EFFORT action that is not known to be applied everywhere.
    PARTIALLY_COMMITTED,
    /// @dev ABORT is decided; not every participant has confirmed it.
    ABORTING,
    /// @dev ABORT was decided, and no participant holds or has applied anything.
    ABORTED,
    /// @dev COMMIT was decided, and a participant did not confirm in time or can't apply it.
    DIVERGED,
    /// @dev ABORT was decided, and a participant did not confirm in time or reports that it applied the action.
    ROLLBACK_INCOMPLETE
}

/// @dev The state of one participant's part in an action, as known to the coordinator or to the participant itself.
enum BranchState {
    /// @dev Nothing is known.
    NONE,
    /// @dev It holds the lock and voted yes.
    PREPARED,
    /// @dev It voted no and holds no lock.
    REFUSED,
    APPLIED,
    /// @dev It released its lock after ABORT, or never took one.
    RELEASED,
    /// @dev The message of a BEST_EFFORT action ended without being executed.
    NOT_APPLIED,
    /// @dev It can't carry out the decision, or did something else.
    DIVERGED,
    /// @dev On the coordinator: the owner attests that it agrees with the decision.
    RECONCILED
}

/// @dev The phases, each of which is a message. PREPARE, COMMIT and ABORT go to participants; VOTE and FINALIZE come back.
enum Phase {
    PREPARE,
    COMMIT,
    ABORT,
    VOTE,
    FINALIZE
}

/// @dev The times of an action, in seconds.
struct Window {
    /// @dev How long a PREPARE is valid, counted from the beginning. For a BEST_EFFORT action: how long its message is valid; the
    ///      other values are then unused.
    uint32 prepareTtl;
    /// @dev How long after that votes are accepted. If one is missing, the decision is ABORT.
    uint32 decisionTtl;
    /// @dev How often a participant that does not answer is asked again before its phase counts as timed out.
    uint32 maxRetries;
    /// @dev How long one try may remain unanswered.
    uint32 maxBackoff;
    /// @dev How long the lock holds, counted from PREPARE's arrival. At least {Windows-leastLockTtl}, at most 30 days.
    uint32 lockTtl;
}

/// @dev One participant's part of a new action.
struct BranchRequest {
    /// @dev EIP-155 id of the participant's chain.
    uint64 chain;
    address participant;
    /// @dev The participant's instruction, in its own encoding.
    bytes change;
}

/// @dev A new action.
struct ActionRequest {
    Level level;
    /// @dev The subject of the action, such as an asset's id. Participants lock it; it has one unfinished action at a time.
    bytes32 subject;
    /// @dev All zero selects the coordinator's default.
    Window window;
    /// @dev Between 1 and 16 distinct participants.
    BranchRequest[] branches;
}

/// @dev The coordinator's record of an action: the primary record, which is never deleted.
struct Action {
    address initiator;
    Level level;
    ActionState state;
    Decision decision;
    Cause cause;
    /// @dev How many participants have not voted or, after the decision, not confirmed.
    uint8 pending;
    uint8 branches;
    /// @dev The coordinator's number of the action; 1 is the first.
    uint64 number;
    /// @dev Unix seconds.
    uint64 begunAt;
    /// @dev Unix seconds; 0 = not decided.
    uint64 decidedAt;
    bytes32 subject;
    Window window;
}

/// @dev The coordinator's record of a participant's part.
struct Branch {
    uint64 chain;
    address participant;
    BranchState state;
    /// @dev How often the current phase's message was retried.
    uint32 retries;
    /// @dev When it was last sent, Unix seconds; 0 = not yet.
    uint64 sentAt;
    /// @dev PREPARE's message; 0 = not sent, or there is none.
    bytes32 prepareId;
    /// @dev COMMIT's or ABORT's message; 0 = not sent.
    bytes32 decisionId;
    bytes change;
}

/// @dev The payload of PREPARE, COMMIT and ABORT, `abi.encode`d.
struct Instruction {
    Phase phase;
    Level level;
    uint64 number;
    /// @dev The participant's number in the action.
    uint8 branch;
    bytes32 subject;
    Window window;
    /// @dev Empty in COMMIT and ABORT of ALL_OR_NOTHING: the participant knows it from PREPARE.
    bytes change;
}

/// @dev The payload of VOTE and FINALIZE, `abi.encode`d.
struct Reply {
    Phase phase;
    bytes32 actionId;
    uint8 branch;
    /// @dev PREPARED or REFUSED in a VOTE; APPLIED, RELEASED or DIVERGED in FINALIZE.
    BranchState state;
    /// @dev The participant's own reason for refusing or diverging; else 0.
    bytes32 reason;
}

/// @dev A participant's record of an action.
struct Participation {
    BranchState state;
    Level level;
    uint8 branch;
    /// @dev The coordinator's chain and address.
    uint64 chain;
    address coordinator;
    /// @dev How long a vote is valid, in seconds.
    uint32 voteTtl;
    /// @dev How long the lock holds if it has to be retaken, in seconds.
    uint32 lockTtl;
    bytes32 subject;
    bytes32 reason;
    /// @dev The message with the last answer; 0 = not sent yet.
    bytes32 replyId;
    bytes change;
}

using Windows for Window global;

/// @notice Computes with the times of an action and checks that they are consistent.
library Windows {
    /// @notice The maximum duration of a lock, in seconds; {ExpiringLocks} has the same bound.
    uint64 internal constant MOST_LOCK_TTL = 30 days;

    /// @notice A time or the number of retries is 0, which leaves no time to prepare, decide or confirm.
    error EmptyWindow();

    /// @notice The lock could expire while COMMIT may still be retried; both times in seconds.
    error LockShorterThanWindow(uint64 lockTtl, uint64 least);

    /// @notice The lock would last longer than any lock may; both times in seconds.
    error LockLongerThanAllowed(uint64 lockTtl, uint64 most);

    /// @dev lockTtl ≥ prepareTtl + decisionTtl + maxRetries × maxBackoff.
    function leastLockTtl(Window memory window) internal pure returns (uint64) {
        return uint64(window.prepareTtl) + window.decisionTtl + retryTime(window);
    }

    /// @dev The maximum time that all retries of one phase take, in seconds.
    function retryTime(Window memory window) internal pure returns (uint64) {
        return uint64(window.maxRetries) * window.maxBackoff;
    }

    function isZero(Window memory window) internal pure returns (bool) {
        return window.prepareTtl == 0 && window.decisionTtl == 0 && window.maxRetries == 0 && window.maxBackoff == 0
            && window.lockTtl == 0;
    }

    /// @dev Reverts unless a lock outlives the whole window.
    function requireSound(Window memory window) internal pure {
        if (window.prepareTtl == 0 || window.decisionTtl == 0 || retryTime(window) == 0) revert EmptyWindow();
        uint64 least = leastLockTtl(window);
        if (window.lockTtl < least) revert LockShorterThanWindow(window.lockTtl, least);
        if (window.lockTtl > MOST_LOCK_TTL) revert LockLongerThanAllowed(window.lockTtl, MOST_LOCK_TTL);
    }
}
