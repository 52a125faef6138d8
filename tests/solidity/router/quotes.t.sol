// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRouterViews} from "../../../contracts/interfaces/IRouterViews.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {Gmp, InvalidGmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, Route} from "../../../contracts/types/Message.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {FailingAdapter, MuteAdapter} from "./doubles/Adapters.sol";

contract QuotesTest is RouterFixture {
    function testFuzz_NamesEachGmpsFeeInTheOrderAskedAndTheirSum(uint64[3] calldata fees, uint8 first) public {
        GmpFee[] memory asked = firstGmps(3);
        for (uint8 index; index < 3; ++index) {
            asked[index].gmp = Gmp.wrap((index + first % 3) % 3 + 1);
            outbound[asked[index].gmp].setFee(fees[index]);
        }
        Route memory request = usualRoute(3, 2);
        request.gmps = asked;
        (uint256 total, GmpFee[] memory quoted) = source.quoteRoute(request);
        assertEq(total, uint256(fees[0]) + fees[1] + fees[2]);
        for (uint256 index; index < 3; ++index) {
            assertTrue(quoted[index].gmp == asked[index].gmp);
            assertEq(quoted[index].fee, fees[index]);
        }
        request.gmps = quoted;
        (Message memory message,) = send(request);
        (uint256 again, GmpFee[] memory retry) = source.quoteRetry(message, asked);
        assertEq(again, total);
        assertEq(keccak256(abi.encode(retry)), keccak256(abi.encode(quoted)));
    }

    function test_Revert_When_FewerGmpsThanMinDispatchedCanTell() public {
        install(AXELAR, new FailingAdapter());
        bytes memory reason = abi.encodeWithSelector(FailingAdapter.GmpIsDown.selector);
        Route memory request = usualRoute(2, 1);
        request.minDispatched = 0;
        vm.expectRevert(tooFew(1, 2, oneGmp(AXELAR), reason));
        source.quoteRoute(request);
        (request.gmps, request.minDispatched) = (oneGmp(AXELAR), 1);
        vm.expectRevert(tooFew(0, 1, oneGmp(AXELAR), reason));
        source.quoteRoute(request);
        (Message memory message,) = send(usualRoute(1, 1));
        vm.expectRevert(tooFew(0, 1, oneGmp(AXELAR), reason));
        source.quoteRetry(message, oneGmp(AXELAR));
    }

    /// @dev What is quoted can be sent, with one GMP paused, revoked or unable to tell.
    function testFuzz_AGmpThatCannotTellIsQuotedNothing(uint8 how, uint64 fee) public {
        outbound[HYPERLANE].setFee(fee);
        outbound[WORMHOLE].setFee(fee);
        outbound[AXELAR].setFee(7);
        how %= 4;
        vm.startPrank(owner);
        if (how == 0) source.pauseGmp(AXELAR, uint48(block.timestamp + 1 hours));
        else if (how == 1) source.revokeAdapter(AXELAR);
        else source.replaceAdapter(AXELAR, how == 2 ? address(new FailingAdapter()) : address(new MuteAdapter()));
        vm.stopPrank();
        Route memory request = usualRoute(3, 2);
        request.minDispatched = 2;
        uint256 total;
        (total, request.gmps) = source.quoteRoute(request);
        assertEq(total, 2 * uint256(fee));
        assertEq(request.gmps[1].fee, 0);
        (Message memory message,) = send(request);
        assertEq(outbound[WORMHOLE].dispatches(), 1);
        (total,) = source.quoteRetry(message, request.gmps);
        assertEq(total, 2 * uint256(fee));
    }

    /// @dev The sum overflowed, or could be paid by nobody.
    function testFuzz_AnAbsurdQuoteStopsNoOther(uint256 absurd) public {
        outbound[HYPERLANE].setFee(3);
        outbound[AXELAR].setFee(bound(absurd, uint256(type(uint40).max) * 1 gwei + 1, type(uint256).max));
        outbound[WORMHOLE].setFee(4);
        (uint256 total, GmpFee[] memory fees) = source.quoteRoute(usualRoute(3, 2));
        assertEq(total, 7);
        assertEq(fees[1].fee, 0);
    }

    /// @dev One fault had one name in `route` and another here.
    function test_AQuoteRefusesAsRouteDoes() public {
        Route memory request = usualRoute(0, 1);
        vm.expectRevert(IMessageSender.NoGmps.selector);
        source.quoteRoute(request);
        vm.expectRevert(IMessageSender.NoGmps.selector);
        source.route(request);
        request = usualRoute(1, 1);
        for (uint16 number; number <= 255; ++number) {
            if (number > 0 && number < 4) continue;
            request.gmps[0].gmp = Gmp.wrap(uint8(number));
            bytes memory none = abi.encodeWithSelector(IMessageSender.GmpNotEnabled.selector, request.gmps[0].gmp);
            bool isGmp = number > 0 && number < 17;
            bytes memory reason =
                isGmp ? tooFew(0, 1, request.gmps, none) : abi.encodeWithSelector(InvalidGmp.selector, number);
            vm.expectRevert(reason);
            source.quoteRoute(request);
            vm.expectRevert(reason);
            source.route(request);
        }
    }

    function test_Revert_When_TheMessageCouldNotBeSent() public {
        Route memory request = usualRoute(1, 1);
        (request.ttl, request.kind) = (0, Kind.QUERY);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.TtlRequired.selector, Kind.QUERY));
        source.quoteRoute(request);
    }

    function testFuzz_Revert_When_AQuoteIsAskedOfAGmpWithoutAdapter(uint8 number) public {
        Route memory request = usualRoute(1, 1);
        request.gmps[0].gmp = Gmp.wrap(uint8(bound(number, 4, 16)));
        vm.expectRevert(
            tooFew(
                0, 1, request.gmps, abi.encodeWithSelector(IMessageSender.GmpNotEnabled.selector, request.gmps[0].gmp)
            )
        );
        source.quoteRoute(request);
    }

    function testFuzz_Revert_When_ThePayloadIsAboveTheCap(uint256 length) public {
        Route memory request = usualRoute(1, 1);
        request.payload = new bytes(bound(length, 32_769, 60_000));
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.PayloadTooLong.selector, request.payload.length, 32_768));
        vm.prank(alice);
        source.route(request);
    }

    function test_APayloadAtTheCapIsSentAndExecuted() public {
        Route memory request = usualRoute(2, 2);
        request.payload = new bytes(32_768);
        request.gasLimit = 14_000_000;
        (Message memory message, bytes32 messageId) = send(request);
        deliver(HYPERLANE, message);
        deliver(AXELAR, message);
        assertEq(recipient.timesReceived(messageId), 1);
    }

    function testFuzz_Revert_When_MoneyComesWithoutAMessage(uint64 value) public {
        vm.expectRevert(abi.encodeWithSelector(IRouterViews.UnexpectedValue.selector, value));
        vm.deal(address(this), value);
        (bool success,) = address(source).call{value: value}("");
        success;
    }

    function test_Revert_When_AFunctionDoesNotExist() public {
        (bool success, bytes memory answer) = address(source).call(abi.encodeWithSignature("mint(address)", alice));
        assertFalse(success);
        assertEq(answer.length, 0);
    }
}
