// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {ExpiringLocks} from "../../../contracts/client/ExpiringLocks.sol";
import {Action, Instruction} from "../../../contracts/examples/AssetInstruction.sol";
import {AssetRegistry} from "../../../contracts/examples/AssetRegistry.sol";
import {Kind, Message} from "../../../contracts/types/Message.sol";
import {AssetRegistryFixture} from "./AssetRegistryFixture.sol";

/// @dev What the owner sets, and how an instruction is sent.
contract AssetRegistryConfigurationTest is AssetRegistryFixture {
    // ---------------------------------------------------------------- configuration

    function testFuzz_RevertWhen_SomebodyElseThanTheOwnerConfigures(address caller) external {
        vm.assume(caller != owner);
        bytes memory expected = abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, caller);
        vm.startPrank(caller);
        vm.expectRevert(expected);
        beta.create("boat", caller, 1);
        vm.expectRevert(expected);
        beta.setPermission(ALPHA, caller, Action.SYNC, true);
        vm.expectRevert(expected);
        beta.setOperator(caller, true);
        vm.expectRevert(expected);
        beta.setLane(_lane(ALPHA, caller));
        vm.expectRevert(expected);
        beta.setLeastTtl(HOUSE, 1);
        vm.expectRevert(expected);
        beta.setRetryWindow(_window());
        vm.expectRevert(expected);
        beta.skip(HOUSE, 1);
    }

    function test_RevertWhen_TheAssetExistsOrHasNoOwner() external {
        vm.startPrank(owner);
        vm.expectRevert(abi.encodeWithSelector(AssetRegistry.AssetExists.selector, HOUSE));
        beta.create(HOUSE, bob, 1);
        vm.expectRevert(AssetRegistry.ZeroOwner.selector);
        beta.create("boat", address(0), 1);
    }

    function testFuzz_TheOwnerCreatesAnAsset(bytes32 asset, address holder, uint128 units) external {
        vm.assume(asset != HOUSE && holder != address(0));
        vm.expectEmit(address(beta));
        emit AssetRegistry.AssetCreated(asset, holder, units);
        vm.prank(owner);
        beta.create(asset, holder, units);
        AssetRegistry.Asset memory made = beta.assetOf(asset);
        assertEq(
            abi.encode(made),
            abi.encode(
                AssetRegistry.Asset({owner: holder, version: 1, frozen: false, rollingBack: false, units: units})
            )
        );
        bytes32 state = keccak256(abi.encode(asset, holder, uint64(1), false, units));
        assertEq(beta.currentStateHash(asset), state);
    }

    function testFuzz_TheOwnerSaysWhoMayDoWhat(uint64 chain, address account, uint8 index, bool allowed) external {
        Action action = Action(bound(index, 0, uint8(type(Action).max)));
        vm.startPrank(owner);
        vm.expectEmit(address(beta));
        emit AssetRegistry.PermissionSet(chain, account, action, allowed);
        beta.setPermission(chain, account, action, allowed);
        vm.expectEmit(address(beta));
        emit AssetRegistry.OperatorSet(account, allowed);
        beta.setOperator(account, allowed);
        assertEq(beta.isOperator(account), allowed);
        vm.expectEmit(address(beta));
        emit AssetRegistry.LaneSet(chain, account);
        beta.setLane(_lane(chain, account));
        vm.expectEmit(address(beta));
        emit AssetRegistry.LeastTtlSet(HOUSE, 77);
        beta.setLeastTtl(HOUSE, 77);
    }

    function test_TheOwnerChangesTheRetryWindow() external {
        vm.expectEmit(address(beta));
        emit ExpiringLocks.RetryWindowSet(1, 2, 3);
        vm.prank(owner);
        beta.setRetryWindow(ExpiringLocks.RetryWindow({messageTtl: 1, maxRetries: 2, maxBackoff: 3}));
        assertEq(beta.leastLockTtl(), 7);
    }

    // ---------------------------------------------------------------- instruct

    function testFuzz_RevertWhen_TheCallerIsNoOperator(address caller) external {
        vm.assume(caller != operator);
        Instruction memory made = _make(Action.SYNC, bob, 1);
        vm.expectRevert(abi.encodeWithSelector(AssetRegistry.NotOperator.selector, caller));
        vm.prank(caller);
        alpha.instruct(BETA, made);
    }

    function test_SendsTheKindOfTheAction() external {
        Kind[9] memory kinds = [
            Kind.STATE_SYNC,
            Kind.REGULATORY_ACTION_CRITICAL,
            Kind.REGULATORY_ACTION,
            Kind.REGULATORY_ACTION_CRITICAL,
            Kind.LOCK_MANAGEMENT,
            Kind.LOCK_MANAGEMENT,
            Kind.STATE_SYNC,
            Kind.STATE_SYNC,
            Kind.STATE_SYNC
        ];
        for (uint8 action; action <= uint8(type(Action).max); ++action) {
            vm.expectEmit(true, true, true, false, address(alpha));
            emit AssetRegistry.Instructed(HOUSE, Action(action), BETA, 0);
            Message memory message = _instruct(_make(Action(action), bob, 1));
            assertEq(uint8(message.kind), uint8(kinds[action]));
            assertEq(
                message.ttl == 0, kinds[action] == Kind.REGULATORY_ACTION_CRITICAL, "a critical action never expires"
            );
        }
    }

    function testFuzz_MessagesLiveAtLeastAsLongAsTheAssetAsksFor(uint32 leastTtl) external {
        vm.prank(owner);
        alpha.setLeastTtl(HOUSE, leastTtl);
        assertEq(_instruct(_make(Action.SYNC, bob, 1)).ttl, leastTtl > 1 days ? leastTtl : 1 days);
        assertEq(alpha.resolveTtl(HOUSE, 0), 0, "for ever stays for ever");
    }
}
