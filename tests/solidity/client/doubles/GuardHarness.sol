// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AttestationGuard} from "../../../../contracts/client/AttestationGuard.sol";
import {ExpiringLocks} from "../../../../contracts/client/ExpiringLocks.sol";
import {OrderedGuard} from "../../../../contracts/client/OrderedGuard.sol";
import {ReissueGuard} from "../../../../contracts/client/ReissueGuard.sol";
import {StateHashGuard} from "../../../../contracts/client/StateHashGuard.sol";

/// @notice Opens what the guards keep internal.
contract GuardHarness is StateHashGuard, OrderedGuard, AttestationGuard, ReissueGuard, ExpiringLocks {
    mapping(bytes32 subject => bytes32) public state;

    function setState(bytes32 subject, bytes32 value) external {
        state[subject] = value;
    }

    function currentStateHash(bytes32 subject) public view override returns (bytes32) {
        return keccak256(abi.encode(subject, state[subject]));
    }

    function requireState(bytes32 subject, bytes32 declared) external view {
        _requireState(subject, declared);
    }

    function takeInOrder(bytes32 subject, uint64 sequence) external {
        _takeInOrder(subject, sequence);
    }

    function skip(bytes32 subject, uint64 sequence) external {
        _skip(subject, sequence);
    }

    function useAttestation(bytes32 ledger, bytes32 transactionId, bytes32 messageId) external {
        _useAttestation(ledger, transactionId, messageId);
    }

    function applyOnce(uint64 chain, address sender, bytes32 messageId, bytes32 replaces) external {
        _applyOnce(chain, sender, messageId, replaces);
    }

    function setRetryWindow(RetryWindow calldata window) external {
        _setRetryWindow(window);
    }

    function takeLock(bytes32 subject, address holder, uint64 lockTtl) external {
        _takeLock(subject, holder, lockTtl);
    }

    function releaseLock(bytes32 subject, address holder) external {
        _releaseLock(subject, holder);
    }

    function requireUnlocked(bytes32 subject, address account) external view {
        _requireUnlocked(subject, account);
    }
}
