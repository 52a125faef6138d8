// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {IRouter} from "../../contracts/interfaces/IRouter.sol";

/// @dev Every test gets its routers here, and from the artifact, so that a changed router runs under tests that are compiled
///      already: `WAYBILL_ROUTER` names the artifact of a vulnerable twin (scripts/twins.py). Without it, the true one.
library TestedRouter {
    Vm private constant VM = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    function deploy(address owner) internal returns (IRouter) {
        return IRouter(VM.deployCode(_artifact(), abi.encode(owner)));
    }

    /// @dev For an owner that is refused: what reverts within a cheat code can't be expected.
    function creationCode(address owner) internal view returns (bytes memory) {
        return bytes.concat(VM.getCode(_artifact()), abi.encode(owner));
    }

    function _artifact() private view returns (string memory) {
        return VM.envOr("WAYBILL_ROUTER", string("Router.sol:Router"));
    }
}
