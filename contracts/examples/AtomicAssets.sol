// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AtomicParticipant} from "../atomic/AtomicParticipant.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Window} from "../types/Atomic.sol";

/// @title AtomicAssets
/// @notice Assets that exist on several chains, and are frozen and moved on all of them or on none.
contract AtomicAssets is AtomicParticipant {
    enum Act {
        FREEZE,
        UNFREEZE,
        /// @dev Takes units from an account.
        DEBIT,
        /// @dev Gives units to an account.
        CREDIT
    }

    /// @dev A participant's change, `abi.encode`d. FREEZE and UNFREEZE ignore account and units.
    struct Change {
        Act act;
        address account;
        uint128 units;
    }

    mapping(bytes32 asset => bool) public exists;
    mapping(bytes32 asset => bool) public isFrozen;
    mapping(bytes32 asset => mapping(address account => uint256)) public unitsOf;

    event AssetCreated(bytes32 indexed asset, address indexed account, uint256 units);
    event AssetChanged(bytes32 indexed asset, Act indexed act, address indexed account, uint128 units);
    event UnitsMoved(bytes32 indexed asset, address indexed from, address indexed to, uint128 units);

    /// @notice The asset already exists here.
    error AssetExists(bytes32 asset);
    /// @notice The asset does not exist here.
    error UnknownAsset(bytes32 asset);
    /// @notice The asset is frozen.
    error AssetFrozen(bytes32 asset);
    /// @notice The account has fewer units of the asset than wanted.
    error TooFewUnits(bytes32 asset, address account, uint256 units, uint256 wanted);

    constructor(IRouter router_, address owner_, Window memory window) AtomicParticipant(router_, owner_, window) {}

    function create(bytes32 asset, address account, uint256 units) external onlyOwner {
        if (exists[asset]) revert AssetExists(asset);
        exists[asset] = true;
        unitsOf[asset][account] = units;
        emit AssetCreated(asset, account, units);
    }

    /// @notice Moves units on this chain; refused while an action holds the asset.
    function transfer(bytes32 asset, address to, uint128 units) external {
        if (!exists[asset]) revert UnknownAsset(asset);
        _requireMovable(asset);
        if (isFrozen[asset]) revert AssetFrozen(asset);
        _take(asset, msg.sender, units);
        unitsOf[asset][to] += units;
        emit UnitsMoved(asset, msg.sender, to, units);
    }

    function _refusal(bytes32 asset, bytes memory encoded) internal view override returns (bytes32) {
        Change memory change = abi.decode(encoded, (Change));
        if (!exists[asset]) return "UNKNOWN_ASSET";
        if (change.act == Act.FREEZE) return isFrozen[asset] ? bytes32("FROZEN") : bytes32(0);
        if (change.act == Act.UNFREEZE) return isFrozen[asset] ? bytes32(0) : bytes32("NOT_FROZEN");
        if (isFrozen[asset]) return "FROZEN";
        if (change.act == Act.DEBIT && unitsOf[asset][change.account] < change.units) return "TOO_FEW_UNITS";
        return 0;
    }

    function _apply(bytes32 asset, bytes memory encoded) internal override {
        Change memory change = abi.decode(encoded, (Change));
        if (change.act == Act.FREEZE) isFrozen[asset] = true;
        else if (change.act == Act.UNFREEZE) isFrozen[asset] = false;
        else if (change.act == Act.DEBIT) _take(asset, change.account, change.units);
        else unitsOf[asset][change.account] += change.units;
        emit AssetChanged(asset, change.act, change.account, change.units);
    }

    function _take(bytes32 asset, address account, uint128 units) private {
        uint256 present = unitsOf[asset][account];
        if (present < units) revert TooFewUnits(asset, account, present, units);
        unitsOf[asset][account] = present - units;
    }
}
