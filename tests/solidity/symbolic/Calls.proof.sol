// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Profiles} from "../../../contracts/Profiles.sol";
import {BoundedCall} from "../../../contracts/libraries/BoundedCall.sol";
import {Gmp, NO_GMPS} from "../../../contracts/types/Gmp.sol";
import {Kind} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {Symbolic} from "./Symbolic.sol";

/// @dev Answers with the bytes it was called with, or reverts with them.
contract Echo {
    bool private immutable _reverts;

    constructor(bool reverts) {
        _reverts = reverts;
    }

    fallback() external payable {
        bytes memory said = msg.data;
        bool reverts = _reverts;
        assembly ("memory-safe") {
            if reverts { revert(add(said, 0x20), mload(said)) }
            return(add(said, 0x20), mload(said))
        }
    }
}

/// @dev What comes from outside: answers of any length, and addresses in their ERC-7930 form.
contract CallProofs is Symbolic {
    uint256 private constant BOUND = 64;

    Echo private echo = new Echo(false);
    Echo private refusal = new Echo(true);
    Profiles private profiles = new Profiles(Ownable(address(0)));

    function check_NoAnswerIsCopiedBeyondTheBound() public {
        _assertBounded(_bounded);
    }

    function control_NoAnswerIsCopiedBeyondTheBound() public {
        _assertBounded(_unbounded);
    }

    function check_AnErc7930AddressIsReadAsItWasWritten(address account) public {
        _assertRoundTrip(account, 0);
    }

    function control_AnErc7930AddressIsReadAsItWasWritten(address account) public {
        _assertRoundTrip(account, 1);
    }

    function _assertBounded(function(address, bytes memory) internal returns (bool, bytes memory) callOut) private {
        uint256[6] memory lengths = [uint256(0), 1, 32, 64, 65, 200];
        for (uint256 index; index < lengths.length; ++index) {
            bytes memory said = svm.createBytes(lengths[index], "answer");
            (bool accepted, bytes memory answer) = callOut(address(echo), said);
            _assertPrefix(said, answer);
            (bool refused, bytes memory reason) = callOut(address(refusal), said);
            _assertPrefix(said, reason);
            assert(accepted && !refused);
        }
    }

    function _assertPrefix(bytes memory said, bytes memory copied) private pure {
        assert(copied.length == (said.length < BOUND ? said.length : BOUND));
        for (uint256 index; index < copied.length; ++index) {
            assert(copied[index] == said[index]);
        }
    }

    function _bounded(address target, bytes memory data) private returns (bool success, bytes memory answer) {
        success = BoundedCall.tryCall(target, 0, gasleft(), data);
        answer = BoundedCall.answer(BOUND);
    }

    function _unbounded(address target, bytes memory data) private returns (bool, bytes memory) {
        return target.call(data);
    }

    /// @dev Chain ids of each length that a reference can have, up to eight bytes.
    function _assertRoundTrip(address account, uint256 offset) private {
        vm.assume(account != address(0));
        uint64[6] memory chains = [1, 255, 256, 11_155_111, 2 ** 40, type(uint64).max];
        for (uint256 index; index < chains.length; ++index) {
            Profile memory profile = Profile({
                gmps: NO_GMPS.with(Gmp.wrap(1)),
                quorum: 1,
                gasLimit: 1,
                ttl: 0,
                kind: Kind.PLAIN,
                retriable: true,
                maxFeeGwei: 0
            });
            profiles.setProfile(chains[index], profile);
            bytes memory written = InteroperableAddress.formatEvmV1(chains[index], account);
            (uint64 chain, address read,) = profiles.resolve(address(this), written, new bytes[](0));
            assert(chain == chains[index] && uint160(read) == uint160(account) + offset);
        }
    }
}
