// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {ExpiringLocks} from "../../../contracts/client/ExpiringLocks.sol";
import {Action, Instruction} from "../../../contracts/examples/AssetInstruction.sol";
import {AssetRegistry} from "../../../contracts/examples/AssetRegistry.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {Kind, Message} from "../../../contracts/types/Message.sol";
import {CourierChains} from "../client/CourierChains.sol";
import {HashlessRegistry, ReplayableRegistry, UnorderedRegistry} from "./doubles/VulnerableRegistries.sol";

contract AssetRegistryTest is CourierChains {
    bytes32 private constant HOUSE = "house";
    uint64 private constant LOCK_TTL = 1 days + 5 * 60;

    address private immutable operator = makeAddr("operator");
    address private immutable ann = makeAddr("ann");
    address private immutable bob = makeAddr("bob");
    address private immutable eve = makeAddr("eve");

    AssetRegistry private alpha;
    AssetRegistry private beta;

    function setUp() public override {
        super.setUp();
        alpha = new AssetRegistry(routers[ALPHA], owner, _window());
        beta = new AssetRegistry(routers[BETA], owner, _window());
        vm.deal(operator, 100 ether);
        _prepare(beta);
    }

    /// @dev Makes `target` the registry on beta that alpha's registry speaks to.
    function _prepare(AssetRegistry target) private {
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

    function _window() private pure returns (ExpiringLocks.RetryWindow memory) {
        return ExpiringLocks.RetryWindow({messageTtl: 1 days, maxRetries: 5, maxBackoff: 60});
    }

    function _make(Action action, address account, uint128 units) private view returns (Instruction memory made) {
        made.action = action;
        made.asset = HOUSE;
        made.stateHash = beta.currentStateHash(HOUSE);
        made.account = account;
        made.units = units;
    }

    function _makeLock(Action action, address holder, uint64 sequence) private pure returns (Instruction memory made) {
        made.action = action;
        made.asset = HOUSE;
        made.sequence = sequence;
        made.account = holder;
        made.lockTtl = action == Action.LOCK ? LOCK_TTL : 0;
    }

    function _instruct(Instruction memory made) private returns (Message memory) {
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(operator);
        alpha.instruct{value: 1 ether}(BETA, made);
        return _routed()[0];
    }

    /// @dev Whether the instruction, sent and delivered at once, was applied.
    function _apply(Instruction memory made) private returns (bool) {
        Message memory message = _instruct(made);
        _deliver(message);
        return _isExecuted(message);
    }

    function _ownerOf() private view returns (address) {
        return beta.assetOf(HOUSE).owner;
    }

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

    function test_TheOwnerChangesTheRetryWindow() external {
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
            Message memory message = _instruct(_make(Action(action), bob, 1));
            assertEq(uint8(message.kind), uint8(kinds[action]));
        }
    }

    /// @custom:requirement OIP-18, OIP-33, OIP-34
    function testFuzz_MessagesLiveAtLeastAsLongAsTheAssetAsksFor(uint32 leastTtl) external {
        vm.prank(owner);
        alpha.setLeastTtl(HOUSE, leastTtl);
        assertEq(_instruct(_make(Action.SYNC, bob, 1)).ttl, leastTtl > 1 days ? leastTtl : 1 days);
        assertEq(alpha.resolveTtl(HOUSE, 0), 0, "for ever stays for ever");
    }

    // ---------------------------------------------------------------- any instruction

    /// @custom:requirement OIP-115, OIP-128
    function testFuzz_RefusesASenderWithoutThePermission(uint8 index) external {
        Action action = Action(bound(index, 0, uint8(type(Action).max)));
        vm.prank(owner);
        beta.setPermission(ALPHA, address(alpha), action, false);
        Message memory message = _instruct(_make(action, bob, 1));
        _deliver(message);
        assertFalse(_isExecuted(message));
        bytes memory reason = abi.encodeWithSelector(AssetRegistry.NotPermitted.selector, ALPHA, address(alpha), action);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.ExecutionReverted.selector, message.id(), reason));
        _execute(message);
    }

    function test_RefusesAnUnknownAsset() external {
        Instruction memory made = _make(Action.SYNC, bob, 1);
        made.asset = "boat";
        made.stateHash = beta.currentStateHash("boat");
        assertFalse(_apply(made));
    }

    /// @custom:requirement OIP-152
    function test_WaitsForTheEndOfARollback() external {
        assertTrue(_apply(_make(Action.BEGIN_ROLLBACK, address(0), 0)));
        Message memory sync = _instruct(_make(Action.SYNC, bob, 5));
        _deliver(sync);
        assertFalse(_isExecuted(sync), "applied during the rollback");
        assertFalse(_apply(_makeLock(Action.LOCK, bob, 1)), "locked during the rollback");

        assertTrue(_apply(_make(Action.COMPLETE_ROLLBACK, eve, 7)));
        assertEq(_ownerOf(), eve, "set back");
        assertEq(beta.assetOf(HOUSE).units, 7, "set back");
        assertTrue(_apply(_make(Action.SYNC, bob, 5)), "applied after the rollback");
    }

    function test_RefusesToCompleteARollbackThatNeverBegan() external {
        assertFalse(_apply(_make(Action.COMPLETE_ROLLBACK, eve, 7)));
        assertEq(_ownerOf(), ann);
    }

    // ---------------------------------------------------------------- SYNC

    function testFuzz_AppliesASyncMadeForThePresentState(address newOwner, uint128 units) external {
        vm.assume(newOwner != address(0));
        assertTrue(_apply(_make(Action.SYNC, newOwner, units)));
        assertEq(_ownerOf(), newOwner);
        assertEq(beta.assetOf(HOUSE).units, units);
        assertEq(beta.assetOf(HOUSE).version, 2);
    }

    function test_RefusesASyncWithoutAnOwner() external {
        assertFalse(_apply(_make(Action.SYNC, address(0), 5)));
    }

    /// @custom:requirement OIP-12, OIP-155
    function test_AnOvertakenSyncChangesNothing() external {
        assertEq(_overtake(), bob);
    }

    function test_AnOvertakenSyncTurnsTheTwinWithoutStateHashesBack() external {
        _prepare(new HashlessRegistry(routers[BETA], owner, _window()));
        assertEq(_overtake(), eve);
    }

    /// @dev Two changes made for one state: the second to arrive is the older one.
    function _overtake() private returns (address) {
        Message memory older = _instruct(_make(Action.SYNC, eve, 1));
        assertTrue(_apply(_make(Action.SYNC, bob, 1)));
        _deliver(older);
        return _ownerOf();
    }

    /// @dev The same owner and amount as before are not the same state.
    function test_ASyncMadeForAnEarlierEqualStateChangesNothing() external {
        Message memory old = _instruct(_make(Action.SYNC, eve, 1));
        assertTrue(_apply(_make(Action.SYNC, bob, 5)));
        assertTrue(_apply(_make(Action.SYNC, ann, 100)), "as it was in the beginning");
        _deliver(old);
        assertFalse(_isExecuted(old));
        assertEq(_ownerOf(), ann);
    }

    function test_AFrozenAssetDoesNotMove() external {
        assertTrue(_apply(_make(Action.FREEZE, address(0), 0)));
        assertFalse(_apply(_make(Action.SYNC, bob, 1)));
        assertTrue(_apply(_make(Action.UNFREEZE, address(0), 0)));
        assertTrue(_apply(_make(Action.SYNC, bob, 1)));
    }

    function test_ALockedAssetMovesUnderItsFenceOnly() external {
        assertTrue(_apply(_makeLock(Action.LOCK, bob, 1)));
        Instruction memory made = _make(Action.SYNC, bob, 1);
        assertFalse(_apply(made), "without a fence");
        made.fence = 2;
        assertFalse(_apply(made), "with a fence of no lock");
        made.fence = 1;
        assertTrue(_apply(made), "with the lock's fence");

        vm.warp(block.timestamp + LOCK_TTL);
        made = _make(Action.SYNC, eve, 1);
        made.fence = 1;
        assertFalse(_apply(made), "under a lock that has ended");
        made.fence = 0;
        assertTrue(_apply(made), "free again");
    }

    // ---------------------------------------------------------------- regulatory actions

    function testFuzz_RegulatoryActionsAreForOneState(uint8 index, bytes32 stateHash) external {
        Instruction memory made = _make(Action(bound(index, 1, 3)), bob, 1);
        vm.assume(stateHash != made.stateHash);
        made.stateHash = stateHash;
        assertFalse(_apply(made));
        assertEq(_ownerOf(), ann);
        assertFalse(beta.assetOf(HOUSE).frozen);
    }

    function test_ASeizureStopsAtNeitherAFreezeNorALock() external {
        assertTrue(_apply(_makeLock(Action.LOCK, bob, 1)));
        assertTrue(_apply(_make(Action.FREEZE, address(0), 0)));
        assertTrue(_apply(_make(Action.SEIZE, eve, 100)));
        assertEq(_ownerOf(), eve);
        assertTrue(beta.assetOf(HOUSE).frozen, "still frozen");
    }

    // ---------------------------------------------------------------- locks

    /// @custom:requirement OIP-13
    function test_LocksAreAppliedInTheSendersOrder() external {
        (Message[3] memory messages) = _locksBackwards();
        assertFalse(_isExecuted(messages[2]), "the last came first");
        assertFalse(_isExecuted(messages[1]), "the second came second");
        assertTrue(_isExecuted(messages[0]), "the first");
        _execute(messages[1]);
        _execute(messages[2]);
        (address holder,, uint32 fence) = beta.lockOf(HOUSE);
        assertEq(holder, bob);
        assertEq(fence, 2);
    }

    function test_WithoutOrderTheTwinKeepsOutTheFirstLocker() external {
        _prepare(new UnorderedRegistry(routers[BETA], owner, _window()));
        (Message[3] memory messages) = _locksBackwards();
        assertTrue(_isExecuted(messages[2]), "the last took the lock");
        assertFalse(_isExecuted(messages[0]), "the first came too late");
    }

    /// @dev Ann locks, Ann unlocks, Bob locks; the messages arrive the other way round.
    function _locksBackwards() private returns (Message[3] memory messages) {
        messages[0] = _instruct(_makeLock(Action.LOCK, ann, 1));
        messages[1] = _instruct(_makeLock(Action.UNLOCK, ann, 2));
        messages[2] = _instruct(_makeLock(Action.LOCK, bob, 3));
        for (uint256 index = 3; index > 0; --index) {
            _deliver(messages[index - 1]);
        }
    }

    /// @dev A re-issue keeps the number of the message that it stands in for, so only one of the two counts.
    /// @custom:requirement X-7, OIP-83
    function test_OnlyOneOfAMessageAndItsReissueCounts() external {
        Message memory original = _instruct(_makeLock(Action.LOCK, ann, 1));
        assertTrue(_apply(_makeLock(Action.LOCK, ann, 1)), "the re-issue");
        _deliver(original);
        assertFalse(_isExecuted(original), "the original, late");
        (,, uint32 fence) = beta.lockOf(HOUSE);
        assertEq(fence, 1);
    }

    function test_TheOwnerSkipsALockThatNeverComes() external {
        Message memory second = _instruct(_makeLock(Action.LOCK, bob, 2));
        _deliver(second);
        assertFalse(_isExecuted(second));
        vm.prank(owner);
        beta.skip(HOUSE, 1);
        _execute(second);
        (address holder,,) = beta.lockOf(HOUSE);
        assertEq(holder, bob);
    }

    function testFuzz_RefusesALockShorterThanTheRetryWindow(uint64 lockTtl) external {
        Instruction memory made = _makeLock(Action.LOCK, bob, 1);
        made.lockTtl = uint64(bound(lockTtl, 0, beta.leastLockTtl() - 1));
        assertFalse(_apply(made));
        made.lockTtl = beta.leastLockTtl();
        assertTrue(_apply(made));
    }

    /// @custom:requirement OIP-88
    function test_ALockThatWaitsBehindAnotherIsTakenWhenThatEnds() external {
        assertTrue(_apply(_makeLock(Action.LOCK, ann, 1)));
        Message memory second = _instruct(_makeLock(Action.LOCK, bob, 2));
        _deliver(second);
        assertFalse(_isExecuted(second), "while Ann's lock holds");
        // The message outlives the lock only if its own time has not run out.
        vm.warp(block.timestamp + LOCK_TTL);
        assertTrue(_apply(_makeLock(Action.LOCK, eve, 2)), "re-issued after Ann's lock ended");
    }

    // ---------------------------------------------------------------- ATTEST

    /// @custom:requirement OIP-15, OIP-16, OIP-155
    function test_ATransactionRewrappedInAnotherMessageChangesNothing() external {
        assertEq(_rewrap(), bob);
    }

    function test_ATransactionRewrappedTurnsTheTwinWithoutAttestationsBack() external {
        _prepare(new ReplayableRegistry(routers[BETA], owner, _window()));
        assertEq(_rewrap(), eve);
    }

    /// @dev The foreign ledger's transfer to Eve counts; then the house goes to Bob; then the same transfer comes again, in a
    ///      message of its own that is made for the present state.
    function _rewrap() private returns (address) {
        Instruction memory made = _make(Action.ATTEST, eve, 1);
        made.transactionId = "canton transaction";
        assertTrue(_apply(made));
        assertTrue(_apply(_make(Action.SYNC, bob, 1)));
        made.stateHash = beta.currentStateHash(HOUSE);
        _apply(made);
        return _ownerOf();
    }

    function test_RefusesAnAttestationWithoutATransaction() external {
        assertFalse(_apply(_make(Action.ATTEST, eve, 1)));
    }
}
