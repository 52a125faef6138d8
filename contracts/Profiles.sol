// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IAttributes, IProfiles} from "./interfaces/IProfiles.sol";
import {GmpSet} from "./types/Gmp.sol";
import {Kind} from "./types/Message.sol";
import {DeliveryChoice, Profile} from "./types/Profile.sol";

/// @dev A separate contract that the router creates, so that parsing attributes takes no code size in the router.
contract Profiles is IProfiles {
    Ownable private immutable _router;

    mapping(address sender => mapping(uint64 chain => Profile)) private _profiles;

    mapping(address sender => mapping(bytes32 messageId => DeliveryChoice)) private _choices;

    constructor(Ownable router) {
        _router = router;
    }

    /// @inheritdoc IProfiles
    function setProfile(uint64 chain, Profile calldata profile) external {
        _set(msg.sender, chain, profile);
    }

    /// @inheritdoc IProfiles
    function setDefaultProfile(uint64 chain, Profile calldata profile) external {
        if (msg.sender != _router.owner()) revert OnlyOwner(msg.sender);
        _set(address(0), chain, profile);
    }

    /// @inheritdoc IProfiles
    function chooseDelivery(bytes32 messageId, DeliveryChoice calldata choice) external {
        if (choice.chosen && (choice.baseBackoffMs == 0 || choice.baseBackoffMs > choice.maxBackoffMs)) {
            revert InvalidBackoff(choice.baseBackoffMs, choice.maxBackoffMs);
        }
        _choices[msg.sender][messageId] = choice;
        emit DeliveryChosen(msg.sender, messageId, choice);
    }

    /// @inheritdoc IProfiles
    function deliveryOf(address sender, bytes32 messageId) external view returns (DeliveryChoice memory choice) {
        choice = _choices[sender][messageId];
        if (!choice.chosen) choice = _choices[sender][0];
    }

    /// @inheritdoc IProfiles
    function resolve(address sender, bytes calldata recipient, bytes[] calldata attributes)
        external
        view
        returns (uint64 chain, address account, Profile memory profile)
    {
        (chain, account) = _parse(recipient);
        profile = profileOf(sender, chain);
        if (profile.quorum == 0) revert NoProfile(sender, chain);
        uint64 least;
        for (uint256 index; index < attributes.length; ++index) {
            uint64 gas = _apply(profile, attributes[index]);
            if (gas > least) least = gas;
        }
        // Last, so that no later attribute can lower a minimum.
        if (profile.gasLimit < least) profile.gasLimit = least;
        _validate(profile);
    }

    /// @inheritdoc IProfiles
    function profileOf(address sender, uint64 chain) public view returns (Profile memory profile) {
        profile = _profiles[sender][chain];
        if (profile.quorum == 0) profile = _profiles[address(0)][chain];
    }

    /// @inheritdoc IProfiles
    function supportsAttribute(bytes4 selector) external pure returns (bool) {
        return selector == IAttributes.gmps.selector || selector == IAttributes.quorum.selector
            || selector == IAttributes.gasLimit.selector || selector == IAttributes.ttl.selector
            || selector == IAttributes.kind.selector || selector == IAttributes.retriable.selector
            || selector == IAttributes.cancellable.selector || selector == IAttributes.minGasLimit.selector;
    }

    function _set(address sender, uint64 chain, Profile calldata profile) private {
        if (profile.quorum != 0 || profile.gmps.count() != 0) _validate(profile);
        _profiles[sender][chain] = profile;
        emit ProfileSet(sender, chain, profile);
    }

    function _validate(Profile memory profile) private pure {
        if (profile.quorum == 0 || profile.quorum > profile.gmps.count()) revert InvalidProfile(profile);
    }

    /// @dev ERC-7930 allows several encodings of one address. Only the shortest is accepted, so that equality is unambiguous.
    function _parse(bytes calldata recipient) private pure returns (uint64 chain, address account) {
        (bool success, uint256 chainId, address parsed) = InteroperableAddress.tryParseEvmV1Calldata(recipient);
        bool fits = success && chainId != 0 && chainId <= type(uint64).max && parsed != address(0);
        if (!fits || keccak256(recipient) != keccak256(InteroperableAddress.formatEvmV1(chainId, parsed))) {
            revert InvalidRecipient(recipient);
        }
        return (uint64(chainId), parsed);
    }

    /// @return minGas The attribute's minimum gas; 0 for attributes without a minimum.
    function _apply(Profile memory profile, bytes calldata attribute) private pure returns (uint64 minGas) {
        bytes4 selector = bytes4(attribute);
        if (attribute.length < 4) revert IERC7786GatewaySource.UnsupportedAttribute(selector);
        if (selector == IAttributes.gmps.selector) {
            profile.gmps = GmpSet.wrap(uint16(_word(attribute, type(uint16).max)));
        } else if (selector == IAttributes.quorum.selector) {
            profile.quorum = uint8(_word(attribute, type(uint8).max));
        } else if (selector == IAttributes.gasLimit.selector) {
            profile.gasLimit = uint64(_word(attribute, type(uint64).max));
        } else if (selector == IAttributes.ttl.selector) {
            profile.ttl = uint32(_word(attribute, type(uint32).max));
        } else if (selector == IAttributes.kind.selector) {
            profile.kind = Kind(_word(attribute, uint256(type(Kind).max)));
        } else if (selector == IAttributes.retriable.selector) {
            profile.retriable = _word(attribute, 1) != 0;
        } else if (selector == IAttributes.cancellable.selector) {
            _word(attribute, 1); // a sender can cancel every message that it sent
        } else if (selector == IAttributes.minGasLimit.selector) {
            minGas = uint64(_word(attribute, type(uint64).max));
        } else {
            revert IERC7786GatewaySource.UnsupportedAttribute(selector);
        }
    }

    /// @dev Decodes the attribute's single argument, at most `most`.
    function _word(bytes calldata attribute, uint256 most) private pure returns (uint256 word) {
        if (attribute.length != 36) revert InvalidAttribute(attribute);
        word = uint256(bytes32(attribute[4:]));
        if (word > most) revert InvalidAttribute(attribute);
    }
}
