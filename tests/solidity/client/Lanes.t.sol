// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Lane, Lanes} from "../../../contracts/client/Lanes.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, Retry, Route} from "../../../contracts/types/Message.sol";
import {CourierChains} from "./CourierChains.sol";
import {PlainClient} from "./doubles/Clients.sol";

contract LanesTest is CourierChains {
    address private immutable user = makeAddr("user");
    PlainClient private client;

    function setUp() public override {
        super.setUp();
        client = new PlainClient(routers[ALPHA], owner);
        vm.deal(user, 10 ether);
        vm.chainId(ALPHA);
    }

    function test_RevertWhen_TheLaneHasNoRecipient() external {
        Lane memory lane = _lane(BETA, address(0));
        vm.expectRevert(abi.encodeWithSelector(Lanes.UnknownLane.selector, BETA));
        vm.prank(user);
        client.send{value: 1 ether}(lane, "hello");
    }

    function testFuzz_RequestCarriesTheLanesSettings(Lane memory lane, uint8 kind, bytes calldata payload)
        external
        pure
    {
        vm.assume(lane.recipient != address(0));
        Kind chosen = Kind(bound(kind, 0, uint8(type(Kind).max)));
        Route memory made = lane.request(chosen, payload, address(7));
        assertEq(made.destinationChain, lane.chain);
        assertEq(made.recipient, bytes32(uint256(uint160(lane.recipient))));
        assertEq(made.payload, payload);
        assertEq(made.gasLimit, lane.gasLimit);
        assertEq(made.ttl, chosen == Kind.REGULATORY_ACTION_CRITICAL ? 0 : lane.ttl);
        assertEq(uint8(made.kind), uint8(chosen));
        assertEq(made.quorum, lane.quorum);
        assertEq(made.replaces, 0);
        assertTrue(made.retriable);
        assertEq(made.minDispatched, lane.quorum);
        assertEq(made.refundTo, address(7));
        assertEq(made.gmps.length, lane.gmps.count());
    }

    function testFuzz_UnpricedListsEachMemberOnceAscending(uint16 bits) external pure {
        GmpFee[] memory fees = Lanes.unpriced(GmpSet.wrap(bits));
        uint16 seen;
        uint8 last;
        for (uint256 index; index < fees.length; ++index) {
            assertGt(Gmp.unwrap(fees[index].gmp), last, "ascending");
            last = Gmp.unwrap(fees[index].gmp);
            seen |= uint16(1 << (last - 1));
            assertEq(fees[index].fee, 0);
        }
        assertEq(seen, bits);
    }

    function testFuzz_RevertWhen_TheValueIsBelowTheFees(uint256 value) external {
        value = bound(value, 0, 3 * FEE - 1);
        vm.expectRevert(abi.encodeWithSelector(Lanes.ValueBelowFees.selector, value, 3 * FEE));
        vm.prank(user);
        client.send{value: value}(_lane(BETA, address(9)), "hello");
    }

    function testFuzz_SendUsesTheQuoteAndGivesTheRestBack(uint256 surplus) external {
        surplus = bound(surplus, 0, 5 ether);
        vm.prank(user);
        client.send{value: 3 * FEE + surplus}(_lane(BETA, address(9)), "hello");
        assertEq(user.balance, 10 ether - 3 * FEE, "the user paid the fees");
        assertEq(address(client).balance, 0, "the client kept nothing");
        assertEq(couriers[ALPHA][1].taken(), 1);
    }

    function test_AGmpThatAsksForMoreThanTheLaneAllowsIsLeftOut() external {
        Lane memory lane = _lane(BETA, address(9));
        lane.maxFeeGwei = uint40(FEE / 1 gwei);
        couriers[ALPHA][2].setFee(FEE + 1);
        vm.prank(user);
        client.send{value: 3 * FEE}(lane, "hello");
        assertEq(user.balance, 10 ether - 2 * FEE, "the user paid two fees");
        assertEq(couriers[ALPHA][2].taken(), 0);
        couriers[ALPHA][2].setFee(type(uint256).max);
        lane.maxFeeGwei = 0;
        vm.prank(user);
        client.send{value: 3 * FEE}(lane, "hello");
        assertEq(couriers[ALPHA][1].taken(), 2);
    }

    function testFuzz_ADappWithThreeGmpsKeepsSendingOverTwo(uint8 number, bool paused) external {
        Gmp gmp = Gmp.wrap(uint8(bound(number, 1, 3)));
        vm.startPrank(owner);
        if (paused) routers[ALPHA].pauseGmp(gmp, uint48(block.timestamp + 1 hours));
        else routers[ALPHA].revokeAdapter(gmp);
        vm.stopPrank();
        vm.prank(user);
        client.send{value: 3 * FEE}(_lane(BETA, address(9)), "hello");
        assertEq(user.balance, 10 ether - 2 * FEE, "the user paid two fees");
        for (uint8 courier = 1; courier <= 3; ++courier) {
            assertEq(couriers[ALPHA][courier].taken(), courier == Gmp.unwrap(gmp) ? 0 : 1);
        }
    }

    function test_RetryOfNamesTheMessageAndTodaysFees() external {
        vm.recordLogs();
        vm.prank(user);
        client.send{value: 1 ether}(_lane(BETA, address(9)), "hello");
        Message memory message = _routed()[0];
        (Retry memory again, uint256 fees) = Lanes.retryOf(routers[ALPHA], message, GmpSet.wrap(5), user);
        assertEq(fees, 2 * FEE);
        assertEq(again.messageId, message.id());
        assertEq(again.minDispatched, 1);
        assertEq(again.refundTo, user);
        assertEq(again.gmps.length, 2);
        assertEq(again.gmps[0].fee, FEE);
        assertEq(Gmp.unwrap(again.gmps[1].gmp), 3);
    }
}
