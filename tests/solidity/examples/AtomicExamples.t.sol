// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {Test} from "forge-std/Test.sol";

import {AtomicAssets} from "../../../contracts/examples/AtomicAssets.sol";
import {AtomicParameters} from "../../../contracts/examples/AtomicParameters.sol";
import {ActionRequest, Level} from "../../../contracts/types/Atomic.sol";
import {AtomicChains} from "../atomic/AtomicChains.sol";

/// @notice What the example participants do by themselves; their actions are in tests/solidity/atomic.
contract AtomicExamplesTest is Test, AtomicChains {
    function setUp() external {
        setUpChains();
    }

    function testFuzz_AnAssetMovesFromItsHolder(uint128 units) external {
        units = uint128(bound(units, 0, UNITS));
        vm.prank(ann);
        assets[EAST].transfer(ASSET, owner, units);
        assertEq(assets[EAST].unitsOf(ASSET, owner), units);
        assertEq(assets[EAST].unitsOf(ASSET, ann), UNITS - units);
    }

    function test_Revert_When_TheAssetExistsOrTheCallerIsNotTheOwner() external {
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, address(this)));
        assets[EAST].create("silver", ann, 1);
        vm.expectRevert(abi.encodeWithSelector(AtomicAssets.AssetExists.selector, ASSET));
        vm.prank(owner);
        assets[EAST].create(ASSET, ann, 1);
    }

    function test_Revert_When_TheAssetCannotMove() external {
        vm.startPrank(ann);
        vm.expectRevert(abi.encodeWithSelector(AtomicAssets.UnknownAsset.selector, bytes32("silver")));
        assets[EAST].transfer("silver", owner, 1);
        vm.expectRevert(abi.encodeWithSelector(AtomicAssets.TooFewUnits.selector, ASSET, ann, UNITS, UNITS + 1));
        assets[EAST].transfer(ASSET, owner, uint128(UNITS) + 1);
        vm.stopPrank();

        ActionRequest memory made = freeze(Level.GUARANTEED);
        vm.prank(initiator);
        tell(coordinator.begin(made), 0);
        vm.expectRevert(abi.encodeWithSelector(AtomicAssets.AssetFrozen.selector, ASSET));
        vm.prank(ann);
        assets[EAST].transfer(ASSET, owner, 1);
    }

    function test_AParameterIsSetByItsOwner() external {
        AtomicParameters parameters = new AtomicParameters(routers[EAST], owner, window());
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, address(this)));
        parameters.set("limit", 5);
        vm.prank(owner);
        parameters.set("limit", 5);
        assertEq(parameters.valueOf("limit"), 5);
    }
}
