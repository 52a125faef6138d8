// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource, IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {Test} from "forge-std/Test.sol";
import {Vm} from "forge-std/Vm.sol";

import {GatewayConformance} from "../../../contracts/conformance/GatewayConformance.sol";
import {RecipientConformance} from "../../../contracts/conformance/RecipientConformance.sol";
import {Fault, LoopbackGateway} from "./doubles/LoopbackGateway.sol";
import {FaultyRecipient, RecipientFault} from "./doubles/Recipients.sol";

/// @dev Forge does not run it by itself, since its constructor takes an argument.
contract FaultyGatewayTests is GatewayConformance {
    LoopbackGateway private immutable gateway;

    constructor(Fault fault) {
        gateway = new LoopbackGateway(fault);
    }

    function _gateway() internal view override returns (IERC7786GatewaySource) {
        return gateway;
    }

    function _destinationChain() internal view override returns (uint256) {
        return block.chainid;
    }

    function _deliver(Vm.Log[] memory logs) internal override {
        gateway.deliver(logs[0].topics[1]);
    }

    function _attributes() internal view override returns (bytes[] memory attributes) {
        attributes = new bytes[](1);
        attributes[0] = abi.encodeWithSelector(gateway.URGENT(), true);
    }
}

contract FaultyRecipientTests is RecipientConformance {
    FaultyRecipient private immutable recipient;
    address private immutable gateway = makeAddr("gateway");

    constructor(RecipientFault fault) {
        recipient = new FaultyRecipient(fault, gateway);
    }

    function _recipient() internal view override returns (IERC7786Recipient) {
        return recipient;
    }

    function _knownGateway() internal view override returns (address) {
        return gateway;
    }

    function _message() internal pure override returns (bytes memory, bytes memory) {
        return ("recipient", "hello");
    }
}

/// @notice Each test of the suites passes for a gateway or recipient without a fault, and fails for the one with its fault.
contract ConformanceTwinsTest is Test {
    /// @dev The test that notices each fault, by the fault's number.
    function _gatewayTests() private pure returns (bytes[12] memory) {
        return [
            abi.encodeCall(GatewayConformance.testFuzz_MessageSentSaysWhatWasSent, ("hello")),
            abi.encodeCall(GatewayConformance.test_ASendIdIsUniqueOrZero, ()),
            abi.encodeCall(
                GatewayConformance.testFuzz_AnUnsupportedAttributeIsRefusedByName, (bytes4(0x12345678), bytes(""))
            ),
            abi.encodeCall(GatewayConformance.test_AnUnsupportedAttributeIsRefusedAfterSupportedOnes, ()),
            abi.encodeCall(GatewayConformance.test_ASupportedAttributeIsTaken, ()),
            abi.encodeCall(GatewayConformance.test_ValueIsNamedOrRefused, ()),
            abi.encodeCall(GatewayConformance.test_ARecipientThatIsNoInteroperableAddressIsRefused, ()),
            abi.encodeCall(GatewayConformance.test_ARecipientInAnotherSpellingIsRefused, ()),
            abi.encodeCall(GatewayConformance.testFuzz_TheRecipientGetsWhatWasSent, ("hello")),
            abi.encodeCall(GatewayConformance.test_AMessageIsDeliveredOnce, ()),
            abi.encodeCall(GatewayConformance.test_IdenticalMessagesAreDeliveredSeparately, ()),
            abi.encodeCall(GatewayConformance.test_ARecipientThatReturnsAnotherValueIsUndone, ())
        ];
    }

    function _recipientTests() private pure returns (bytes[3] memory) {
        return [
            abi.encodeCall(RecipientConformance.test_ReturnsTheSelector, ()),
            abi.encodeCall(RecipientConformance.testFuzz_RefusesAnUnknownGateway, (address(1))),
            abi.encodeCall(RecipientConformance.test_TakesMessagesWithoutIds, ())
        ];
    }

    function test_EachFaultOfAGatewayIsNoticedByItsTest() external {
        bytes[12] memory tests = _gatewayTests();
        for (uint256 index; index < tests.length; ++index) {
            string memory number = vm.toString(index + 1);
            assertTrue(_passes(new FaultyGatewayTests(Fault.NONE), tests[index]), string.concat("no fault, ", number));
            Fault fault = Fault(index + 1);
            assertFalse(_passes(new FaultyGatewayTests(fault), tests[index]), string.concat("fault ", number));
        }
        assertEq(tests.length, uint256(type(Fault).max));
    }

    function test_EachFaultOfARecipientIsNoticedByItsTest() external {
        bytes[3] memory tests = _recipientTests();
        for (uint256 index; index < tests.length; ++index) {
            string memory number = vm.toString(index + 1);
            FaultyRecipientTests right = new FaultyRecipientTests(RecipientFault.NONE);
            assertTrue(_passes(right, tests[index]), string.concat("no fault, ", number));
            FaultyRecipientTests wrong = new FaultyRecipientTests(RecipientFault(index + 1));
            assertFalse(_passes(wrong, tests[index]), string.concat("fault ", number));
        }
        assertEq(tests.length, uint256(type(RecipientFault).max));
    }

    function _passes(Test suite, bytes memory test) private returns (bool passed) {
        vm.allowCheatcodes(address(suite));
        (passed,) = address(suite).call(test);
    }
}
