// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Parameters} from "../../../contracts/governance/Parameters.sol";
import {IOwnable} from "../../../contracts/interfaces/IOwnable.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IParameters} from "../../../contracts/interfaces/IParameters.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {RouterFixture} from "../router/RouterFixture.sol";

/// @dev The timelock here and the governor, an account of the other chain, both rule over one set of parameters.
contract ParametersTest is RouterFixture {
    using Addresses for address;

    address internal timelock = makeAddr("timelock");
    Parameters internal parameters;

    function setUp() public override {
        super.setUp();
        onDestination();
        parameters = new Parameters(timelock, destination, HERE, alice, 2, GmpSet.wrap(7));
    }

    function one(bytes32 name, uint256 value) internal pure returns (bytes32[] memory names, uint256[] memory values) {
        (names, values) = (new bytes32[](1), new uint256[](1));
        (names[0], values[0]) = (name, value);
    }

    /// @dev What the governor sends to set values.
    function decision(bytes32[] memory names, uint256[] memory values) internal view returns (Message memory) {
        return change(1, names, values);
    }

    function change(uint64 number, bytes32[] memory names, uint256[] memory values)
        internal
        view
        returns (Message memory message)
    {
        message = arrivingFor(address(parameters), 1);
        message.kind = Kind.GOVERNANCE_EXECUTE;
        message.nonce = number;
        message.payload = abi.encode(number, names, values);
    }

    /// @dev Both GMPs deliver, so that the policy's quorum is there.
    function deliverWhole(Message memory message) internal {
        deliver(HYPERLANE, message);
        deliver(AXELAR, message);
    }

    function expectRefusal(Message memory message, bytes memory reason) internal {
        deliver(HYPERLANE, message);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.ExecutionFailed(MessageEncoding.id(message), HERE, reason);
        deliver(AXELAR, message);
    }

    function testFuzz_TheTimelockSetsEachValueUnderItsName(bytes32 first, bytes32 second, uint256[2] memory given)
        public
    {
        vm.assume(first != second);
        bytes32[] memory names = new bytes32[](2);
        uint256[] memory values = new uint256[](2);
        (names[0], names[1], values[0], values[1]) = (first, second, given[0], given[1]);
        for (uint256 index; index < 2; ++index) {
            vm.expectEmit(address(parameters));
            emit IParameters.ParameterSet(names[index], values[index], 1);
        }
        vm.prank(timelock);
        parameters.set(1, names, values);
        assertEq(parameters.valueOf(first), given[0]);
        assertEq(parameters.valueOf(second), given[1]);
    }

    function testFuzz_Revert_When_AValueWasNeverSet(bytes32 name, bytes32 other) public {
        vm.assume(name != other);
        (bytes32[] memory names, uint256[] memory values) = one(other, 0);
        vm.prank(timelock);
        parameters.set(1, names, values);
        assertEq(parameters.valueOf(other), 0);
        vm.expectRevert(abi.encodeWithSelector(IParameters.UnknownParameter.selector, name));
        parameters.valueOf(name);
    }

    function testFuzz_Revert_When_AnyoneButTheTimelockSets(address caller) public {
        vm.assume(caller != timelock);
        (bytes32[] memory names, uint256[] memory values) = one("dlq.alertThreshold", 1);
        vm.expectRevert(abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, caller));
        vm.prank(caller);
        parameters.set(1, names, values);
    }

    function testFuzz_Revert_When_AnyoneButTheRouterDelivers(address caller) public {
        vm.assume(caller != address(destination));
        bytes memory governor = parameters.governor();
        vm.expectRevert(abi.encodeWithSelector(IParameters.NotRouter.selector, caller));
        vm.prank(caller);
        parameters.receiveMessage(0, governor, abi.encode(1, new bytes32[](1), new uint256[](1)));
    }

    function testFuzz_ObeysTheGovernorOnceThePolicysQuorumIsReached(bytes32 name, uint256 value) public {
        (bytes32[] memory names, uint256[] memory values) = one(name, value);
        Message memory message = decision(names, values);
        deliver(HYPERLANE, message);
        vm.expectRevert(abi.encodeWithSelector(IParameters.UnknownParameter.selector, name));
        parameters.valueOf(name);
        vm.expectEmit(address(parameters));
        emit IParameters.ParameterSet(name, value, 1);
        deliver(AXELAR, message);
        assertEq(parameters.valueOf(name), value);
    }

    function testFuzz_RefusesAnotherSender(address sender) public {
        vm.assume(sender != alice);
        (bytes32[] memory names, uint256[] memory values) = one("dlq.alertThreshold", 7);
        Message memory message = decision(names, values);
        message.sender = sender.toBytes32();
        bytes memory stranger = InteroperableAddress.formatEvmV1(HERE, sender);
        expectRefusal(message, abi.encodeWithSelector(IParameters.NotGovernor.selector, stranger));
    }

    function testFuzz_RefusesAnyOtherKind(uint8 kind) public {
        kind = uint8(bound(kind, 0, uint8(Kind.GOVERNANCE_EXECUTE)));
        vm.assume(Kind(kind) != Kind.GOVERNANCE_EXECUTE);
        (bytes32[] memory names, uint256[] memory values) = one("dlq.alertThreshold", 7);
        Message memory message = decision(names, values);
        message.kind = Kind(kind);
        bytes32 messageId = MessageEncoding.id(message);
        expectRefusal(message, abi.encodeWithSelector(IParameters.NotGovernanceMessage.selector, messageId));
    }

    function testFuzz_Revert_When_NamesAndValuesDifferInNumber(uint8 names, uint8 values) public {
        vm.assume(names != values);
        vm.expectRevert(abi.encodeWithSelector(IParameters.LengthsDiffer.selector, names, values));
        vm.prank(timelock);
        parameters.set(1, new bytes32[](names), new uint256[](values));
        bytes memory reason = abi.encodeWithSelector(IParameters.LengthsDiffer.selector, 2, 1);
        expectRefusal(decision(new bytes32[](2), new uint256[](1)), reason);
    }

    function test_DemandsTheQuorumOfItsGmpsForTheGovernorsChain() public view {
        (uint8 quorum, GmpSet gmps) = destination.policyOf(address(parameters), HERE);
        assertEq(quorum, 2);
        assertEq(GmpSet.unwrap(gmps), 7);
        assertEq(parameters.owner(), timelock);
        assertEq(address(parameters.router()), address(destination));
    }

    // ---- order

    /// @dev A stranger delivers the grant with little gas, waits for the revocation, and executes the grant then.
    function test_AGrantThatWasHeldUpDoesNotUndoTheRevocationThatFollowedIt() public {
        (bytes32[] memory names, uint256[] memory granted) = one("dlq.operator", 1);
        (, uint256[] memory revoked) = one("dlq.operator", 0);
        Message memory grant = change(1, names, granted);
        deliver(HYPERLANE, grant);
        bytes memory envelope = envelopeOf(grant);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.ExecutionDeferred(MessageEncoding.id(grant), HERE, GAS_LIMIT);
        inbound[AXELAR].deliver{gas: 200_000}(destination, HERE, envelope);
        deliverWhole(change(2, names, revoked));
        vm.expectEmit(address(parameters));
        emit IParameters.ChangeSuperseded("dlq.operator", 1, 1, 2);
        vm.prank(stranger);
        destination.execute(grant);
        assertEq(parameters.valueOf("dlq.operator"), 0, "the grant undid the revocation");
    }

    /// @dev Whatever is held up, the values end as if all had arrived in order, and no change of another parameter is lost.
    function testFuzz_TheValuesAreTheSameInWhateverOrderChangesArrive(uint256 seed) public {
        bytes32[2] memory names = [bytes32("first"), "second"];
        uint8[6] memory order = [1, 2, 3, 4, 5, 6];
        for (uint256 left = 6; left > 1; --left) {
            uint256 drawn = uint256(keccak256(abi.encode(seed, left))) % left;
            (order[left - 1], order[drawn]) = (order[drawn], order[left - 1]);
        }
        for (uint256 index; index < 6; ++index) {
            (bytes32[] memory named, uint256[] memory values) = one(names[order[index] % 2], 100 + order[index]);
            deliverWhole(change(order[index], named, values));
        }
        assertEq(parameters.valueOf("first"), 106);
        assertEq(parameters.numberOf("first"), 6);
        assertEq(parameters.valueOf("second"), 105);
        assertEq(parameters.numberOf("second"), 5);
    }

    /// @dev Both who may decide share one count, so that the timelock can overtake what the governor has under way.
    function test_TheTimelockOvertakesAMessageUnderWay() public {
        (bytes32[] memory names, uint256[] memory values) = one("dlq.operator", 0);
        (, uint256[] memory granted) = one("dlq.operator", 1);
        vm.prank(timelock);
        parameters.set(2, names, values);
        deliverWhole(change(1, names, granted));
        assertEq(parameters.valueOf("dlq.operator"), 0);
    }

    /// @dev A governor that used up all numbers made the parameter its own for ever.
    function test_NoNumberOfTheGovernorLocksTheTimelockOut() public {
        (bytes32[] memory names, uint256[] memory values) = one("dlq.operator", 1);
        deliverWhole(change(type(uint64).max, names, values));
        (, uint256[] memory revoked) = one("dlq.operator", 0);
        vm.prank(timelock);
        parameters.set(1, names, revoked);
        assertEq(parameters.valueOf("dlq.operator"), 0);
    }

    function test_Revert_When_AChangeHasNoNumber() public {
        (bytes32[] memory names, uint256[] memory values) = one("dlq.operator", 0);
        vm.expectRevert(IParameters.ZeroNumber.selector);
        vm.prank(timelock);
        parameters.set(0, names, values);
        expectRefusal(change(0, names, values), abi.encodeWithSelector(IParameters.ZeroNumber.selector));
    }

    // ---- who decides

    function test_TheTimelockNamesAnotherGovernorAndAsksForOtherReceipts() public {
        (bytes32[] memory names, uint256[] memory values) = one("dlq.alertThreshold", 7);
        vm.expectEmit(address(parameters));
        emit IParameters.GovernorSet(HERE, stranger, 1, GmpSet.wrap(4));
        vm.prank(timelock);
        parameters.setGovernor(HERE, stranger, 1, GmpSet.wrap(4));
        Message memory message = change(1, names, values);
        bytes memory previous = InteroperableAddress.formatEvmV1(HERE, alice);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.ExecutionFailed(
            MessageEncoding.id(message), HERE, abi.encodeWithSelector(IParameters.NotGovernor.selector, previous)
        );
        deliver(WORMHOLE, message);
        message.sender = stranger.toBytes32();
        deliver(WORMHOLE, message);
        assertEq(parameters.valueOf("dlq.alertThreshold"), 7);
    }

    function testFuzz_Revert_When_AGovernorIsNobodyOrNeedsNoReceipt(uint64 chain, uint8 quorum) public {
        vm.expectRevert(abi.encodeWithSelector(IParameters.InvalidGovernor.selector, chain, address(0), quorum));
        vm.prank(timelock);
        parameters.setGovernor(chain, address(0), quorum, GmpSet.wrap(7));
        vm.expectRevert(abi.encodeWithSelector(IParameters.InvalidGovernor.selector, chain, alice, 0));
        vm.prank(timelock);
        parameters.setGovernor(chain, alice, 0, GmpSet.wrap(0));
    }

    function testFuzz_Revert_When_AnyoneButTheTimelockNamesAGovernor(address caller) public {
        vm.assume(caller != timelock);
        vm.expectRevert(abi.encodeWithSelector(IOwnable.OwnableUnauthorizedAccount.selector, caller));
        vm.prank(caller);
        parameters.setGovernor(HERE, caller, 1, GmpSet.wrap(7));
    }

    function test_AnotherTimelockDecidesOnceItHasAccepted() public {
        (bytes32[] memory names, uint256[] memory values) = one("dlq.alertThreshold", 7);
        vm.prank(timelock);
        parameters.transferOwnership(alice);
        vm.prank(alice);
        parameters.acceptOwnership();
        vm.prank(alice);
        parameters.set(1, names, values);
        assertEq(parameters.valueOf("dlq.alertThreshold"), 7);
        vm.expectRevert(IParameters.RenouncingDisabled.selector);
        vm.prank(alice);
        parameters.renounceOwnership();
    }
}
