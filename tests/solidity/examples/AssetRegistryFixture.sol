// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ExpiringLocks} from "../../../contracts/client/ExpiringLocks.sol";
import {Action, Instruction} from "../../../contracts/examples/AssetInstruction.sol";
import {AssetRegistry} from "../../../contracts/examples/AssetRegistry.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {Message} from "../../../contracts/types/Message.sol";
import {CourierChains} from "../client/CourierChains.sol";

/// @dev A registry on each of two chains; alpha's instructs beta's about one house.
abstract contract AssetRegistryFixture is CourierChains {
    bytes32 internal constant HOUSE = "house";
    uint64 internal constant LOCK_TTL = 1 days + 5 * 60;

    address internal immutable operator = makeAddr("operator");
    address internal immutable ann = makeAddr("ann");
    address internal immutable bob = makeAddr("bob");
    address internal immutable eve = makeAddr("eve");

    AssetRegistry internal alpha;
    AssetRegistry internal beta;

    function setUp() public override {
        super.setUp();
        alpha = new AssetRegistry(routers[ALPHA], owner, _window());
        beta = new AssetRegistry(routers[BETA], owner, _window());
        vm.deal(operator, 100 ether);
        _prepare(beta);
    }

    /// @dev Makes `target` the registry on beta that alpha's registry speaks to.
    function _prepare(AssetRegistry target) internal {
        vm.startPrank(owner);
        alpha.setOperator(operator, true);
        alpha.setLane(_lane(BETA, address(target)));
        target.allowRoute(ALPHA, address(alpha), 2, ALL);
        for (uint8 action; action <= uint8(type(Action).max); ++action) {
            target.setPermission(ALPHA, address(alpha), Action(action), true);
        }
        target.create(HOUSE, ann, 100);
        vm.stopPrank();
        beta = target;
    }

    function _window() internal pure returns (ExpiringLocks.RetryWindow memory) {
        return ExpiringLocks.RetryWindow({messageTtl: 1 days, maxRetries: 5, maxBackoff: 60});
    }

    function _make(Action action, address account, uint128 units) internal view returns (Instruction memory made) {
        made.action = action;
        made.asset = HOUSE;
        made.stateHash = beta.currentStateHash(HOUSE);
        made.account = account;
        made.units = units;
    }

    function _makeLock(Action action, address holder, uint64 sequence) internal pure returns (Instruction memory made) {
        made.action = action;
        made.asset = HOUSE;
        made.sequence = sequence;
        made.account = holder;
        made.lockTtl = action == Action.LOCK ? LOCK_TTL : 0;
    }

    function _instruct(Instruction memory made) internal returns (Message memory) {
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(operator);
        alpha.instruct{value: 1 ether}(BETA, made);
        return _routed()[0];
    }

    /// @dev Whether the instruction, sent and delivered at once, was applied.
    function _apply(Instruction memory made) internal returns (bool) {
        Message memory message = _instruct(made);
        _deliver(message);
        return _isExecuted(message);
    }

    function _ownerOf() internal view returns (address) {
        return beta.assetOf(HOUSE).owner;
    }

    /// @dev The instruction is sent, delivered, and refused with the reason.
    function _assertRefused(Instruction memory made, bytes memory reason) internal {
        Message memory message = _instruct(made);
        _deliver(message);
        assertFalse(_isExecuted(message), "refused");
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.ExecutionReverted.selector, message.id(), reason));
        _execute(message);
    }
}
