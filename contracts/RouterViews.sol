// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {LanePolicy} from "./LanePolicy.sol";
import {IGmpRegistry} from "./interfaces/IGmpRegistry.sol";
import {IMessageSender} from "./interfaces/IMessageSender.sol";
import {IRouterViews} from "./interfaces/IRouterViews.sol";
import {BoundedCall} from "./libraries/BoundedCall.sol";
import {Gmp, GmpSet} from "./types/Gmp.sol";
import {Execution, SentTotal} from "./types/MessageRecords.sol";

/// @dev Views of a router's storage, as {IRouterViews} specifies them.
abstract contract RouterViews is IRouterViews, LanePolicy {
    /// @inheritdoc IRouterViews
    function appointRetrier(address retrier) external {
        _retriers[msg.sender] = retrier;
        emit RetrierAppointed(msg.sender, retrier);
    }

    /// @inheritdoc IRouterViews
    function creditSurplus(address account) external payable {
        _credits[account] += msg.value;
        emit IMessageSender.Credited(account, msg.value);
    }

    /// @inheritdoc IRouterViews
    function withdraw(address payable to) external {
        uint256 amount = _credits[msg.sender];
        if (amount == 0) revert NothingToWithdraw(msg.sender);
        if (to == address(0)) revert IGmpRegistry.ZeroAddress();
        delete _credits[msg.sender];
        emit Withdrawn(msg.sender, to, amount);
        bool success = BoundedCall.tryCall(to, amount, gasleft(), "");
        if (!success) revert TransferFailed(to, amount);
    }

    /// @inheritdoc IRouterViews
    function retrierOf(address sender) external view returns (address) {
        return _retriers[sender];
    }

    /// @inheritdoc IRouterViews
    function creditOf(address account) external view returns (uint256) {
        return _credits[account];
    }

    /// @inheritdoc IRouterViews
    function sentMessage(bytes32 messageId) external view returns (address sender, uint32 attempts) {
        return (_sent[messageId].sender(), _sent[messageId].attempts());
    }

    /// @inheritdoc IRouterViews
    function sentTo(uint64 chain) external view returns (uint64 count, uint32 sum) {
        SentTotal sent = _lanes[chain].word.sent();
        return (sent.count(), sent.sum());
    }

    /// @inheritdoc IRouterViews
    function receiptsOf(bytes32 messageId) external view returns (GmpSet valid, Execution execution) {
        return (_receipts[messageId].valid(_gmps.epochs(), _activeGmps(_gmps)), _receipts[messageId].execution());
    }

    /// @inheritdoc IRouterViews
    function hasReceived(bytes32 messageId, Gmp gmp) external view returns (bool) {
        return _receipts[messageId].valid(_gmps.epochs(), _gmps.enabled()).contains(gmp);
    }

    /// @inheritdoc IRouterViews
    function executedFrom(uint64 chain) external view returns (uint64 count, uint192 sum) {
        return (_lanes[chain].executed.count(), _lanes[chain].executed.sum());
    }

    /// @inheritdoc IRouterViews
    function outcomeOf(bytes32 messageId) external view returns (Execution) {
        return _outcomes[messageId];
    }
}
