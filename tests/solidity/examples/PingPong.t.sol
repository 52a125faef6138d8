// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";

import {PingPong} from "../../../contracts/examples/PingPong.sol";
import {Lanes} from "../../../contracts/client/Lanes.sol";
import {Message, Retry} from "../../../contracts/types/Message.sol";
import {CourierChains} from "../client/CourierChains.sol";

contract PingPongTest is CourierChains {
    PingPong private alpha;
    PingPong private beta;
    address private immutable player = makeAddr("player");

    function setUp() public override {
        super.setUp();
        alpha = new PingPong(routers[ALPHA], owner);
        beta = new PingPong(routers[BETA], owner);
        _allow(alpha, BETA, address(beta), 2, ALL);
        _allow(beta, ALPHA, address(alpha), 2, ALL);
        vm.startPrank(owner);
        alpha.setLane(_lane(BETA, address(beta)));
        beta.setLane(_lane(ALPHA, address(alpha)));
        vm.stopPrank();
        vm.deal(player, 1 ether);
    }

    function _serve(uint8 returns_) private returns (Message memory) {
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(player);
        alpha.serve{value: 0.1 ether}(BETA, returns_);
        return _routed()[0];
    }

    function testFuzz_RevertWhen_SomebodyElseThanTheOwnerSetsALane(address caller) external {
        vm.assume(caller != owner);
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, caller));
        vm.prank(caller);
        alpha.setLane(_lane(BETA, caller));
        vm.expectEmit(address(alpha));
        emit PingPong.LaneSet(BETA, caller);
        vm.prank(owner);
        alpha.setLane(_lane(BETA, caller));
    }

    function testFuzz_RevertWhen_TheGameIsTooLong(uint8 returns_) external {
        returns_ = uint8(bound(returns_, alpha.MOST_RETURNS() + 1, type(uint8).max));
        vm.expectRevert(abi.encodeWithSelector(PingPong.TooManyReturns.selector, returns_, alpha.MOST_RETURNS()));
        alpha.serve(BETA, returns_);
    }

    function test_ServingCostsTheFees() external {
        _serve(0);
        assertEq(player.balance, 1 ether - 3 * FEE);
        assertEq(address(alpha).balance, 0);
    }

    function testFuzz_TheBallIsReturnedAsOftenAsAsked(uint8 returns_) external {
        returns_ = uint8(bound(returns_, 0, alpha.MOST_RETURNS()));
        vm.deal(address(alpha), 1 ether);
        vm.deal(address(beta), 1 ether);
        vm.expectEmit(true, false, false, false, address(alpha));
        emit PingPong.BallPlayed(BETA, returns_, 0);
        Message memory ball = _serve(returns_);
        for (uint256 played; played < returns_; ++played) {
            vm.recordLogs();
            _deliver(ball);
            assertTrue(_isExecuted(ball), "received");
            ball = _routed()[0];
        }
        vm.recordLogs();
        _bring(ball, 1);
        vm.expectEmit(returns_ % 2 == 0 ? address(beta) : address(alpha));
        emit PingPong.BallReceived(returns_ % 2 == 0 ? ALPHA : BETA, 0, ball.id());
        _bring(ball, 2);
        assertTrue(_isExecuted(ball), "received");
        assertEq(_routed().length, 0, "the game is over");
        assertEq(beta.received(ALPHA) + alpha.received(BETA), uint256(returns_) + 1);
    }

    function test_ARetrierPlaysALostBallAgain() external {
        Message memory ball = _serve(0);
        vm.prank(owner);
        alpha.setRetrier(player, true);
        (Retry memory again, uint256 fees) = Lanes.retryOf(routers[ALPHA], ball, ALL, player);
        vm.prank(player);
        assertEq(alpha.retry{value: fees}(again), 1, "attempt");
        _deliver(ball);
        assertEq(beta.received(ALPHA), 1);
    }

    function test_TheBallWaitsWhenThereIsNoMoneyToReturnIt() external {
        Message memory ball = _serve(1);
        _deliver(ball);
        assertFalse(_isExecuted(ball), "received without money");
        assertEq(beta.received(ALPHA), 0);

        (bool paid,) = address(beta).call{value: 1 ether}("");
        assertTrue(paid);
        vm.recordLogs();
        _execute(ball);
        assertEq(_routed().length, 1, "returned");
        assertEq(address(beta).balance, 1 ether - 3 * FEE);
    }
}
