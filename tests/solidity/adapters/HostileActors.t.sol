// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ILayerZeroEndpoint} from "../../../contracts/adapters/LayerZeroAdapter.sol";
import {IMailbox} from "../../../contracts/adapters/HyperlaneAdapter.sol";
import {IGateway} from "../../../contracts/interfaces/IGateway.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {IRouterMessages} from "../../../contracts/interfaces/IRouterMessages.sol";
import {IRouterViews} from "../../../contracts/interfaces/IRouterViews.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Message, MessageEncoding, Retry, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {TwoRouters} from "./TwoRouters.sol";
import {HostileActor} from "./doubles/HostileActor.sol";
import {AxelarNetwork} from "./networks/AxelarNetwork.sol";
import {CcipNetwork} from "./networks/CcipNetwork.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";
import {HyperlaneNetwork} from "./networks/HyperlaneNetwork.sol";
import {IEndpointV2, LayerZeroNetwork} from "./networks/LayerZeroNetwork.sol";
import {WormholeNetwork} from "./networks/WormholeNetwork.sol";

/// @notice A stranger acts inside the callbacks of a real GMP and of both routers: everything that it may call, about messages of
///         others. The same story is told without it and with it, and others get the same.
abstract contract HostileActors is TwoRouters {
    Gmp private constant NO_ADAPTER = Gmp.wrap(15);
    uint64 private constant STRANGERS_GAS = 2_500_000;

    /// @dev Messages of others, in different states while the stranger acts.
    Message private _unfunded;
    Message private _onItsWay;
    Message private _refused;
    Message private _halfReceived;
    Message private _executed;
    Parcel[] private _parcels;

    HostileActor private _onAlpha;
    HostileActor private _onBeta;

    function test_AStrangerInsideCallbacksChangesNothingForOthers() external {
        uint256 beginning = vm.snapshotState();
        uint256[] memory undisturbed = _tell(false);
        vm.revertToState(beginning);
        uint256[] memory disturbed = _tell(true);
        assertEq(disturbed, undisturbed, "what others get");
        assertGt(undisturbed[0], 0, "a story without an execution shows nothing");
    }

    function _tell(bool isHostile) private returns (uint256[] memory) {
        (_onAlpha, _onBeta) = (new HostileActor(), new HostileActor());
        vm.deal(address(_onAlpha), 1000 ether);
        vm.deal(address(_onBeta), 1000 ether);
        _begin();
        if (isHostile) _plan();
        _giveItsMoments();
        if (isHostile) {
            assertEq(_onAlpha.moments(), 1 + (_overpaidTarget() == address(0) ? 0 : 1), "moments on alpha");
            assertEq(_onBeta.moments(), 2, "moments on beta");
            assertGt(_onAlpha.successes() + _onBeta.successes(), 0, "a stranger that can do nothing shows nothing");
        }
        _end();
        return _facts();
    }

    // ---------------------------------------------------------------- the story

    function _begin() private {
        _unfunded = _sendUnfunded();
        (Message memory message, Parcel memory parcel) = _send("executed", 100_000);
        _executed = message;
        assertTrue(network.deliver(parcel), "executed");

        recipient.refuse(true);
        (message, parcel) = _send("refused", 100_000);
        _refused = message;
        assertTrue(network.deliver(parcel), "refused");
        recipient.refuse(false);

        Route memory request = _request(address(recipient), "half received", 100_000);
        GmpFee[] memory gmps = new GmpFee[](2);
        (gmps[0], gmps[1]) = (request.gmps[0], GmpFee(OTHER_GMP, 0));
        (request.gmps, request.quorum, request.minDispatched, request.ttl) = (gmps, 2, 2, 1 days);
        (message, parcel) = _send(request);
        _halfReceived = message;
        assertTrue(network.deliver(parcel), "half received");

        request = _request(address(recipient), "on its way", 100_000);
        request.gmps = _overTheOther();
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(dapp);
        alphaRouter.route(request);
        _onItsWay = _routed(vm.getRecordedLogs());
    }

    /// @dev The stranger's moments: a router's refund and one of the GMP, then a delivery and a router's refund on beta.
    function _giveItsMoments() private {
        Route memory own = _request(address(_onBeta), "own", STRANGERS_GAS);
        own.refundTo = address(_onAlpha);
        // One GMP has no adapter, so that its fee of 1 wei is paid back.
        GmpFee[] memory gmps = new GmpFee[](2);
        (gmps[0], gmps[1]) = (own.gmps[0], GmpFee(NO_ADAPTER, 1));
        own.gmps = gmps;
        vm.recordLogs();
        _onAlpha.make(address(alphaRouter), _fees(gmps), abi.encodeCall(IMessageSender.route, (own)));
        (address target, uint256 value, bytes memory data) = _overpaidSend(address(_onAlpha));
        if (target != address(0)) _onAlpha.make(target, value, data);
        _collect();

        assertTrue(network.deliver(_parcels[0]), "the stranger's own message");
        vm.chainId(BETA);
        (own.destinationChain, own.refundTo) = (ALPHA, address(_onBeta));
        (gmps[0].gmp, gmps[0].fee) = (OTHER_GMP, 0);
        _onBeta.make(address(betaRouter), 1, abi.encodeCall(IMessageSender.route, (own)));
    }

    /// @dev What honest parties do afterwards, whatever a stranger did before them.
    function _end() private {
        vm.chainId(ALPHA);
        uint256 fee = _quote(_unfunded.payload.length, _unfunded.gasLimit);
        vm.recordLogs();
        vm.prank(dapp);
        // Somebody may have paid already.
        try alphaRouter.fund{value: fee}(_unfunded, refundee) {} catch {}
        _collect();
        _parcels.push(_retry(_onItsWay));
        for (uint256 index; index < _parcels.length; ++index) {
            network.deliver(_parcels[index]);
        }
        vm.chainId(BETA);
        Message memory message = _halfReceived;
        betaOther.bring(ALPHA, message.encode(message.id()));
        try betaRouter.execute(_refused) {} catch {}

        vm.recordLogs();
        betaRouter.report(_executed, 1, _overTheOther(), refundee);
        Message memory report = _routed(vm.getRecordedLogs());
        vm.chainId(ALPHA);
        alphaOther.bring(BETA, report.encode(report.id()));
    }

    /// @dev Executions, then for each message its receipts, its end, who sent it, how often it was retried, and what was reported;
    ///      and what others can withdraw. Paying for GMPs that a stranger left out is an attempt like a retry, so that those of the
    ///      unfunded message don't count.
    function _facts() private returns (uint256[] memory facts) {
        facts = new uint256[](1 + 5 * 5 + 4);
        facts[0] = recipient.received();
        Message[5] memory messages = _others();
        for (uint256 index; index < 5; ++index) {
            bytes32 id = messages[index].id();
            vm.chainId(BETA);
            (GmpSet valid, Execution execution) = betaRouter.receiptsOf(id);
            vm.chainId(ALPHA);
            (address sender, uint32 attempts) = alphaRouter.sentMessage(id);
            uint256 first = 1 + 5 * index;
            facts[first] = GmpSet.unwrap(valid);
            facts[first + 1] = uint256(execution);
            facts[first + 2] = index == 0 ? 0 : uint160(sender);
            facts[first + 3] = index == 0 ? 0 : attempts;
            facts[first + 4] = uint256(alphaRouter.outcomeOf(id));
        }
        facts[26] = alphaRouter.creditOf(dapp);
        facts[27] = alphaRouter.creditOf(refundee);
        facts[28] = betaRouter.creditOf(refundee);
        facts[29] = betaRouter.creditOf(address(recipient));
    }

    // ---------------------------------------------------------------- what the stranger does

    function _plan() private {
        vm.chainId(ALPHA);
        uint256 fee = _quote(200, 100_000) * 2;
        address router = address(alphaRouter);
        _onAlpha.plan(router, 0, abi.encodeCall(IGateway.fund, (_unfunded, address(_onAlpha))));
        _onAlpha.plan(router, fee, abi.encodeCall(IGateway.fund, (_unfunded, address(_onAlpha))));
        GmpFee[] memory gmps = _way(_onItsWay.payload.length, _onItsWay.gasLimit);
        Retry memory again = Retry(MessageEncoding.id(_onItsWay), _onItsWay, 1, gmps, address(_onAlpha));
        _onAlpha.plan(router, _fees(gmps), abi.encodeCall(IMessageSender.retryRoute, (again)));
        gmps = _overTheOther();
        _onAlpha.plan(router, 0, abi.encodeCall(IRouterMessages.cancel, (_onItsWay, 1, gmps, address(_onAlpha))));
        _onAlpha.plan(router, 0, abi.encodeCall(IRouterViews.withdraw, (payable(address(_onAlpha)))));
        _onAlpha.plan(router, 0, abi.encodeCall(IRouterViews.appointRetrier, (address(_onAlpha))));
        _planReceiving(_onAlpha, alphaRouter);
        _planReceiving(_onBeta, betaRouter);
        router = address(betaRouter);
        _onBeta.plan(router, 0, abi.encodeCall(IRouterMessages.report, (_refused, 1, gmps, address(_onBeta))));
        _onBeta.plan(router, 0, abi.encodeCall(IRouterMessages.report, (_halfReceived, 1, gmps, address(_onBeta))));
        _onBeta.plan(router, 0, abi.encodeCall(IRouterViews.withdraw, (payable(address(_onBeta)))));
    }

    function _others() private view returns (Message[5] memory messages) {
        (messages[0], messages[1]) = (_unfunded, _onItsWay);
        (messages[2], messages[3], messages[4]) = (_refused, _halfReceived, _executed);
    }

    function _planReceiving(HostileActor actor, IRouter router) private {
        Message[5] memory messages = _others();
        for (uint256 index; index < 5; ++index) {
            Message memory message = messages[index];
            actor.plan(address(router), 0, abi.encodeCall(IMessageReceiver.execute, (message)));
            actor.plan(address(router), 0, abi.encodeCall(IMessageReceiver.expire, (message)));
            bytes memory envelope = message.encode(message.id());
            actor.plan(address(router), 0, abi.encodeCall(IMessageReceiver.receiveMessage, (ALPHA, envelope)));
        }
    }

    /// @dev A send of the stranger's own, over the GMP without Waybill, that the GMP pays back in part while it is being made; a target
    ///      of zero if this GMP never pays anything back.
    function _overpaidSend(address) internal virtual returns (address target, uint256 value, bytes memory data) {}

    function _overpaidTarget() private returns (address target) {
        (target,,) = _overpaidSend(address(_onAlpha));
    }

    function _overTheOther() private pure returns (GmpFee[] memory gmps) {
        gmps = new GmpFee[](1);
        gmps[0].gmp = OTHER_GMP;
    }

    function _collect() private {
        Parcel[] memory found = network.collect(vm.getRecordedLogs(), ALPHA, BETA, address(betaAdapter));
        for (uint256 index; index < found.length; ++index) {
            _parcels.push(found[index]);
        }
    }
}

contract HyperlaneHostileActorsTest is HostileActors {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new HyperlaneNetwork();
    }

    function _overpaidSend(address) internal view override returns (address target, uint256 value, bytes memory data) {
        IMailbox mailbox = HyperlaneNetwork(address(network)).mailboxes(ALPHA);
        uint32 domain = uint32(network.numberOf(BETA));
        bytes32 receiver = _word(address(betaAdapter));
        value = mailbox.quoteDispatch(domain, receiver, "noise", "") + 1;
        return (address(mailbox), value, abi.encodeCall(IMailbox.dispatch, (domain, receiver, "noise", "")));
    }
}

contract AxelarHostileActorsTest is HostileActors {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new AxelarNetwork();
    }
}

contract WormholeHostileActorsTest is HostileActors {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new WormholeNetwork();
    }
}

contract LayerZeroHostileActorsTest is HostileActors {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new LayerZeroNetwork();
    }

    function _overpaidSend(address stranger)
        internal
        view
        override
        returns (address target, uint256 value, bytes memory data)
    {
        IEndpointV2 endpoint = LayerZeroNetwork(address(network)).endpointOn(ALPHA);
        bytes memory options = abi.encodePacked(uint16(3), uint8(1), uint16(17), uint8(1), uint128(500_000));
        ILayerZeroEndpoint.MessagingParams memory params = ILayerZeroEndpoint.MessagingParams(
            uint32(network.numberOf(BETA)), _word(address(betaAdapter)), "noise", options, false
        );
        value = endpoint.quote(params, stranger).nativeFee + 1;
        return (address(endpoint), value, abi.encodeCall(endpoint.send, (params, stranger)));
    }
}

contract CcipHostileActorsTest is HostileActors {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new CcipNetwork();
    }
}
