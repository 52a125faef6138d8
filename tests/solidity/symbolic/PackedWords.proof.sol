// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Epochs, Gmp, GmpSet, GmpTable} from "../../../contracts/types/Gmp.sol";
import {LaneTotal, SentMessage, SentMessageLibrary} from "../../../contracts/types/MessageRecords.sol";
import {Symbolic} from "./Symbolic.sol";

/// @dev What is packed into one word: no part of it touches another.
contract WordProofs is Symbolic {
    function check_AnAttemptOrACancellationChangesNothingElseOfASentMessage(address sender, GmpSet gmps, bool retriable)
        public
        pure
    {
        _assertKept(_withOneMoreAttempt, sender, gmps, retriable);
    }

    function control_AnAttemptOrACancellationChangesNothingElseOfASentMessage(
        address sender,
        GmpSet gmps,
        bool retriable
    ) public pure {
        _assertKept(_withAttemptOneBitTooLow, sender, gmps, retriable);
    }

    function check_LaneTotalsDoNotDependOnTheOrder(LaneTotal total, bytes32 a, bytes32 b) public pure {
        _assertOrderless(_plus, total, a, b);
    }

    function control_LaneTotalsDoNotDependOnTheOrder(LaneTotal total, bytes32 a, bytes32 b) public pure {
        _assertOrderless(_plusInOrder, total, a, b);
    }

    function check_NoPartOfTheGmpTableTouchesAnother(
        GmpTable table,
        GmpSet enabled,
        GmpSet paused,
        uint16 day,
        Epochs epochs
    ) public pure {
        GmpTable written = table.withEnabled(enabled).withPaused(paused, day).withEpochs(epochs);
        _assertApart(table, written, enabled, paused, day, epochs);
    }

    function control_NoPartOfTheGmpTableTouchesAnother(
        GmpTable table,
        GmpSet enabled,
        GmpSet paused,
        uint16 day,
        Epochs epochs
    ) public pure {
        // Without clearing the epochs that were there.
        GmpTable written = table.withEnabled(enabled).withPaused(paused, day);
        written = GmpTable.wrap(GmpTable.unwrap(written) | (uint256(Epochs.unwrap(epochs)) << 32));
        _assertApart(table, written, enabled, paused, day, epochs);
    }

    function check_OnlyCleanWordsAreAddresses(bytes32 word) public view {
        (bool accepted, bytes memory answer) = address(this).staticcall(abi.encodeCall(this.toAddress, (word)));
        assert(accepted == (uint256(word) <= type(uint160).max));
        if (accepted) assert(Addresses.toBytes32(abi.decode(answer, (address))) == word);
    }

    function control_OnlyCleanWordsAreAddresses(bytes32 word) public view {
        (bool accepted,) = address(this).staticcall(abi.encodeCall(this.toAddressCut, (word)));
        assert(accepted == (uint256(word) <= type(uint160).max));
    }

    function toAddress(bytes32 word) external pure returns (address) {
        return Addresses.toAddress(word);
    }

    function toAddressCut(bytes32 word) external pure returns (address) {
        return address(uint160(uint256(word)));
    }

    function _assertKept(
        function(SentMessage) internal pure returns (SentMessage) oneMore,
        address sender,
        GmpSet gmps,
        bool retriable
    ) private pure {
        SentMessage sent = SentMessageLibrary.unfundedOf(sender, gmps, retriable, type(uint40).max);
        assert(!sent.isCancelled());
        sent = oneMore(oneMore(sent).cancelled());
        assert(sent.sender() == sender && sent.attempts() == 2 && sent.gmps() == gmps);
        assert(sent.isRetriable() == retriable && sent.isUnfunded() && sent.isCancelled());
        sent = oneMore(SentMessageLibrary.retriableBy(sender));
        assert(sent.sender() == sender && sent.attempts() == 1 && sent.isRetriable());
        assert(!sent.isUnfunded() && !sent.isCancelled());
    }

    function _assertApart(GmpTable before, GmpTable written, GmpSet enabled, GmpSet paused, uint16 day, Epochs epochs)
        private
        pure
    {
        assert(written.enabled() == enabled && written.paused() == paused && written.pausesDay() == day);
        assert(Epochs.unwrap(written.epochs()) == Epochs.unwrap(epochs));
        assert(written.gmp() == before.gmp() && written.lanesDay() == before.lanesDay());
        assert(written.hasPolicy() == before.hasPolicy());
        assert(written.createdAs(Gmp.wrap(1)) == before.createdAs(Gmp.wrap(1)));
        assert(written.createdAs(Gmp.wrap(16)) == before.createdAs(Gmp.wrap(16)));
    }

    function _assertOrderless(
        function(LaneTotal, bytes32) internal pure returns (LaneTotal) plus,
        LaneTotal total,
        bytes32 a,
        bytes32 b
    ) private pure {
        vm.assume(total.count() < type(uint64).max - 2);
        LaneTotal forwards = plus(plus(total, a), b);
        LaneTotal backwards = plus(plus(total, b), a);
        assert(forwards.count() == total.count() + 2 && backwards.count() == forwards.count());
        assert(forwards.sum() == backwards.sum());
        unchecked {
            assert(forwards.sum() == total.sum() + uint192(uint256(a)) + uint192(uint256(b)));
        }
    }

    function _withOneMoreAttempt(SentMessage sent) private pure returns (SentMessage) {
        return sent.withOneMoreAttempt();
    }

    function _withAttemptOneBitTooLow(SentMessage sent) private pure returns (SentMessage) {
        return SentMessage.wrap(SentMessage.unwrap(sent) + (1 << 159));
    }

    function _plus(LaneTotal total, bytes32 messageId) private pure returns (LaneTotal) {
        return total.plus(messageId);
    }

    function _plusInOrder(LaneTotal total, bytes32 messageId) private pure returns (LaneTotal) {
        unchecked {
            uint192 sum = total.sum() * 31 + uint192(uint256(messageId));
            return LaneTotal.wrap((uint256(sum) << 64) | (total.count() + 1));
        }
    }
}
