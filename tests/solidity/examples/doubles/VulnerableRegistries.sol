// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {AssetRegistry} from "../../../../contracts/examples/AssetRegistry.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";

/// @notice The vulnerable twin without `StateHashGuard`: applies a change to whatever state it finds.
contract HashlessRegistry is AssetRegistry {
    constructor(IRouter router_, address owner_, RetryWindow memory window) AssetRegistry(router_, owner_, window) {}

    function _requireState(bytes32, bytes32) internal view override {}
}

/// @notice The vulnerable twin without `OrderedGuard`: applies locks as they come.
contract UnorderedRegistry is AssetRegistry {
    constructor(IRouter router_, address owner_, RetryWindow memory window) AssetRegistry(router_, owner_, window) {}

    function _takeInOrder(bytes32, uint64) internal override {}
}

/// @notice The vulnerable twin without `AttestationGuard`: takes a new message for a new transaction.
contract ReplayableRegistry is AssetRegistry {
    constructor(IRouter router_, address owner_, RetryWindow memory window) AssetRegistry(router_, owner_, window) {}

    function _useAttestation(bytes32, bytes32, bytes32) internal override {}
}
