// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {CrosschainLinked} from "@openzeppelin/contracts/crosschain/CrosschainLinked.sol";
import {BridgeERC20} from "@openzeppelin/contracts/crosschain/bridges/BridgeERC20.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";
import {Vm} from "forge-std/Vm.sol";

import {Lane, Lanes} from "../../../contracts/client/Lanes.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {WaybillFixture} from "../../../contracts/testing/WaybillFixture.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, Retry, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {DeliveryChoice, Idempotency, Profile, Semantics} from "../../../contracts/types/Profile.sol";
import {Courier} from "./Courier.sol";
import {ForgetfulTicketOffice, TicketOffice} from "./TicketOffice.sol";

contract Token is ERC20("Token", "T") {
    constructor(address holder) {
        _mint(holder, 1000);
    }
}

contract TokenBridge is BridgeERC20 {
    constructor(IERC20 token, Link[] memory links) BridgeERC20(token) CrosschainLinked(links) {}
}

/// @notice What docs/recipes.md and the README show, played. Their code stands here or in {Courier}.
contract RecipesTest is WaybillFixture {
    GmpSet private constant ALL = GmpSet.wrap(7);
    address private immutable ann = makeAddr("ann");

    Courier private here;
    Courier private there;

    function setUp() public {
        setUpWaybill();
        here = new Courier(sourceRouter, address(this));
        there = new Courier(destinationRouter, address(this));
        here.setLane(
            Lane({
                chain: DESTINATION_CHAIN,
                recipient: address(there),
                gasLimit: 200_000,
                ttl: 1 days,
                quorum: 2,
                gmps: HYPERLANE.toSet().with(AXELAR),
                maxFeeGwei: 0
            })
        );
        there.allowRoute(SOURCE_CHAIN, address(here), 2, ALL);
        vm.deal(ann, 10 ether);
    }

    function _send(string memory text) private returns (bytes32 id) {
        vm.prank(ann);
        return here.send{value: 3 ether}(text);
    }

    function test_TheValueIsTheCapAndTheRestComesBack() external {
        setFee(HYPERLANE, 1 ether);
        setFee(AXELAR, 1 ether);
        _send("hello");
        assertEq(ann.balance, 8 ether);

        setFee(AXELAR, 5 ether);
        vm.expectRevert(abi.encodeWithSelector(Lanes.ValueBelowFees.selector, 3 ether, 6 ether));
        _send("too dear");
        assertEq(ann.balance, 8 ether);
    }

    function test_AContractRetriesForWhoeverPaid() external {
        bytes32 id = _send("hello");
        deliver(id, HYPERLANE);
        setFee(WORMHOLE, 1 ether);
        Message memory message = messageOf(id);

        vm.expectRevert(abi.encodeWithSelector(Courier.NotYours.selector, id));
        here.sendAgain(message, WORMHOLE.toSet());

        vm.prank(ann);
        here.sendAgain{value: 4 ether}(message, WORMHOLE.toSet());
        assertEq(ann.balance, 9 ether);
        deliver(id, WORMHOLE);
        assertExecuted(id);
        deliver(id, AXELAR); // a late duplicate
        assertEq(there.texts(0), "hello");
        vm.expectRevert();
        there.texts(1);
    }

    function test_ARefundWaitsForTheDestinationsReport() external {
        bytes32 id = _send("hello");
        Message memory message = messageOf(id);
        vm.warp(block.timestamp + 2 days);
        vm.expectRevert(abi.encodeWithSelector(Courier.NotRefundable.selector, id, Execution.NONE));
        vm.prank(ann);
        here.settle(id);

        onDestination();
        destinationRouter.expire(message);
        bytes32 reportId = destinationRouter.report(message, 1, quoted(HYPERLANE, AXELAR), address(this));
        onSource();
        deliver(reportId, HYPERLANE);
        deliver(reportId, AXELAR);
        vm.prank(ann);
        here.settle(id);
        assertEq(here.payerOf(id), address(0));
    }

    function test_GuardsKeepTheOrderAndForeignSendersOut() external {
        bytes32 first = _send("first");
        bytes32 second = _send("second");
        deliver(second, HYPERLANE);
        deliver(second, AXELAR); // too early: refused by the guard, it waits at the router
        assertNotExecuted(second);
        deliver(first, HYPERLANE);
        deliver(first, AXELAR);
        Message memory waiting = messageOf(second);
        onDestination();
        destinationRouter.execute(waiting);
        assertEq(there.texts(1), "second");

        onSource();
        Courier stranger = new Courier(sourceRouter, address(this));
        stranger.setLane(
            Lane({
                chain: DESTINATION_CHAIN,
                recipient: address(there),
                gasLimit: 200_000,
                ttl: 0,
                quorum: 2,
                gmps: HYPERLANE.toSet().with(AXELAR),
                maxFeeGwei: 0
            })
        );
        bytes32 foreign = stranger.send("let me in");
        deliver(foreign, HYPERLANE);
        deliver(foreign, AXELAR);
        assertReceipts(foreign, 2);
        assertNotExecuted(foreign);
    }

    /// @dev The first message is given up and issued again, and arrives late after all.
    function test_AReissueAndItsOriginalGiveOneTicket_WhichAForgetfulTwinDoubles() external {
        TicketOffice sold = new TicketOffice(sourceRouter, address(this));
        assertEq(_ticketsOfLateOriginal(sold, new TicketOffice(destinationRouter, address(this))), 1);
        assertEq(_ticketsOfLateOriginal(sold, new ForgetfulTicketOffice(destinationRouter, address(this))), 2);
    }

    function _ticketsOfLateOriginal(TicketOffice sold, TicketOffice gate) private returns (uint256) {
        sold.setLane(
            Lane({
                chain: DESTINATION_CHAIN,
                recipient: address(gate),
                gasLimit: 200_000,
                ttl: 1 days,
                quorum: 2,
                gmps: HYPERLANE.toSet().with(AXELAR),
                maxFeeGwei: 0
            })
        );
        gate.allowRoute(SOURCE_CHAIN, address(sold), 2, ALL);
        bytes32 original = sold.issue(ann, 0);
        bytes32 again = sold.issue(ann, original);
        deliver(again, HYPERLANE);
        deliver(again, AXELAR);
        assertExecuted(again);
        deliver(original, HYPERLANE);
        deliver(original, AXELAR);
        return gate.tickets(ann);
    }

    function test_OpenZeppelinsBridgeRunsOverTheRouterUnmodified() external {
        // Without attributes the lane's default profile says how a gateway's messages travel.
        vm.startPrank(waybillOwner);
        sourceRouter.profiles()
            .setDefaultProfile(
                DESTINATION_CHAIN,
                Profile({
                gmps: ALL, quorum: 2, gasLimit: 300000, ttl: 7 days, kind: Kind.PLAIN, retriable: false, maxFeeGwei: 0
            })
            );
        vm.stopPrank();

        Token token = new Token(ann);
        address bridgeThere = vm.computeCreateAddress(address(this), vm.getNonce(address(this)) + 2);
        TokenBridge bridge = new TokenBridge(token, _link(sourceRouter, DESTINATION_CHAIN, bridgeThere));
        Token tokenThere = new Token(bridgeThere);
        new TokenBridge(tokenThere, _link(destinationRouter, SOURCE_CHAIN, address(bridge)));

        vm.startPrank(ann);
        token.approve(address(bridge), 10);
        vm.recordLogs();
        bridge.crosschainTransfer(InteroperableAddress.formatEvmV1(DESTINATION_CHAIN, ann), 10);
        vm.stopPrank();

        Message memory message = _unfunded();
        (uint256 fees,) = sourceRouter.quoteRetry(message, Lanes.unpriced(ALL));
        sourceRouter.fund{value: fees}(message, address(this)); // OpenZeppelin's bridge sends no value, so anyone may pay

        deliver(message.id(), HYPERLANE);
        deliver(message.id(), AXELAR);
        assertEq(tokenThere.balanceOf(ann), 10);
    }

    function test_ASenderChoosesTheRetriesOfItsMessageInTheSameTransaction() external {
        IRouter router = sourceRouter;
        bytes memory recipient = InteroperableAddress.formatEvmV1(DESTINATION_CHAIN, address(there));
        bytes memory payload = "hello";
        vm.startPrank(waybillOwner);
        router.profiles().setDefaultProfile(DESTINATION_CHAIN, Profile(ALL, 2, 300_000, 7 days, Kind.PLAIN, false, 0));
        vm.stopPrank();
        vm.startPrank(ann);
        DeliveryChoice memory choice = DeliveryChoice({
            chosen: true,
            semantics: Semantics.AT_LEAST_ONCE,
            idempotency: Idempotency.MESSAGE_ID,
            maxRetries: 3,
            baseBackoffMs: 60_000,
            maxBackoffMs: 240_000,
            deadLetter: true
        });
        bytes32 sendId = router.sendMessage(recipient, payload, new bytes[](0));
        router.profiles().chooseDelivery(sendId, choice);
        vm.stopPrank();
        assertEq(router.profiles().deliveryOf(ann, sendId).maxRetries, 3);
    }

    function test_TheReadmesRouteAndRetryWork() external {
        (uint256 hyperlaneFee, uint256 wormholeFee, uint256 fee) = (1, 2, 3);
        setFee(HYPERLANE, hyperlaneFee);
        setFee(WORMHOLE, wormholeFee);
        setFee(AXELAR, fee);
        IRouter router = sourceRouter;
        address recipient = address(there);
        vm.deal(ann, 10 ether);
        vm.startPrank(ann);

        GmpFee[] memory gmps = new GmpFee[](2);
        gmps[0] = GmpFee({gmp: Gmp.wrap(1), fee: hyperlaneFee}); // each adapter quotes its fee
        gmps[1] = GmpFee({gmp: Gmp.wrap(3), fee: wormholeFee});

        bytes32 messageId = router.route{value: hyperlaneFee + wormholeFee}(
            Route({
                destinationChain: DESTINATION_CHAIN,
                recipient: bytes32(uint256(uint160(recipient))), // a contract with ERC-7786 `receiveMessage`
                payload: abi.encode("hello"),
                gasLimit: 200_000,
                ttl: 0,
                kind: Kind.PLAIN,
                quorum: 2,
                replaces: 0,
                retriable: true,
                minDispatched: 0,
                gmps: gmps,
                refundTo: msg.sender
            })
        );

        Message memory message = messageOf(messageId);
        GmpFee[] memory others = quoted(AXELAR);

        router.retryRoute{value: fee}(
            Retry({messageId: messageId, message: message, minDispatched: 1, gmps: others, refundTo: msg.sender})
        );

        vm.stopPrank();
        deliver(messageId, WORMHOLE);
        deliver(messageId, AXELAR);
        assertReceipts(messageId, 2);
    }

    function _link(IRouter gateway, uint64 chain, address counterpart)
        private
        pure
        returns (CrosschainLinked.Link[] memory links)
    {
        links = new CrosschainLinked.Link[](1);
        links[0] = CrosschainLinked.Link(address(gateway), InteroperableAddress.formatEvmV1(chain, counterpart));
    }

    /// @dev The message that was kept unfunded since `vm.recordLogs()`.
    function _unfunded() private returns (Message memory) {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 index; index < logs.length; ++index) {
            if (logs[index].topics[0] != IMessageSender.MessageUnfunded.selector) continue;
            (,, bytes memory envelope) = abi.decode(logs[index].data, (bool, uint16, bytes));
            return this.decodeEnvelope(envelope);
        }
        revert("no message was kept unfunded");
    }
}
