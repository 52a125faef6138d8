// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Epochs, Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Execution, Receipts} from "../../../contracts/types/MessageRecords.sol";
import {Symbolic} from "./Symbolic.sol";

/// @dev The slot of a message's receipts. Epochs of three GMPs are symbolic at a time, the lowest three and the highest three;
///      bitmap and state are symbolic as a whole.
contract ReceiptsProofs is Symbolic {
    /// @dev 8 bits for each of the thirteen GMPs below the highest three.
    uint256 private constant HIGHEST_THREE = 104;

    function check_RecordingOneGmpLeavesEveryOtherReceipt(
        uint112 rest,
        uint24 at,
        uint24 current,
        bool high,
        Gmp gmp,
        Gmp other
    ) public pure {
        _assertOthersKept(_record, _receipts(rest, at, high), _epochs(current, high), gmp, other);
    }

    function control_RecordingOneGmpLeavesEveryOtherReceipt(
        uint112 rest,
        uint24 at,
        uint24 current,
        bool high,
        Gmp gmp,
        Gmp other
    ) public pure {
        _assertOthersKept(_recordAllEpochs, _receipts(rest, at, high), _epochs(current, high), gmp, other);
    }

    function check_RevokingVoidsExactlyThatGmpsReceipt(uint112 rest, uint24 current, bool high, Gmp gmp, Gmp other)
        public
        pure
    {
        Epochs epochs = _epochs(current, high);
        epochs.requireRevocable(gmp);
        _assertVoided(_receipts(rest, current, high), epochs, epochs.bump(gmp), gmp, other);
    }

    function control_RevokingVoidsExactlyThatGmpsReceipt(uint112 rest, uint24 current, bool high, Gmp gmp, Gmp other)
        public
        pure
    {
        // Without {requireRevocable} the 256th revocation runs into the neighbour's epoch.
        Epochs epochs = _epochs(current, high);
        _assertVoided(_receipts(rest, current, high), epochs, epochs.bump(gmp), gmp, other);
    }

    function check_TheStateDoesNotTouchReceipts(uint256 word, uint8 state) public pure {
        _assertChangedAlone(Receipts.wrap(word), Receipts.wrap(word).withExecution(Execution(state)), state);
    }

    function control_TheStateDoesNotTouchReceipts(uint256 word, uint8 state) public pure {
        // Without clearing what was there before.
        Receipts changed = Receipts.wrap(word | (uint256(state) << 144));
        Execution(state);
        _assertChangedAlone(Receipts.wrap(word), changed, state);
    }

    function _assertOthersKept(
        function(Receipts, Gmp, Epochs) internal pure returns (Receipts) record,
        Receipts before,
        Epochs epochs,
        Gmp gmp,
        Gmp other
    ) private pure {
        GmpSet all = GmpSet.wrap(type(uint16).max);
        Receipts recorded = record(before, gmp, epochs);
        assert(recorded.valid(epochs, all).contains(gmp));
        if (gmp != other) {
            assert(recorded.valid(epochs, all).contains(other) == before.valid(epochs, all).contains(other));
        }
        assert(Receipts.unwrap(recorded) >> 144 == Receipts.unwrap(before) >> 144);
    }

    function _assertVoided(Receipts receipts, Epochs before, Epochs bumped, Gmp gmp, Gmp other) private pure {
        GmpSet all = GmpSet.wrap(type(uint16).max);
        assert(!receipts.valid(bumped, all).contains(gmp));
        if (gmp != other) {
            assert(receipts.valid(bumped, all).contains(other) == receipts.valid(before, all).contains(other));
        }
    }

    function _assertChangedAlone(Receipts before, Receipts changed, uint8 state) private pure {
        assert(uint8(changed.execution()) == state);
        assert(uint144(Receipts.unwrap(changed)) == uint144(Receipts.unwrap(before)));
        assert(Receipts.unwrap(changed) >> 152 == Receipts.unwrap(before) >> 152);
    }

    /// @param rest The bitmap in the lowest 16 bits, then the state and what is unused.
    function _receipts(uint112 rest, uint24 at, bool high) private pure returns (Receipts) {
        uint256 others = (uint256(rest >> 16) << 144) | uint16(rest);
        return Receipts.wrap(others | (uint256(Epochs.unwrap(_epochs(at, high))) << 16));
    }

    function _epochs(uint24 three, bool high) private pure returns (Epochs) {
        return high ? Epochs.wrap(uint128(three) << uint128(HIGHEST_THREE)) : Epochs.wrap(three);
    }

    function _record(Receipts receipts, Gmp gmp, Epochs current) private pure returns (Receipts) {
        return receipts.record(gmp, current);
    }

    /// @dev Takes over everybody's epoch: a receipt that was void would count again.
    function _recordAllEpochs(Receipts receipts, Gmp gmp, Epochs current) private pure returns (Receipts) {
        uint256 bits = Receipts.unwrap(receipts) & ~(uint256(type(uint128).max) << 16);
        bits |= GmpSet.unwrap(receipts.delivered().with(gmp));
        return Receipts.wrap(bits | (uint256(Epochs.unwrap(current)) << 16));
    }
}
