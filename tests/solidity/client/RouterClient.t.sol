// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {ERC7786Recipient} from "@openzeppelin/contracts/crosschain/ERC7786Recipient.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IRouterClient} from "../../../contracts/client/IRouterClient.sol";
import {Lane, Lanes} from "../../../contracts/client/Lanes.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, Retry, Route} from "../../../contracts/types/Message.sol";
import {CourierChains} from "./CourierChains.sol";
import {PlainClient, TrustingClient} from "./doubles/Clients.sol";

contract RouterClientTest is CourierChains {
    PlainClient private alphaClient;
    PlainClient private betaClient;
    address private immutable user = makeAddr("user");
    address private immutable retrier = makeAddr("retrier");

    function setUp() public override {
        super.setUp();
        alphaClient = new PlainClient(routers[ALPHA], owner);
        betaClient = new PlainClient(routers[BETA], owner);
        _allow(betaClient, ALPHA, address(alphaClient), 2, ALL);
        vm.deal(user, 10 ether);
        vm.deal(retrier, 10 ether);
    }

    function _send(PlainClient from, address to, uint8 quorum, bytes memory payload) private returns (Message memory) {
        Lane memory lane = _lane(BETA, to);
        lane.quorum = quorum;
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(user);
        from.send{value: 1 ether}(lane, payload);
        return _routed()[0];
    }

    /// @dev The router asks for one receipt only, so that what the route asks for shows.
    function _goBelowTheFloor(address client) private {
        vm.prank(client);
        routers[BETA].setPolicy(ALPHA, 1, ALL);
    }

    // ---------------------------------------------------------------- constructor

    function test_RevertWhen_TheRouterIsZero() external {
        vm.expectRevert(IRouterClient.ZeroRouter.selector);
        new PlainClient(IRouter(address(0)), owner);
    }

    // ---------------------------------------------------------------- allowRoute, forbidRoute, setRetrier

    function testFuzz_RevertWhen_SomebodyElseThanTheOwnerConfigures(address caller) external {
        vm.assume(caller != owner);
        bytes memory expected = abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, caller);
        vm.startPrank(caller);
        vm.expectRevert(expected);
        betaClient.allowRoute(ALPHA, user, 1, ALL);
        vm.expectRevert(expected);
        betaClient.forbidRoute(ALPHA, address(alphaClient));
        vm.expectRevert(expected);
        betaClient.setRetrier(caller, true);
        vm.expectRevert(expected);
        betaClient.setPolicy(ALPHA, 1, ALL);
        Message memory message;
        vm.expectRevert(expected);
        betaClient.cancel(message, new GmpFee[](0));
    }

    function test_RevertWhen_TheAllowedSenderIsZero() external {
        vm.expectRevert(IRouterClient.ZeroSender.selector);
        _allow(betaClient, ALPHA, address(0), 1, ALL);
    }

    function testFuzz_RevertWhen_TheRoutesQuorumCannotBe(uint8 quorum, uint16 bits) external {
        GmpSet gmps = GmpSet.wrap(bits);
        vm.assume(quorum == 0 || quorum > gmps.count());
        vm.expectRevert(abi.encodeWithSelector(IRouterClient.InvalidRoute.selector, quorum, gmps));
        _allow(betaClient, ALPHA, user, quorum, gmps);
    }

    function testFuzz_KeepsTheLastRouteAllowed(uint64 chain, address sender, uint16 bits, uint8 quorum) external {
        vm.assume(sender != address(0) && bits != 0);
        GmpSet gmps = GmpSet.wrap(bits);
        quorum = uint8(bound(quorum, 1, gmps.count()));
        _allow(betaClient, chain, sender, 1, ALL);
        vm.expectEmit(address(betaClient));
        emit IRouterClient.RouteAllowed(chain, sender, quorum, gmps);
        _allow(betaClient, chain, sender, quorum, gmps);
        (uint8 keptQuorum, GmpSet keptGmps) = betaClient.allowedRoute(chain, sender);
        assertEq(keptQuorum, quorum);
        assertEq(GmpSet.unwrap(keptGmps), bits);
    }

    function testFuzz_RevertWhen_ForbiddingARouteThatIsNotAllowed(uint64 chain, address sender) external {
        vm.assume(chain != ALPHA || sender != address(alphaClient));
        vm.expectRevert(abi.encodeWithSelector(IRouterClient.RouteNotAllowed.selector, chain, sender));
        vm.prank(owner);
        betaClient.forbidRoute(chain, sender);
    }

    function test_RefusesMessagesOnceTheRouteIsForbidden() external {
        vm.expectEmit(address(betaClient));
        emit IRouterClient.RouteForbidden(ALPHA, address(alphaClient));
        vm.prank(owner);
        betaClient.forbidRoute(ALPHA, address(alphaClient));
        Message memory message = _send(alphaClient, address(betaClient), 2, "hello");
        _deliver(message);
        assertFalse(_isExecuted(message));
    }

    // ---------------------------------------------------------------- receiveMessage

    function testFuzz_RevertWhen_TheCallerIsNotTheRouter(address caller) external {
        vm.assume(caller != address(routers[BETA]));
        bytes memory sender = InteroperableAddress.formatEvmV1(ALPHA, address(alphaClient));
        vm.expectRevert(
            abi.encodeWithSelector(ERC7786Recipient.ERC7786RecipientUnauthorizedGateway.selector, caller, sender)
        );
        vm.prank(caller);
        betaClient.receiveMessage("id", sender, "hello");
    }

    function testFuzz_HandsOverWhatWasSent(bytes calldata payload) external {
        Message memory message = _send(alphaClient, address(betaClient), 2, payload);
        _deliver(message);
        if (!_isExecuted(message)) _execute(message);
        assertEq(betaClient.handled(), 1, "handled once");
        assertEq(betaClient.lastId(), message.id(), "id");
        assertEq(betaClient.lastChain(), ALPHA, "chain");
        assertEq(betaClient.lastSender(), address(alphaClient), "sender");
        assertEq(betaClient.lastPayload(), payload, "payload");
    }

    function test_RefusesASenderWithoutARoute_WhichATrustingTwinObeys() external {
        PlainClient stranger = new PlainClient(routers[ALPHA], user);
        Message memory message = _send(stranger, address(betaClient), 2, "obey me");
        _deliver(message);
        assertFalse(_isExecuted(message), "obeyed by the client");

        TrustingClient twin = new TrustingClient(routers[BETA], owner);
        message = _send(stranger, address(twin), 2, "obey me");
        _deliver(message);
        assertTrue(_isExecuted(message), "obeyed by the twin");
    }

    function test_RefusesASenderThatIsAllowedOnAnotherChainOnly() external {
        _allow(betaClient, 10, user, 1, ALL);
        PlainClient stranger = new PlainClient(routers[ALPHA], user);
        _allow(betaClient, 10, address(stranger), 1, ALL);
        Message memory message = _send(stranger, address(betaClient), 2, "obey me");
        _deliver(message);
        assertFalse(_isExecuted(message));
    }

    /// @dev A lying GMP writes the quorum of the message it forges; the route's quorum stands here.
    function test_AsksForTheRoutesQuorum_WhichATrustingTwinForgets() external {
        _goBelowTheFloor(address(betaClient));
        Message memory message = _send(alphaClient, address(betaClient), 1, "forged");
        _bring(message, 1);
        assertFalse(_isExecuted(message), "executed by the client on one GMP's word");
        bytes memory reason = abi.encodeWithSelector(IRouterClient.TooFewTrustedReceipts.selector, message.id(), 1, 2);
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.ExecutionReverted.selector, message.id(), reason));
        _execute(message);

        _bring(message, 2);
        if (!_isExecuted(message)) _execute(message);
        assertEq(betaClient.handled(), 1, "executed on two GMPs' word");

        TrustingClient twin = new TrustingClient(routers[BETA], owner);
        _goBelowTheFloor(address(twin));
        message = _send(alphaClient, address(twin), 1, "forged");
        _bring(message, 1);
        assertTrue(_isExecuted(message), "executed by the twin on one GMP's word");
    }

    function testFuzz_CountsOnlyTheGmpsOfTheRoute(uint16 bits) external {
        _goBelowTheFloor(address(betaClient));
        bits = uint16(bound(bits, 1, 7));
        _allow(betaClient, ALPHA, address(alphaClient), 1, GmpSet.wrap(bits));
        Message memory message = _send(alphaClient, address(betaClient), 1, "hello");
        bool trusted;
        for (uint8 gmp = 1; gmp <= GMPS && !trusted; ++gmp) {
            _bring(message, gmp);
            trusted = bits & (1 << (gmp - 1)) != 0;
            // The message's own quorum was reached before, so a refused delivery is executed by hand.
            if (trusted && !_isExecuted(message)) _execute(message);
            assertEq(betaClient.handled(), trusted ? 1 : 0, "handled after a trusted receipt only");
        }
        assertTrue(trusted);
    }

    // ---------------------------------------------------------------- retry

    function testFuzz_RevertWhen_SomebodyElseThanARetrierRetries(address caller) external {
        (Retry memory again,) = _again();
        vm.expectRevert(abi.encodeWithSelector(IRouterClient.NotRetrier.selector, caller));
        vm.prank(caller);
        alphaClient.retry(again);
    }

    function test_RetriesAsTheMessagesSender() external {
        (Retry memory again, uint256 fees) = _again();
        _appoint(retrier, true);
        vm.prank(retrier);
        assertEq(alphaClient.retry{value: fees}(again), 1, "attempt");
        assertEq(couriers[ALPHA][3].taken(), 2, "the third GMP took it twice");

        _appoint(retrier, false);
        assertFalse(alphaClient.isRetrier(retrier));
        vm.expectRevert(abi.encodeWithSelector(IRouterClient.NotRetrier.selector, retrier));
        vm.prank(retrier);
        alphaClient.retry{value: fees}(again);
    }

    function test_RevertWhen_TheDappRefusesARetry() external {
        (Retry memory again, uint256 fees) = _again();
        _appoint(retrier, true);
        alphaClient.refuseRetries();
        vm.expectRevert(PlainClient.RetryRefused.selector);
        vm.prank(retrier);
        alphaClient.retry{value: fees}(again);
    }

    // ---------------------------------------------------------------- cancel, setPolicy

    function test_TheOwnerCancelsAMessageOfTheDapp() external {
        Message memory message = _send(alphaClient, address(betaClient), 2, "hello");
        GmpFee[] memory gmps = Lanes.unpriced(ALL);
        for (uint256 index; index < gmps.length; ++index) {
            gmps[index].fee = FEE;
        }
        vm.deal(owner, 1 ether);
        vm.recordLogs();
        vm.prank(owner);
        alphaClient.cancel{value: 3 * FEE}(message, gmps);
        _deliver(_routed()[0]);
        _deliver(message);
        assertFalse(_isExecuted(message));
        assertEq(betaClient.handled(), 0);
    }

    /// @dev Below the policy the router does not even call the dApp.
    function test_TheOwnerSetsTheRoutersPolicy() external {
        vm.prank(owner);
        betaClient.setPolicy(ALPHA, 3, ALL);
        (uint8 quorum, GmpSet gmps) = routers[BETA].policyOf(address(betaClient), ALPHA);
        assertEq(quorum, 3);
        assertEq(GmpSet.unwrap(gmps), GmpSet.unwrap(ALL));
        Message memory message = _send(alphaClient, address(betaClient), 2, "hello");
        _deliver(message);
        assertFalse(_isExecuted(message), "executed on two GMPs' word");
        _bring(message, 3);
        assertTrue(_isExecuted(message), "executed on three GMPs' word");
    }

    /// @dev A refund that the dApp could not take waited at the router, and no dApp could ask for it.
    function test_TheOwnerWithdrawsWhatTheRouterOwesTheDapp() external {
        Route memory request = _lane(BETA, address(betaClient)).request(Kind.PLAIN, "hello", address(alphaClient));
        (request.gmps[0].fee, request.gmps[1].fee, request.gmps[2].fee) = (FEE, FEE, 1);
        vm.chainId(ALPHA);
        vm.deal(retrier, 1 ether);
        vm.mockCallRevert(address(alphaClient), bytes(""), bytes("no money"));
        vm.prank(retrier);
        routers[ALPHA].route{value: 2 * FEE + 1}(request);
        vm.clearMockedCalls();
        assertEq(routers[ALPHA].creditOf(address(alphaClient)), 1);
        address payable to = payable(makeAddr("payee"));
        vm.expectRevert(abi.encodeWithSelector(Ownable.OwnableUnauthorizedAccount.selector, retrier));
        vm.prank(retrier);
        alphaClient.withdrawCredit(to);
        vm.prank(owner);
        alphaClient.withdrawCredit(to);
        assertEq(to.balance, 1);
    }

    function _appoint(address account, bool allowed) private {
        vm.expectEmit(address(alphaClient));
        emit IRouterClient.RetrierSet(account, allowed);
        vm.prank(owner);
        alphaClient.setRetrier(account, allowed);
    }

    function _again() private returns (Retry memory again, uint256 fees) {
        Message memory message = _send(alphaClient, address(betaClient), 2, "hello");
        vm.chainId(ALPHA);
        return Lanes.retryOf(routers[ALPHA], message, GmpSet.wrap(4), retrier);
    }
}
