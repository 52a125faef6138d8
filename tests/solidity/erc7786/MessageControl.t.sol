// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Lanes} from "../../../contracts/client/Lanes.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {IAttributes, IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {GmpFee, Message} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {AcceptingRecipient} from "../router/doubles/Recipients.sol";
import {GatewayChains} from "./GatewayChains.sol";

/// @dev ERC-7985's attributes, with the selectors that its text gives.
contract MessageControlTest is GatewayChains {
    bytes4 private constant CANCELLABLE = 0xde986d7f;
    bytes4 private constant DELIVER_BEFORE = 0x3e97d7ee;
    bytes4 private constant DELIVER_AFTER = 0x745910eb;
    bytes4 private constant RETRY_POLICY = 0xf002c055;
    bytes4 private constant REVERT_BEHAVIOR = 0x9e521a77;
    bytes4 private constant DEPENDS_ON = 0xa9fed7b9;
    bytes4 private constant MIN_GAS_LIMIT = 0x39f87ba1;

    uint64 private constant DEFAULT_GAS = 300_000;
    uint64 private constant MOST_GAS = 14_000_000;

    AcceptingRecipient private recipient;
    address private immutable ann = makeAddr("ann");

    function setUp() public override {
        super.setUp();
        recipient = new AcceptingRecipient();
        vm.deal(ann, 1 ether);
    }

    function _send(bytes[] memory attributes) private returns (Message memory message) {
        bytes memory to = InteroperableAddress.formatEvmV1(BETA, address(recipient));
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(ann);
        routers[ALPHA].sendMessage(to, "hello", attributes);
        return _unfunded();
    }

    function _list(bytes memory only) private pure returns (bytes[] memory attributes) {
        attributes = new bytes[](1);
        attributes[0] = only;
    }

    function _list(bytes memory first, bytes memory second) private pure returns (bytes[] memory attributes) {
        attributes = new bytes[](2);
        (attributes[0], attributes[1]) = (first, second);
    }

    // ---- minGasLimit

    function testFuzz_TheGasLimitIsAtLeastTheMinimum(uint64 gas) external {
        gas = uint64(bound(gas, 0, MOST_GAS));
        uint64 limit = _send(_list(abi.encodeWithSelector(MIN_GAS_LIMIT, gas))).gasLimit;
        assertEq(limit, gas < DEFAULT_GAS ? DEFAULT_GAS : gas);
    }

    function testFuzz_NoOtherAttributeTakesAMinimumBack(uint64 gas, uint64 other, bool isFirst, bool isMinimum)
        external
    {
        gas = uint64(bound(gas, DEFAULT_GAS, MOST_GAS));
        other = uint64(bound(other, 0, gas));
        bytes memory least = abi.encodeWithSelector(MIN_GAS_LIMIT, gas);
        bytes memory less =
            isMinimum ? abi.encodeWithSelector(MIN_GAS_LIMIT, other) : abi.encodeCall(IAttributes.gasLimit, (other));
        assertEq(_send(isFirst ? _list(least, less) : _list(less, least)).gasLimit, gas);
    }

    /// @dev A call with less leaves the recipient alone, and the message as it was.
    function test_ARecipientIsNotCalledWithLessThanTheMinimum() external {
        Message memory message = _send(_list(abi.encodeWithSelector(MIN_GAS_LIMIT, 2_000_000)));
        _pay(message);
        _bring(message, 1);
        bytes memory envelope = message.encode(message.id());
        couriers[BETA][2].bring{gas: 1_500_000}(ALPHA, envelope);
        assertFalse(_isExecuted(message), "executed with less");
        IRouter router = routers[BETA];
        vm.expectRevert(
            abi.encodeWithSelector(IMessageReceiver.InsufficientGas.selector, message.id(), uint64(2_000_000))
        );
        router.execute{gas: 2_000_000}(message);
        router.execute{gas: 2_500_000}(message);
        assertTrue(_isExecuted(message), "executed");
    }

    function testFuzz_Revert_When_TheMinimumIsAboveTheRoutersBound(uint256 gas) external {
        gas = bound(gas, uint256(MOST_GAS) + 1, type(uint256).max);
        bytes memory attribute = abi.encodeWithSelector(MIN_GAS_LIMIT, gas);
        bytes memory to = InteroperableAddress.formatEvmV1(BETA, address(recipient));
        vm.chainId(ALPHA);
        IRouter router = routers[ALPHA];
        vm.expectRevert(
            gas > type(uint64).max
                ? abi.encodeWithSelector(IProfiles.InvalidAttribute.selector, attribute)
                : abi.encodeWithSelector(IMessageSender.GasLimitTooHigh.selector, uint64(gas), MOST_GAS)
        );
        vm.prank(ann);
        router.sendMessage(to, "hello", _list(attribute));
    }

    // ---- cancellable

    function testFuzz_ASenderCancelsWhatIsCancellable(bool isPaid, bool isRetriable) external {
        Message memory message = _send(
            _list(abi.encodeWithSelector(CANCELLABLE, true), abi.encodeCall(IAttributes.retriable, (isRetriable)))
        );
        if (isPaid) _pay(message);
        _deliver(_cancel(message));
        _deliver(message);
        (, Execution end) = routers[BETA].receiptsOf(message.id());
        assertEq(uint8(end), uint8(Execution.CANCELLED));
        assertEq(recipient.received(), 0, "calls");
        if (isPaid) return;
        vm.chainId(ALPHA);
        IRouter router = routers[ALPHA];
        vm.deal(payer, 1 ether);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.AlreadyCancelled.selector, message.id()));
        vm.prank(payer);
        router.fund{value: 1 ether}(message, payer);
    }

    function test_WhatIsNotCancellableIsDelivered() external {
        Message memory message = _send(_list(abi.encodeWithSelector(CANCELLABLE, false)));
        _payAndDeliver(message);
        assertTrue(_isExecuted(message), "executed");
    }

    function _cancel(Message memory message) private returns (Message memory) {
        vm.chainId(ALPHA);
        IRouter router = routers[ALPHA];
        GmpFee[] memory gmps = Lanes.unpriced(ALL);
        for (uint256 index; index < gmps.length; ++index) {
            gmps[index].fee = FEE;
        }
        vm.recordLogs();
        vm.prank(ann);
        router.cancel{value: FEE * gmps.length}(message, 0, gmps, ann);
        return _routed()[0];
    }

    // ---- what Waybill can't honour

    /// @dev Refused even where the value asks for nothing: what is not supported must be refused, as ERC-7786 says.
    function test_Revert_When_TheDraftsOtherAttributesAreNamed() external {
        _expectUnsupported(DELIVER_BEFORE, abi.encode(0));
        _expectUnsupported(DELIVER_BEFORE, abi.encode(block.timestamp + 1 days));
        _expectUnsupported(DELIVER_AFTER, abi.encode(0));
        _expectUnsupported(DELIVER_AFTER, abi.encode(block.timestamp));
        _expectUnsupported(RETRY_POLICY, abi.encode(bytes("")));
        _expectUnsupported(RETRY_POLICY, abi.encode(abi.encodePacked(uint16(3), uint32(60), uint32(20_000))));
        for (uint256 behavior; behavior < 3; ++behavior) {
            _expectUnsupported(REVERT_BEHAVIOR, abi.encode(behavior));
        }
        _expectUnsupported(DEPENDS_ON, abi.encode(new bytes32[](0)));
        _expectUnsupported(DEPENDS_ON, abi.encode(new bytes32[](1)));
    }

    function test_SupportsAttributeTellsWhichAreHonoured() external view {
        bytes4[7] memory all =
            [CANCELLABLE, MIN_GAS_LIMIT, DELIVER_BEFORE, DELIVER_AFTER, RETRY_POLICY, REVERT_BEHAVIOR, DEPENDS_ON];
        for (uint256 index; index < all.length; ++index) {
            assertEq(routers[ALPHA].supportsAttribute(all[index]), index < 2);
        }
    }

    function _expectUnsupported(bytes4 selector, bytes memory value) private {
        bytes memory to = InteroperableAddress.formatEvmV1(BETA, address(recipient));
        vm.chainId(ALPHA);
        IRouter router = routers[ALPHA];
        vm.expectRevert(abi.encodeWithSelector(IERC7786GatewaySource.UnsupportedAttribute.selector, selector));
        vm.prank(ann);
        router.sendMessage(to, "hello", _list(bytes.concat(selector, value)));
    }
}
