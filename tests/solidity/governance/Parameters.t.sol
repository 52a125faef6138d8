// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Parameters} from "../../../contracts/governance/Parameters.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IParameters} from "../../../contracts/interfaces/IParameters.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageLibrary} from "../../../contracts/types/Message.sol";
import {RouterFixture} from "../router/RouterFixture.sol";

/// @dev The timelock here and the governor, an account of the other chain, both rule over one set of parameters.
contract ParametersTest is RouterFixture {
    using Addresses for address;

    address internal timelock = makeAddr("timelock");
    Parameters internal parameters;

    function setUp() public override {
        super.setUp();
        onDestination();
        bytes memory governor = InteroperableAddress.formatEvmV1(HERE, alice);
        parameters = new Parameters(timelock, destination, governor, HERE, 2, GmpSet.wrap(7));
    }

    function one(bytes32 name, uint256 value) internal pure returns (bytes32[] memory names, uint256[] memory values) {
        (names, values) = (new bytes32[](1), new uint256[](1));
        (names[0], values[0]) = (name, value);
    }

    /// @dev What the governor sends to set values.
    function decision(bytes32[] memory names, uint256[] memory values) internal view returns (Message memory message) {
        message = arrivingFor(address(parameters), 1);
        message.kind = Kind.GOVERNANCE_EXECUTE;
        message.payload = abi.encode(names, values);
    }

    function expectRefusal(Message memory message, bytes memory reason) internal {
        deliver(HYPERLANE, message);
        vm.expectEmit(address(destination));
        emit IMessageReceiver.ExecutionFailed(MessageLibrary.id(message), HERE, reason);
        deliver(AXELAR, message);
    }

    /// @custom:requirement OIP-106
    function testFuzz_TheTimelockSetsEachValueUnderItsName(bytes32 first, bytes32 second, uint256[2] memory given)
        public
    {
        vm.assume(first != second);
        bytes32[] memory names = new bytes32[](2);
        uint256[] memory values = new uint256[](2);
        (names[0], names[1], values[0], values[1]) = (first, second, given[0], given[1]);
        for (uint256 index; index < 2; ++index) {
            vm.expectEmit(address(parameters));
            emit IParameters.ParameterSet(names[index], values[index]);
        }
        vm.prank(timelock);
        parameters.set(names, values);
        assertEq(parameters.valueOf(first), given[0]);
        assertEq(parameters.valueOf(second), given[1]);
    }

    function testFuzz_Revert_When_AValueWasNeverSet(bytes32 name, bytes32 other) public {
        vm.assume(name != other);
        (bytes32[] memory names, uint256[] memory values) = one(other, 0);
        vm.prank(timelock);
        parameters.set(names, values);
        assertEq(parameters.valueOf(other), 0);
        vm.expectRevert(abi.encodeWithSelector(IParameters.UnknownParameter.selector, name));
        parameters.valueOf(name);
    }

    /// @custom:requirement OIP-106
    function testFuzz_Revert_When_AnyoneButTheTimelockSets(address caller) public {
        vm.assume(caller != timelock);
        (bytes32[] memory names, uint256[] memory values) = one("dlq.alertThreshold", 1);
        vm.expectRevert(abi.encodeWithSelector(IParameters.NotGovernance.selector, caller));
        vm.prank(caller);
        parameters.set(names, values);
    }

    function testFuzz_Revert_When_AnyoneButTheRouterDelivers(address caller) public {
        vm.assume(caller != address(destination));
        bytes memory governor = parameters.governor();
        vm.expectRevert(abi.encodeWithSelector(IParameters.NotGovernance.selector, caller));
        vm.prank(caller);
        parameters.receiveMessage(0, governor, abi.encode(new bytes32[](1), new uint256[](1)));
    }

    /// @custom:requirement OIP-106
    function testFuzz_ObeysTheGovernorOnceThePolicysQuorumIsReached(bytes32 name, uint256 value) public {
        (bytes32[] memory names, uint256[] memory values) = one(name, value);
        Message memory message = decision(names, values);
        deliver(HYPERLANE, message);
        vm.expectRevert(abi.encodeWithSelector(IParameters.UnknownParameter.selector, name));
        parameters.valueOf(name);
        vm.expectEmit(address(parameters));
        emit IParameters.ParameterSet(name, value);
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
        bytes32 messageId = MessageLibrary.id(message);
        expectRefusal(message, abi.encodeWithSelector(IParameters.NotGovernanceMessage.selector, messageId));
    }

    function testFuzz_Revert_When_NamesAndValuesDifferInNumber(uint8 names, uint8 values) public {
        vm.assume(names != values);
        vm.expectRevert(abi.encodeWithSelector(IParameters.LengthsDiffer.selector, names, values));
        vm.prank(timelock);
        parameters.set(new bytes32[](names), new uint256[](values));
        bytes memory reason = abi.encodeWithSelector(IParameters.LengthsDiffer.selector, 2, 1);
        expectRefusal(decision(new bytes32[](2), new uint256[](1)), reason);
    }

    function test_DemandsTheQuorumOfItsGmpsForTheGovernorsChain() public view {
        (uint8 quorum, GmpSet gmps) = destination.policyOf(address(parameters), HERE);
        assertEq(quorum, 2);
        assertEq(GmpSet.unwrap(gmps), 7);
        assertEq(parameters.timelock(), timelock);
        assertEq(address(parameters.router()), address(destination));
    }
}
