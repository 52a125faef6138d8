// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";
import {Test} from "forge-std/Test.sol";
import {Vm} from "forge-std/Vm.sol";

import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {BaseAdapter} from "../../../contracts/adapters/BaseAdapter.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, MessageEncoding, Retry, Route} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {SilentAdapter} from "./doubles/SilentAdapter.sol";
import {RecordingRecipient} from "./doubles/RecordingRecipient.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";

/// @notice Routers on two chains, alpha and beta, with adapters of one real GMP, and a second GMP that delivers only when a
///         test says so. A third chain, gamma, has the GMP but no router.
abstract contract TwoRouters is Test {
    uint64 internal constant ALPHA = 31337;
    uint64 internal constant BETA = 31338;
    uint64 internal constant GAMMA = 31339;
    Gmp internal constant OTHER_GMP = Gmp.wrap(16);

    address internal immutable owner = makeAddr("owner");
    address internal immutable dapp = makeAddr("dapp");
    address internal immutable refundee = makeAddr("refundee");

    GmpNetwork internal network;
    IRouter internal alphaRouter;
    IRouter internal betaRouter;
    BaseAdapter internal alphaAdapter;
    BaseAdapter internal betaAdapter;
    SilentAdapter internal alphaOther;
    SilentAdapter internal betaOther;
    RecordingRecipient internal recipient;

    function _newNetwork() internal virtual returns (GmpNetwork);

    function setUp() public virtual {
        vm.warp(1_790_000_000);
        network = _newNetwork();
        network.addChain(ALPHA);
        network.addChain(BETA);
        network.addChain(GAMMA);
        network.wire();
        (alphaRouter, alphaAdapter, alphaOther) = _newRouter(ALPHA);
        (betaRouter, betaAdapter, betaOther) = _newRouter(BETA);
        _setPeer(ALPHA, alphaRouter, BETA, betaRouter);
        _setPeer(BETA, betaRouter, ALPHA, alphaRouter);
        _connect(alphaAdapter, BETA, betaRouter, address(betaAdapter));
        _connect(betaAdapter, ALPHA, alphaRouter, address(alphaAdapter));
        recipient = new RecordingRecipient();
        vm.deal(dapp, 1000 ether);
    }

    function _newRouter(uint64 chain) private returns (IRouter router, BaseAdapter adapter, SilentAdapter other) {
        vm.chainId(chain);
        router = TestedRouter.deploy(owner);
        adapter = BaseAdapter(address(network.deployAdapter(chain, router)));
        other = new SilentAdapter(router);
        vm.startPrank(owner);
        router.addAdapter(network.gmp(), address(adapter));
        router.addAdapter(OTHER_GMP, address(other));
        vm.stopPrank();
    }

    function _setPeer(uint64 home, IRouter router, uint64 chain, IRouter peer) internal {
        vm.chainId(home);
        vm.prank(owner);
        router.setPeer(chain, _word(address(peer)), 1);
    }

    /// @dev Makes beta's router refuse what alpha's sent, until {_trustAlpha}.
    function _distrustAlpha() internal {
        vm.chainId(BETA);
        vm.prank(owner);
        betaRouter.revokePeer(ALPHA, _word(address(alphaRouter)));
    }

    function _trustAlpha() internal {
        _setPeer(BETA, betaRouter, ALPHA, alphaRouter);
    }

    function _connect(BaseAdapter adapter, uint64 chain, IRouter remoteRouter, address remoteAdapter) internal {
        network.connect(
            owner, adapter, chain, _word(address(remoteRouter)), _word(remoteAdapter), network.numberOf(chain)
        );
    }

    /// @dev Routes a retriable message from alpha to beta over the real GMP, with quorum 1.
    function _send(bytes memory payload, uint64 gasLimit) internal returns (Message memory message, Parcel memory) {
        return _send(_request(address(recipient), payload, gasLimit));
    }

    function _send(Route memory request) internal returns (Message memory message, Parcel memory parcel) {
        return _sendAs(dapp, request);
    }

    function _sendAs(address sender, Route memory request)
        internal
        returns (Message memory message, Parcel memory parcel)
    {
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(sender);
        alphaRouter.route{value: _fees(request.gmps)}(request);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        message = _routed(logs);
        Parcel[] memory parcels = network.collect(logs, ALPHA, BETA, address(betaAdapter));
        assertEq(parcels.length, 1, "parcels accepted by the GMP");
        parcel = parcels[0];
    }

    /// @dev A message over both GMPs that nobody has paid for yet.
    function _sendUnfunded() internal returns (Message memory message) {
        vm.chainId(ALPHA);
        IProfiles profiles = alphaRouter.profiles();
        vm.startPrank(dapp);
        profiles.setProfile(
            BETA, Profile(network.gmp().toSet().with(OTHER_GMP), 1, 100_000, 7 days, Kind.PLAIN, false, 0)
        );
        vm.recordLogs();
        alphaRouter.sendMessage(InteroperableAddress.formatEvmV1(BETA, address(recipient)), "hello", new bytes[](0));
        vm.stopPrank();
        return _lastOf(vm.getRecordedLogs(), IMessageSender.MessageUnfunded.selector);
    }

    function _retry(Message memory message) internal returns (Parcel memory) {
        vm.chainId(ALPHA);
        GmpFee[] memory gmps = _way(message.payload.length, message.gasLimit);
        vm.recordLogs();
        vm.prank(dapp);
        alphaRouter.retryRoute{value: _fees(gmps)}(Retry(message.id(), message, 1, gmps, refundee));
        return network.collect(vm.getRecordedLogs(), ALPHA, BETA, address(betaAdapter))[0];
    }

    function _cancel(Message memory message) internal returns (Parcel memory) {
        vm.chainId(ALPHA);
        // A cancellation carries the message's header, the payload's hash, and an outcome.
        Message memory header = abi.decode(abi.encode(message), (Message));
        header.payload = "";
        GmpFee[] memory gmps = _way(abi.encode(header, bytes32(0), uint8(0)).length, 0);
        vm.recordLogs();
        vm.prank(dapp);
        alphaRouter.cancel{value: _fees(gmps)}(message, 1, gmps, refundee);
        return network.collect(vm.getRecordedLogs(), ALPHA, BETA, address(betaAdapter))[0];
    }

    function _cancelOverTheOther(Message memory message) internal returns (Message memory) {
        vm.chainId(ALPHA);
        GmpFee[] memory gmps = new GmpFee[](1);
        gmps[0].gmp = OTHER_GMP;
        vm.recordLogs();
        vm.prank(dapp);
        alphaRouter.cancel(message, 1, gmps, refundee);
        return _routed(vm.getRecordedLogs());
    }

    /// @dev What somebody else's account or contract says over the GMP, on `from`, to the adapter on beta.
    function _say(address account, uint64 from, bytes memory body) internal returns (Parcel memory) {
        vm.recordLogs();
        network.sendAs(account, from, BETA, address(betaAdapter), body);
        return network.collect(vm.getRecordedLogs(), from, BETA, address(betaAdapter))[0];
    }

    function _request(address to, bytes memory payload, uint64 gasLimit) internal returns (Route memory) {
        return Route({
            destinationChain: BETA,
            recipient: _word(to),
            payload: payload,
            gasLimit: gasLimit,
            ttl: 0,
            kind: Kind.PLAIN,
            quorum: 1,
            replaces: 0,
            retriable: true,
            minDispatched: 1,
            gmps: _way(payload.length, gasLimit),
            refundTo: refundee
        });
    }

    function _way(uint256 payloadLength, uint64 gasLimit) internal returns (GmpFee[] memory gmps) {
        gmps = new GmpFee[](1);
        gmps[0] = GmpFee(network.gmp(), _quote(payloadLength, gasLimit));
    }

    function _quote(uint256 payloadLength, uint64 gasLimit) internal returns (uint256) {
        vm.chainId(ALPHA);
        bytes memory envelope = new bytes(MessageEncoding.HEADER_LENGTH + payloadLength);
        return alphaAdapter.quote(BETA, _word(address(betaRouter)), envelope, gasLimit);
    }

    /// @dev A message from alpha to beta that no router has ever sent.
    function _invented(bytes memory payload) internal view returns (Message memory) {
        return Message({
            sourceChain: ALPHA,
            sourceRouter: _word(address(alphaRouter)),
            sender: _word(dapp),
            nonce: 77,
            destinationChain: BETA,
            destinationRouter: _word(address(betaRouter)),
            recipient: _word(address(recipient)),
            gasLimit: 100_000,
            sentAt: uint64(block.timestamp),
            ttl: 0,
            kind: Kind.PLAIN,
            quorum: 1,
            replaces: 0,
            payload: payload
        });
    }

    function _isReceived(Message memory message) internal view returns (bool) {
        return betaRouter.hasReceived(message.id(), network.gmp());
    }

    function _fees(GmpFee[] memory gmps) internal pure returns (uint256 sum) {
        for (uint256 index; index < gmps.length; ++index) {
            sum += gmps[index].fee;
        }
    }

    function _word(address account) internal pure returns (bytes32) {
        return bytes32(uint256(uint160(account)));
    }

    /// @dev The message of the last `MessageRouted` among the logs.
    function _routed(Vm.Log[] memory logs) internal view returns (Message memory message) {
        return _lastOf(logs, IMessageSender.MessageRouted.selector);
    }

    function _lastOf(Vm.Log[] memory logs, bytes32 selector) private view returns (Message memory message) {
        for (uint256 index; index < logs.length; ++index) {
            if (logs[index].topics[0] != selector) continue;
            (,, bytes memory envelope) = abi.decode(logs[index].data, (bool, uint16, bytes));
            (, message) = this.decodeEnvelope(envelope);
        }
    }

    function decodeEnvelope(bytes calldata envelope) external pure returns (bytes32 stated, Message memory message) {
        return MessageEncoding.decode(envelope);
    }
}
