// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";

import {ActionState, BranchRequest} from "../../../contracts/types/Atomic.sol";
import {AtomicChains} from "../atomic/AtomicChains.sol";
import {Listings, Regulator} from "./Listings.sol";

/// @notice What docs/recipes.md shows of atomic actions, played.
contract ListingsTest is Test, AtomicChains {
    Regulator private regulator;
    mapping(uint64 chain => Listings) private listings;

    function setUp() external {
        setUpChains();
        regulator = new Regulator();
        _list(EAST);
        _list(WEST);
        vm.prank(owner);
        coordinator.setInitiator(address(regulator), true);
    }

    function test_AFreezeHappensOnAllChains() external {
        bytes32 actionId = _freeze();
        for (uint256 step; step < 2; ++step) {
            _answer(actionId, EAST);
            _answer(actionId, WEST);
            if (step == 0) {
                tell(actionId, 0);
                tell(actionId, 1);
            }
        }
        assertTrue(listings[EAST].isFrozen(ASSET) && listings[WEST].isFrozen(ASSET));
        assertTrue(coordinator.actionOf(actionId).state == ActionState.COMMITTED);
        vm.expectRevert(abi.encodeWithSelector(Listings.Frozen.selector, ASSET));
        listings[EAST].buy(ASSET);
    }

    function test_OrOnNone() external {
        bytes32 actionId = _freeze();
        _answer(actionId, EAST); // the other chain is down
        skip(901);
        coordinator.timeOut(actionId);
        tell(actionId, 0);
        assertFalse(listings[EAST].isFrozen(ASSET));
        listings[EAST].buy(ASSET);
        assertEq(listings[EAST].holderOf(ASSET), address(this));
    }

    function _freeze() private returns (bytes32 actionId) {
        BranchRequest[] memory branches = new BranchRequest[](2);
        branches[0] = BranchRequest(EAST, address(listings[EAST]), "");
        branches[1] = BranchRequest(WEST, address(listings[WEST]), "");
        networks[1].setFee(1 gwei);
        actionId = regulator.freezeEverywhere{value: 2 gwei}(coordinator, ASSET, branches);
        networks[1].setFee(0);
        deliver(coordinator.branchOf(actionId, 0).prepareId);
        deliver(coordinator.branchOf(actionId, 1).prepareId);
    }

    function _answer(bytes32 actionId, uint64 chain) private {
        vm.chainId(chain);
        bytes32 messageId = listings[chain].reply(actionId);
        vm.chainId(HOME);
        deliver(messageId);
    }

    function _list(uint64 chain) private {
        vm.chainId(chain);
        listings[chain] = new Listings(routers[chain], owner, window());
        _introduce(chain, listings[chain]);
        vm.chainId(HOME);
    }
}
