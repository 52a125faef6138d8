// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable2Step} from "@openzeppelin/contracts/access/Ownable2Step.sol";
import {Create3} from "@openzeppelin/contracts/utils/Create3.sol";

import {Gmp, GmpSet, GmpTable, HIGHEST_GMP} from "./types/Gmp.sol";
import {Execution, LaneTotal, LaneWord, Receipts, SentMessage} from "./types/MessageRecords.sol";

/// @dev A router's storage. {Router} and {RouterExtension} are two halves of one contract that would be too large. Both inherit
///      this contract first and declare no state of their own, so that their storage layouts are equal.
abstract contract RouterState is Ownable2Step {
    /// @dev A GMP's adapter, the end of its pause, and whether a role other than the owner set it, in one slot.
    struct AdapterSlot {
        address adapter;
        uint48 pausedUntil;
        /// @dev Set by the guardian or the tripwire; the guardian may then change the pause and end it.
        bool pausedByGuardian;
    }

    /// @dev The state of a lane that sending and receiving need: one slot for every message, one for each execution, one for its
    ///      pause.
    struct LaneState {
        LaneWord word;
        LaneTotal executed;
        uint48 pausedUntil;
        bool pausedByGuardian;
    }

    /// @dev A recipient's demand; quorum 0 means that it has no policy.
    struct Policy {
        uint8 quorum;
        GmpSet gmps;
    }

    // ---- configuration

    address internal _revoker;
    address internal _guardian;
    /// @dev The end of all pauses that the guardian begins now; it may begin others only MAX_PAUSE later.
    uint48 internal _guardianPausesEnd;
    GmpTable internal _gmps;
    mapping(Gmp gmp => AdapterSlot) internal _adapterSlots;
    /// @dev Every adapter in use has a copy of the table, so that a delivery reads one slot instead of two. A recipient that ever
    ///      set a policy has a flag for it.
    mapping(address account => GmpTable) internal _tables;
    mapping(uint64 chain => LaneState) internal _lanes;
    mapping(uint64 chain => mapping(address router => bool known)) internal _knownPeers;
    mapping(address recipient => mapping(uint64 chain => Policy)) internal _policies;
    address internal _tripwire;
    /// @dev When the allowance for pausing a GMP is fully restored, in Unix seconds, for each account that ever was the tripwire.
    mapping(address tripwire => mapping(Gmp gmp => uint48)) internal _tripwireRestedAt;
    /// @dev Hash of the creation code of each adapter that the router created.
    mapping(address adapter => bytes32) internal _creationHashes;

    // ---- sending

    mapping(bytes32 messageId => SentMessage) internal _sent;
    mapping(address sender => address retrier) internal _retriers;
    mapping(address account => uint256 amount) internal _credits;
    mapping(bytes32 messageId => Execution outcome) internal _outcomes;

    // ---- receiving

    mapping(bytes32 messageId => Receipts) internal _receipts;

    // ---- during a call

    // A whole word each, because a shared word must be read before it is written.
    uint256 internal transient _sending;
    uint256 internal transient _receiving;
    bytes32 internal transient _executingId;
    bytes32 internal transient _executingReplaces;
    uint256 internal transient _executingNonce;
    uint256 internal transient _executingKind;

    /// @notice Ownership cannot be renounced: a router without an owner could never replace an adapter of a faulty GMP.
    error RenouncingDisabled();

    /// @dev Always reverts.
    function renounceOwnership() public view override onlyOwner {
        revert RenouncingDisabled();
    }

    /// @dev The only way to change the table: updates the copy of every adapter in use.
    function _setTable(GmpTable table) internal {
        _gmps = table;
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            address adapter = _adapterSlots[Gmp.wrap(number)].adapter;
            if (adapter != address(0)) _tables[adapter] = table.copyFor(Gmp.wrap(number), _tables[adapter]);
        }
    }

    /// @dev Returns the address at which {IGmpRegistry-createAdapter} creates a GMP's adapter.
    function _createdAddress(Gmp gmp, uint8 number) internal view returns (address) {
        return Create3.computeAddress(_creationSalt(gmp, number));
    }

    function _creationSalt(Gmp gmp, uint8 number) internal pure returns (bytes32) {
        return bytes32((uint256(Gmp.unwrap(gmp)) << 8) | number);
    }
}
