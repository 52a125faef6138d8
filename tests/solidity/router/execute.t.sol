// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {RecipientCall} from "../../../contracts/RecipientCall.sol";
import {ILanePolicy} from "../../../contracts/interfaces/ILanePolicy.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {RevertingRecipient} from "./doubles/Recipients.sol";

contract ExecuteTest is RouterFixture {
    using Addresses for address;

    RevertingRecipient internal reverting;
    Message internal refused;
    bytes32 internal refusedId;

    /// @dev A message whose recipient refused it at quorum 2.
    function setUp() public override {
        super.setUp();
        reverting = new RevertingRecipient();
        refused = arrivingFor(address(reverting), 2);
        refusedId = MessageEncoding.id(refused);
        deliver(HYPERLANE, refused);
        deliver(AXELAR, refused);
    }

    function testFuzz_Revert_When_TheQuorumIsNotReached(uint8 quorum) public {
        Message memory message = arriving(uint8(bound(quorum, 2, 255)));
        deliver(WORMHOLE, message);
        vm.expectRevert(
            abi.encodeWithSelector(
                IMessageReceiver.QuorumNotReached.selector, MessageEncoding.id(message), 1, message.quorum
            )
        );
        destination.execute(message);
    }

    function testFuzz_Revert_When_AnythingOfTheMessageDiffers(bytes calldata payload, uint64 nonce) public {
        vm.assume(payload.length < 1000 && keccak256(payload) != keccak256(refused.payload));
        reverting.mend();
        Message memory altered = refused;
        (altered.payload, altered.nonce) = (payload, nonce);
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.QuorumNotReached.selector, MessageEncoding.id(altered), 0, 2)
        );
        destination.execute(altered);
    }

    function test_Revert_When_TheQuorumIsZero() public {
        Message memory message = arriving(0);
        vm.expectRevert(IMessageReceiver.ZeroQuorum.selector);
        destination.execute(message);
    }

    function testFuzz_Revert_When_TheMessageIsForAnotherChainOrRouter(uint64 chain, bytes32 router) public {
        vm.assume(chain != THERE || router != address(destination).toBytes32());
        Message memory message = arriving(1);
        (message.destinationChain, message.destinationRouter) = (chain, router);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.WrongDestination.selector, chain, router));
        destination.execute(message);
    }

    /// @dev Glacis executes what came over a route that was revoked since.
    function test_Revert_When_TheSourceRouterWasRevokedSince() public {
        reverting.mend();
        bytes32 router = address(source).toBytes32();
        vm.prank(owner);
        destination.revokePeer(HERE, router);
        vm.expectRevert(abi.encodeWithSelector(ILanePolicy.UnknownPeer.selector, HERE, router));
        destination.execute(refused);
    }

    function test_Revert_When_AGmpOfTheQuorumWasRevokedSince() public {
        reverting.mend();
        vm.prank(owner);
        destination.revokeAdapter(HYPERLANE);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.QuorumNotReached.selector, refusedId, 1, 2));
        destination.execute(refused);
    }

    function test_Revert_When_TheMessageWasExecuted() public {
        reverting.mend();
        destination.execute(refused);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.AlreadyExecuted.selector, refusedId));
        destination.execute(refused);
        assertEq(reverting.timesReceived(refusedId), 1);
    }

    function testFuzz_Revert_When_TheGasIsLessThanTheMessagesLimit(uint256 gas) public {
        reverting.mend();
        Message memory message = refused;
        gas = bound(gas, 120_000, GAS_LIMIT);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.InsufficientGas.selector, refusedId, GAS_LIMIT));
        destination.execute{gas: gas}(message);
    }

    /// @dev Twice 64/63 of the limit, what the router keeps back, and what it does before it asks: no more is wanted.
    function test_ExecutesWithNoMoreGasThanALargeLimitNeeds() public {
        Message memory message = arrivingFor(address(reverting), 2);
        message.gasLimit = 8_000_000;
        message.nonce += 1;
        deliver(HYPERLANE, message);
        deliver(AXELAR, message);
        reverting.mend();
        destination.execute{gas: (uint256(message.gasLimit) * 64 / 63 + 20_000) * 64 / 63 + 120_000}(message);
        assertEq(reverting.timesReceived(MessageEncoding.id(message)), 1);
    }

    function test_Revert_When_TheRecipientStillRefuses() public {
        bytes memory reason = abi.encodeWithSelector(RevertingRecipient.NotYet.selector, refusedId);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.ExecutionReverted.selector, refusedId, reason));
        destination.execute(refused);
        (GmpSet receipts, Execution execution) = destination.receiptsOf(refusedId);
        assertEq(GmpSet.unwrap(receipts), 3);
        assertEq(uint8(execution), uint8(Execution.NONE));
    }

    function testFuzz_AnyoneMayExecuteOnceTheRecipientIsMended(address caller) public {
        reverting.mend();
        vm.expectEmit(address(destination));
        emit IMessageReceiver.MessageExecuted(refusedId, HERE, address(reverting), keccak256(refused.payload));
        vm.prank(caller);
        destination.execute(refused);
        assertEq(reverting.lastPayload(), refused.payload);
        (uint64 count, uint192 sum) = destination.executedFrom(HERE);
        assertEq(count, 1);
        assertEq(sum, uint192(uint256(refusedId)));
        (GmpSet receipts,) = destination.receiptsOf(refusedId);
        assertEq(GmpSet.unwrap(receipts), 3, "an execution is no receipt");
    }

    function test_ALateReceiptOfAnotherGmpExecutesWhatFailedBefore() public {
        reverting.mend();
        deliver(WORMHOLE, refused);
        assertEq(reverting.timesReceived(refusedId), 1);
    }

    function test_ExecutesWithMoreReceiptsThanTheQuorumAsksFor() public {
        deliver(WORMHOLE, refused);
        reverting.mend();
        destination.execute(refused);
        assertEq(reverting.timesReceived(refusedId), 1);
    }

    function testFuzz_Revert_When_AnyoneButTheRouterCallsItsFrame(address caller, bytes calldata data) public {
        vm.assume(caller != address(destination));
        vm.expectRevert(IMessageReceiver.OnlySelf.selector);
        vm.prank(caller);
        RecipientCall(address(destination)).callFrame(address(reverting), 0, data);
    }

    function testFuzz_TheFrameCallsNobodyWithLessGasThanTheMessageAsksFor(uint64 gasLimit) public {
        gasLimit = uint64(bound(gasLimit, 1_000_000, type(uint64).max));
        vm.expectCall(address(reverting), "", 0);
        vm.prank(address(destination));
        assertFalse(RecipientCall(address(destination)).callFrame{gas: 900_000}(address(reverting), gasLimit, ""));
    }

    /// @dev With less than the frame keeps for itself, nothing is left for a recipient, however little its message asks for.
    function test_TheFrameCallsNobodyWithoutGasForItself() public {
        vm.expectCall(address(reverting), "", 0);
        vm.prank(address(destination));
        assertFalse(RecipientCall(address(destination)).callFrame{gas: 5_000}(address(reverting), 0, ""));
    }
}
