// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {AtomicCoordinator} from "../../../contracts/atomic/AtomicCoordinator.sol";
import {AtomicAssets} from "../../../contracts/examples/AtomicAssets.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Window} from "../../../contracts/types/Atomic.sol";

/// @dev Coordinators and participants from their artifacts, as {TestedRouter} does it for routers: `WAYBILL_COORDINATOR` and
///      `WAYBILL_PARTICIPANT` name those of a vulnerable twin (scripts/twins.py).
library TestedAtomic {
    Vm private constant VM = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    function coordinator(IRouter router, address owner, Window memory window) internal returns (AtomicCoordinator) {
        string memory artifact = VM.envOr("WAYBILL_COORDINATOR", string("AtomicCoordinator.sol:AtomicCoordinator"));
        return AtomicCoordinator(VM.deployCode(artifact, abi.encode(router, owner, window)));
    }

    function assets(IRouter router, address owner, Window memory window) internal returns (AtomicAssets) {
        string memory artifact = VM.envOr("WAYBILL_PARTICIPANT", string("AtomicAssets.sol:AtomicAssets"));
        return AtomicAssets(VM.deployCode(artifact, abi.encode(router, owner, window)));
    }
}
