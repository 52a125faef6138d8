// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {CommonBase} from "forge-std/Base.sol";
import {StdCheats} from "forge-std/StdCheats.sol";
import {StdUtils} from "forge-std/StdUtils.sol";

import {AtomicCoordinator} from "../../../contracts/atomic/AtomicCoordinator.sol";
import {AtomicParticipant} from "../../../contracts/atomic/AtomicParticipant.sol";
import {Lane, Lanes} from "../../../contracts/client/Lanes.sol";
import {RouterClient} from "../../../contracts/client/RouterClient.sol";
import {AtomicAssets} from "../../../contracts/examples/AtomicAssets.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {InMemoryAdapter} from "../../../contracts/testing/InMemoryAdapter.sol";
import {InMemoryGmp} from "../../../contracts/testing/InMemoryGmp.sol";
import {ActionRequest, BranchRequest, Level, Window} from "../../../contracts/types/Atomic.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, MessageEncoding, Retry, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {TestedAtomic} from "./TestedAtomic.sol";

/// @dev Three chains in one EVM: a coordinator at home, and an {AtomicAssets} on each of two others. A true router on each, three
///      GMPs between them, and two receipts for whatever is believed.
abstract contract AtomicChains is CommonBase, StdCheats, StdUtils {
    using Addresses for address;

    uint64 internal constant HOME = 901;
    uint64 internal constant EAST = 902;
    uint64 internal constant WEST = 903;
    uint8 internal constant CHAINS = 3;
    uint8 internal constant GMPS = 3;
    GmpSet internal constant ALL = GmpSet.wrap(7);
    uint256 internal constant START = 1_700_000_000;

    bytes32 internal constant ASSET = "gold";
    uint256 internal constant UNITS = 1000;

    address internal owner = makeAddr("owner");
    address internal initiator = makeAddr("initiator");
    address internal ann = makeAddr("ann");

    mapping(uint64 chain => IRouter) internal routers;
    mapping(uint64 chain => AtomicAssets) internal assets;
    mapping(uint8 gmp => InMemoryGmp) internal networks;
    mapping(uint64 chain => mapping(uint8 gmp => InMemoryAdapter)) internal adapters;
    AtomicCoordinator internal coordinator;

    mapping(uint8 gmp => uint256) private _indexed;
    mapping(uint8 gmp => mapping(bytes32 messageId => uint256)) private _placeOf;

    error NotCarried(bytes32 messageId, uint8 gmp);

    // ---- set-up

    function setUpChains() internal {
        vm.warp(START);
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            networks[gmp] = new InMemoryGmp();
        }
        for (uint64 chain = HOME; chain <= WEST; ++chain) {
            routers[chain] = TestedRouter.deploy(owner);
            for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
                adapters[chain][gmp] = new InMemoryAdapter(routers[chain], networks[gmp]);
            }
        }
        _connect(HOME, EAST);
        _connect(HOME, WEST);
        vm.chainId(HOME);
        coordinator = TestedAtomic.coordinator(routers[HOME], owner, window());
        vm.prank(owner);
        coordinator.setInitiator(initiator, true);
        _makeParticipant(EAST);
        _makeParticipant(WEST);
        vm.chainId(HOME);
    }

    function window() internal pure returns (Window memory) {
        return Window({prepareTtl: 600, decisionTtl: 300, maxRetries: 2, maxBackoff: 150, lockTtl: 1200});
    }

    // ---- actions

    function freeze(Level level) internal view returns (ActionRequest memory) {
        bytes memory change = _change(AtomicAssets.Act.FREEZE, address(0), 0);
        return request(level, change, change);
    }

    /// @dev Moves units of ann from east to west.
    function move(uint128 units) internal view returns (ActionRequest memory) {
        return request(
            Level.ALL_OR_NOTHING,
            _change(AtomicAssets.Act.DEBIT, ann, units),
            _change(AtomicAssets.Act.CREDIT, ann, units)
        );
    }

    function request(Level level, bytes memory east, bytes memory west)
        internal
        view
        returns (ActionRequest memory made)
    {
        made.level = level;
        made.subject = ASSET;
        made.branches = new BranchRequest[](2);
        made.branches[0] = BranchRequest(EAST, address(assets[EAST]), east);
        made.branches[1] = BranchRequest(WEST, address(assets[WEST]), west);
    }

    // ---- what travels

    /// @dev Two GMPs deliver the message: it is executed, unless its recipient refuses.
    function deliver(bytes32 messageId) internal {
        deliver(messageId, 1);
        deliver(messageId, 2);
    }

    function deliver(bytes32 messageId, uint8 gmp) internal {
        (bool found, InMemoryGmp.Parcel memory parcel) = parcelOf(messageId, gmp);
        if (!found) revert NotCarried(messageId, gmp);
        uint256 before = block.chainid;
        vm.chainId(parcel.destinationChain);
        networks[gmp].deliver(parcel.sourceChain, parcel.sender, parcel.recipient, parcel.body);
        vm.chainId(before);
    }

    /// @dev The phase's message leaves for the participant and arrives.
    function tell(bytes32 actionId, uint256 branch) internal returns (bytes32 messageId) {
        messageId = coordinator.dispatch(actionId, branch);
        deliver(messageId);
    }

    /// @dev The participant's answer leaves.
    function sendReply(bytes32 actionId, uint64 chain) internal returns (bytes32 messageId) {
        vm.chainId(chain);
        messageId = assets[chain].reply(actionId);
        vm.chainId(HOME);
    }

    function answer(bytes32 actionId, uint64 chain) internal returns (bytes32 messageId) {
        messageId = sendReply(actionId, chain);
        deliver(messageId);
    }

    /// @dev Anyone executes what waits at its router.
    function executeAgain(bytes32 messageId) internal {
        Message memory message = messageOf(messageId);
        vm.chainId(message.destinationChain);
        routers[message.destinationChain].execute(message);
        vm.chainId(HOME);
    }

    /// @dev The destination says how the message ended, and home hears of it.
    function reportEnd(bytes32 messageId) internal {
        Message memory message = messageOf(messageId);
        vm.chainId(message.destinationChain);
        bytes32 reportId = routers[message.destinationChain].report(message, 2, Lanes.unpriced(ALL), address(this));
        vm.chainId(message.sourceChain);
        deliver(reportId);
        vm.chainId(HOME);
    }

    function retryOf(bytes32 messageId) internal returns (Retry memory again) {
        (again,) = Lanes.retryOf(routers[HOME], messageOf(messageId), ALL, address(this));
    }

    function messageOf(bytes32 messageId) internal returns (Message memory) {
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            (bool found, InMemoryGmp.Parcel memory parcel) = parcelOf(messageId, gmp);
            if (found) return this.decodeEnvelope(parcel.body);
        }
        revert NotCarried(messageId, 0);
    }

    function decodeEnvelope(bytes calldata envelope) external pure returns (Message memory message) {
        (, message) = MessageEncoding.decode(envelope);
    }

    function executionOf(bytes32 messageId) internal returns (Execution execution) {
        (, execution) = routers[messageOf(messageId).destinationChain].receiptsOf(messageId);
    }

    /// @dev The last parcel that carries the message. Each parcel is read once: campaigns make thousands.
    function parcelOf(bytes32 messageId, uint8 gmp) internal returns (bool, InMemoryGmp.Parcel memory parcel) {
        for (; _indexed[gmp] < networks[gmp].count(); ++_indexed[gmp]) {
            bytes32 stated = MessageEncoding.statedId(networks[gmp].parcel(_indexed[gmp]).body);
            _placeOf[gmp][stated] = _indexed[gmp] + 1;
        }
        uint256 place = _placeOf[gmp][messageId];
        if (place == 0) return (false, parcel);
        return (true, networks[gmp].parcel(place - 1));
    }

    /// @dev A message that its sender's code would not send, or not now.
    function _routeAs(IRouter router, address sender, uint64 chain, address recipient, bytes memory payload)
        internal
        returns (bytes32 messageId)
    {
        Route memory made = _lane(chain, recipient).request(Kind.PLAIN, payload, address(this));
        // Replaces the caps by the fees, which are 0 here.
        Lanes.price(router, made);
        vm.prank(sender);
        return router.route(made);
    }

    // ---- inner workings

    function _change(AtomicAssets.Act act, address account, uint128 units) internal pure returns (bytes memory) {
        return abi.encode(AtomicAssets.Change(act, account, units));
    }

    function _connect(uint64 a, uint64 b) private {
        _connectOneWay(a, b);
        _connectOneWay(b, a);
    }

    function _connectOneWay(uint64 here, uint64 there) private {
        vm.chainId(here);
        vm.startPrank(owner);
        routers[here].setPeer(there, address(routers[there]).toBytes32(), 2);
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            if (routers[here].adapterOf(Gmp.wrap(gmp)) == address(0)) {
                routers[here].addAdapter(Gmp.wrap(gmp), address(adapters[here][gmp]));
            }
            adapters[here][gmp].connect(
                there, address(routers[there]).toBytes32(), address(adapters[there][gmp]).toBytes32()
            );
        }
        vm.stopPrank();
    }

    function _makeParticipant(uint64 chain) private {
        vm.chainId(chain);
        assets[chain] = TestedAtomic.assets(routers[chain], owner, window());
        vm.prank(owner);
        assets[chain].create(ASSET, ann, UNITS);
        _introduce(chain, assets[chain]);
    }

    /// @dev Coordinator and participant trust each other, and know how to send to each other.
    function _introduce(uint64 chain, AtomicParticipant participant) internal {
        vm.startPrank(owner);
        vm.chainId(chain);
        _allow(participant, HOME, address(coordinator));
        participant.setCoordinator(_lane(HOME, address(coordinator)));
        vm.chainId(HOME);
        _allow(coordinator, chain, address(participant));
        coordinator.setParticipant(_lane(chain, address(participant)));
        vm.stopPrank();
    }

    function _allow(RouterClient client, uint64 chain, address sender) private {
        client.allowRoute(chain, sender, 2, ALL);
        client.setRetrier(address(this), true);
    }

    function _lane(uint64 chain, address recipient) internal pure returns (Lane memory) {
        return
            Lane({chain: chain, recipient: recipient, gasLimit: 500_000, ttl: 0, quorum: 2, gmps: ALL, maxFeeGwei: 0});
    }
}
