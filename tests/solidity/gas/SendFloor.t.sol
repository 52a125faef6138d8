// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Vm, VmSafe} from "forge-std/Vm.sol";

import {ISendFloor} from "../../../bench/RouterGasHarness.sol";
import {SendFloor} from "../../../bench/SendFloor.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, Retry, Route} from "../../../contracts/types/Message.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {RecordingAdapter} from "../router/doubles/Adapters.sol";

/// @dev Takes every envelope, or refuses each in the words that it is told.
contract RefusingAdapter is RecordingAdapter {
    bytes private _refusal;

    function refuse(bytes calldata refusal) external {
        _refusal = refusal;
    }

    function dispatch(uint64, bytes32, bytes calldata, uint64, address) external payable override {
        bytes memory refusal = _refusal;
        if (refusal.length != 0) {
            assembly ("memory-safe") {
                revert(add(refusal, 0x20), mload(refusal))
            }
        }
    }
}

/// @dev {SendFloor} is no floor unless it does what the router does.
contract SendFloorTest is Test {
    using Addresses for address;

    uint64 private constant HERE = 1;
    uint64 private constant THERE = 10;

    /// @dev What a call did.
    struct Effects {
        bool success;
        bytes answer;
        /// @dev Of the router and its adapters, in their order.
        bytes32 logs;
        /// @dev Each call of the router's in its order: to whom, with what value and data.
        bytes32 calls;
        /// @dev Every word written, in any order.
        uint256 written;
        uint256 refunded;
    }

    /// @dev A sound request but for what the GMPs say.
    struct Sound {
        bytes payload;
        uint160 recipient;
        uint64 gasLimit;
        uint32 ttl;
        bytes32 replaces;
        bool retriable;
        uint8 gmps;
        uint8 order;
        uint96 fee;
    }

    address private alice = makeAddr("alice");
    address private stranger = makeAddr("stranger");
    address private refundee = makeAddr("refundee");

    IRouter private source;
    RefusingAdapter[3] private adapters;
    bytes private floor;

    function setUp() public {
        vm.warp(1_700_000_000);
        vm.chainId(HERE);
        source = TestedRouter.deploy(address(this));
        // Two at computed addresses, one that has to be looked up.
        for (uint8 number = 1; number <= 3; ++number) {
            address adapter = number == 3
                ? address(new RefusingAdapter())
                : source.createAdapter(Gmp.wrap(number), number, type(RefusingAdapter).creationCode);
            source.addAdapter(Gmp.wrap(number), adapter);
            adapters[number - 1] = RefusingAdapter(adapter);
        }
        source.setPeer(THERE, makeAddr("peer").toBytes32(), 1);
        floor = address(new SendFloor()).code;
        vm.deal(alice, type(uint128).max);
        vm.deal(stranger, type(uint128).max);
    }

    function testFuzz_SendsWhatTheRouterSends(Sound memory sound) public {
        Route memory request = _request(sound);
        Effects memory effects = _compare(alice, _value(request.gmps), abi.encodeCall(source.route, (request)));
        assertTrue(effects.success);
    }

    /// @dev One GMP may fail, with a reason of any length. The rest is as above.
    function testFuzz_FailsWhereTheRouterFails(
        Sound memory sound,
        uint8 failing,
        bytes memory reason,
        bool takesNoRefund
    ) public {
        Route memory request = _request(sound);
        request.minDispatched = request.retriable ? 1 : request.quorum;
        if (reason.length == 0) reason = "no";
        adapters[failing % 3].refuse(reason);
        if (takesNoRefund) vm.etch(refundee, hex"5f5ffd");
        _compare(alice, _value(request.gmps), abi.encodeCall(source.route, (request)));
    }

    function testFuzz_RefusesWhatTheRouterRefuses(Sound memory sound, uint8 word, uint256 value, uint8 shift) public {
        Route memory request = _request(sound);
        bytes memory data = abi.encodeCall(source.route, (request));
        _write(data, word, value >> shift);
        _compare(alice, _value(request.gmps), data);
    }

    function testFuzz_RefusesAWrongSumAsTheRouterDoes(Sound memory sound, uint96 value, uint256 fee) public {
        Route memory request = _request(sound);
        request.gmps[0].fee = fee;
        _compare(alice, value, abi.encodeCall(source.route, (request)));
    }

    function testFuzz_TakesAndRefusesTermsAsTheRouterDoes(
        Sound memory sound,
        uint32 ttl,
        uint8 kind,
        uint8 quorum,
        uint8 minDispatched
    ) public {
        Route memory request = _request(sound);
        request.ttl = uint32(bound(ttl, 0, 61));
        request.kind = Kind(kind % (uint8(type(Kind).max) + 1));
        request.quorum = uint8(bound(quorum, 0, 4));
        request.minDispatched = uint8(bound(minDispatched, 0, 4));
        _compare(alice, _value(request.gmps), abi.encodeCall(source.route, (request)));
    }

    function testFuzz_SendsAgainWhatTheRouterSendsAgain(Sound memory sound, uint96 fee, uint32 later, bool byRetrier)
        public
    {
        Retry memory retry = _retry(sound, fee);
        vm.warp(block.timestamp + bound(later, 0, uint256(retry.message.ttl) + 1));
        vm.prank(alice);
        source.appointRetrier(stranger);
        Effects memory effects =
            _compare(byRetrier ? stranger : alice, _value(retry.gmps), abi.encodeCall(source.retryRoute, (retry)));
        bool alive = block.timestamp <= uint256(retry.message.sentAt) + retry.message.ttl;
        assertEq(effects.success, alive);
    }

    function testFuzz_RefusesARetryThatTheRouterRefuses(Sound memory sound, uint8 word, uint256 value, uint8 shift)
        public
    {
        Retry memory retry = _retry(sound, sound.fee);
        bytes memory data = abi.encodeCall(source.retryRoute, (retry));
        _write(data, word, value >> shift);
        _compare(alice, _value(retry.gmps), data);
    }

    function testFuzz_RefusesAStrangersRetryAndACancelledMessages(Sound memory sound, bool cancelled) public {
        Retry memory retry = _retry(sound, sound.fee);
        if (cancelled) {
            GmpFee[] memory one = new GmpFee[](1);
            one[0].gmp = Gmp.wrap(1);
            vm.prank(alice);
            source.cancel(retry.message, 0, one, refundee);
        }
        address caller = cancelled ? alice : stranger;
        bytes memory data = abi.encodeCall(source.retryRoute, (retry));
        assertFalse(_compare(caller, _value(retry.gmps), data).success);
    }

    /// @dev Adapters get all envelopes in one call; for everybody else, a batch is so many sends.
    function testFuzz_ABatchIsAsManySends(Sound memory sound, uint8 count) public {
        count = uint8(bound(count, 1, 10));
        Route memory request = _request(sound);
        for (uint256 index; index < request.gmps.length; ++index) {
            request.gmps[index].fee = 0;
        }
        uint256 before = vm.snapshotState();
        vm.recordLogs();
        vm.startPrank(alice);
        for (uint256 index; index < count; ++index) {
            source.route(request);
        }
        uint256 expected = _sum(vm.getRecordedLogs());
        (uint64 sent, uint32 ids) = source.sentTo(THERE);
        bytes32 lane = keccak256(abi.encode(THERE, 7));
        bytes32 expectedLane = vm.load(address(source), lane);
        assertEq(sent, count);
        assertTrue(vm.revertToState(before));
        vm.etch(address(source), floor);
        vm.recordLogs();
        ISendFloor(address(source)).routeBatch(count, request);
        vm.stopPrank();
        assertEq(_sum(vm.getRecordedLogs()), expected);
        assertEq(vm.load(address(source), lane), expectedLane);
        assertEq(uint32(uint256(expectedLane) >> 208), ids);
    }

    function _request(Sound memory sound) private view returns (Route memory request) {
        uint8 count = uint8(bound(sound.gmps, 1, 3));
        request.destinationChain = THERE;
        request.recipient = bytes32(bound(sound.recipient, 1, type(uint160).max));
        request.payload = sound.payload;
        request.gasLimit = uint64(bound(sound.gasLimit, 0, 14_000_000));
        request.ttl = uint32(bound(sound.ttl, 60, type(uint32).max));
        request.quorum = uint8(bound(sound.order, 1, count));
        request.replaces = sound.replaces;
        request.retriable = sound.retriable;
        request.refundTo = refundee;
        request.gmps = new GmpFee[](count);
        for (uint8 index; index < count; ++index) {
            request.gmps[index] = GmpFee(Gmp.wrap((sound.order % 3 + index) % 3 + 1), uint256(sound.fee) * index);
        }
    }

    /// @dev A retry of a message that alice sent.
    function _retry(Sound memory sound, uint96 fee) private returns (Retry memory retry) {
        sound.retriable = true;
        Route memory request = _request(sound);
        vm.prank(alice);
        retry.messageId = source.route{value: _value(request.gmps)}(request);
        retry.message = Message({
            sourceChain: HERE,
            sourceRouter: address(source).toBytes32(),
            sender: alice.toBytes32(),
            nonce: 1,
            destinationChain: THERE,
            destinationRouter: source.peerOf(THERE),
            recipient: request.recipient,
            gasLimit: request.gasLimit,
            sentAt: uint64(block.timestamp),
            ttl: request.ttl,
            kind: request.kind,
            quorum: request.quorum,
            replaces: request.replaces,
            payload: request.payload
        });
        retry.gmps = request.gmps;
        retry.gmps[0].fee = fee;
        retry.refundTo = refundee;
    }

    function _value(GmpFee[] memory gmps) private pure returns (uint256 sum) {
        for (uint256 index; index < gmps.length; ++index) {
            sum += gmps[index].fee;
        }
    }

    /// @dev Overwrites a word of the call's arguments.
    function _write(bytes memory data, uint256 word, uint256 value) private pure {
        word %= (data.length - 4) / 32;
        assembly ("memory-safe") {
            mstore(add(add(data, 0x24), mul(0x20, word)), value)
        }
    }

    /// @dev Makes the call of the router and then, in the same world, of the floor in its place.
    function _compare(address caller, uint256 value, bytes memory data) private returns (Effects memory expected) {
        uint256 before = vm.snapshotState();
        expected = _call(caller, value, data);
        assertTrue(vm.revertToState(before));
        vm.etch(address(source), floor);
        Effects memory effects = _call(caller, value, data);
        assertEq(effects.success, expected.success, "one took it, the other refused it");
        if (!expected.success) return expected;
        assertEq(effects.answer, expected.answer, "answers");
        assertEq(effects.logs, expected.logs, "events");
        assertEq(effects.calls, expected.calls, "calls");
        assertEq(effects.written, expected.written, "storage");
        assertEq(effects.refunded, expected.refunded, "refunds");
    }

    function _call(address caller, uint256 value, bytes memory data) private returns (Effects memory effects) {
        vm.recordLogs();
        vm.startStateDiffRecording();
        vm.prank(caller);
        (effects.success, effects.answer) = address(source).call{value: value}(data);
        Vm.AccountAccess[] memory accesses = vm.stopAndReturnStateDiff();
        for (uint256 index; index < accesses.length; ++index) {
            Vm.AccountAccess memory access = accesses[index];
            if (access.accessor == address(source) && access.kind == VmSafe.AccountAccessKind.Call) {
                effects.calls = keccak256(abi.encode(effects.calls, access.account, access.value, access.data));
            }
            for (uint256 at; at < access.storageAccesses.length; ++at) {
                Vm.StorageAccess memory word = access.storageAccesses[at];
                if (!word.isWrite || word.reverted) continue;
                unchecked {
                    effects.written += uint256(keccak256(abi.encode(word.account, word.slot, word.newValue)));
                }
            }
        }
        effects.logs = keccak256(abi.encode(vm.getRecordedLogs()));
        effects.refunded = refundee.balance;
    }

    /// @dev Of the router's own events, in any order.
    function _sum(Vm.Log[] memory logs) private view returns (uint256 sum) {
        for (uint256 index; index < logs.length; ++index) {
            if (logs[index].emitter != address(source)) continue;
            unchecked {
                sum += uint256(keccak256(abi.encode(logs[index].topics, logs[index].data)));
            }
        }
    }
}
