// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Rules} from "./Rules.sol";
import {IGmpRegistry} from "./interfaces/IGmpRegistry.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";
import {Gmp, GmpSet} from "./types/Gmp.sol";
import {Execution} from "./types/Receipts.sol";

/// @dev What a router remembers; {ILedger} says what it promises.
abstract contract Ledger is ILedger, Rules {
    /// @inheritdoc ILedger
    function appointRetrier(address retrier) external {
        _retriers[msg.sender] = retrier;
        emit RetrierAppointed(msg.sender, retrier);
    }

    /// @inheritdoc ILedger
    function withdraw(address payable to) external {
        uint256 amount = _credits[msg.sender];
        if (amount == 0) revert NothingToWithdraw(msg.sender);
        if (to == address(0)) revert IGmpRegistry.ZeroAddress();
        delete _credits[msg.sender];
        emit Withdrawn(msg.sender, to, amount);
        (bool success,) = BoundedCall.tryCall(to, amount, gasleft(), "", 0);
        if (!success) revert TransferFailed(to, amount);
    }

    /// @inheritdoc ILedger
    function retrierOf(address sender) external view returns (address) {
        return _retriers[sender];
    }

    /// @inheritdoc ILedger
    function creditOf(address account) external view returns (uint256) {
        return _credits[account];
    }

    /// @inheritdoc ILedger
    function sentMessage(bytes32 messageId) external view returns (address sender, uint32 attempts) {
        return (_sent[messageId].sender(), _sent[messageId].attempts());
    }

    /// @inheritdoc ILedger
    function sentTo(uint64 chain) external view returns (uint64 count, uint192 sum) {
        return (_lanes[chain].sent.count(), _lanes[chain].sent.sum());
    }

    /// @inheritdoc ILedger
    function receiptsOf(bytes32 messageId) external view returns (GmpSet valid, Execution execution) {
        return (_receipts[messageId].valid(_gmps.epochs(), _openGmps(_gmps)), _receipts[messageId].execution());
    }

    /// @inheritdoc ILedger
    function hasReceived(bytes32 messageId, Gmp gmp) external view returns (bool) {
        return _receipts[messageId].valid(_gmps.epochs(), _gmps.enabled()).contains(gmp);
    }

    /// @inheritdoc ILedger
    function executedFrom(uint64 chain) external view returns (uint64 count, uint192 sum) {
        return (_lanes[chain].executed.count(), _lanes[chain].executed.sum());
    }

    /// @inheritdoc ILedger
    function outcomeOf(bytes32 messageId) external view returns (Execution) {
        return _outcomes[messageId];
    }
}
