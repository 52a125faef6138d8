// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, Retry, Route} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {FailingAdapter, RecordingAdapter, ReentrantAdapter} from "./doubles/Adapters.sol";
import {ReentrantRecipient} from "./doubles/Recipients.sol";

/// @dev One router that is sent to and sends. Every entry is entered, and from inside it every entry is called.
contract GuardsTest is RouterFixture {
    using Addresses for address;

    /// @dev A call that goes through unless a guard stops it.
    struct Entry {
        string name;
        address caller;
        address target;
        bytes data;
        /// @dev In wei. Without any, sendMessage hands nothing over.
        uint256 value;
        bool isSending;
        bool isReceiving;
    }

    bytes private constant SENDING_REENTERED = abi.encodeWithSelector(IMessageSender.SendingReentered.selector);
    bytes private constant RECEIVING_REENTERED = abi.encodeWithSelector(IMessageReceiver.ReceivingReentered.selector);

    ReentrantAdapter private adapter;
    ReentrantRecipient private inside;

    /// @dev Alpha's Hyperlane adapter and a recipient there call back as they are told.
    function setUp() public override {
        super.setUp();
        adapter = new ReentrantAdapter();
        inside = new ReentrantRecipient();
        vm.prank(owner);
        source.replaceAdapter(HYPERLANE, address(adapter));
        IProfiles profiles = source.profiles();
        vm.prank(owner);
        profiles.setDefaultProfile(THERE, Profile(GmpSet.wrap(1), 1, GAS_LIMIT, 7 days, Kind.PLAIN, true, 0));
    }

    function test_WhileSendingAnAdapterMayWithdrawButNeitherSendNorReceive() public {
        Entry[10] memory inner = entriesOf(address(adapter), 100);
        Entry[10] memory outer = entriesOf(alice, 200);
        for (uint256 row; row < outer.length; ++row) {
            if (!outer[row].isSending) continue;
            for (uint256 column; column < inner.length; ++column) {
                uint256 snapshot = vm.snapshotState();
                adapter.reenterWith(inner[column].target, inner[column].data);
                enter(outer[row]);
                bool guarded = inner[column].isSending || inner[column].isReceiving;
                check(outer[row], inner[column], guarded, adapter.reentered(), adapter.answer());
                vm.revertToState(snapshot);
            }
        }
    }

    function test_WhileReceivingARecipientMaySendAndWithdrawButNotReceive() public {
        Entry[10] memory inner = entriesOf(address(inside), 100);
        Entry[2] memory outer = [deliveryTo(address(inside), 300), executionOf(address(inside), 301)];
        for (uint256 row; row < outer.length; ++row) {
            for (uint256 column; column < inner.length; ++column) {
                uint256 snapshot = vm.snapshotState();
                inside.reenterWith(inner[column].target, inner[column].data);
                enter(outer[row]);
                check(outer[row], inner[column], inner[column].isReceiving, inside.reentered(), inside.answer());
                vm.revertToState(snapshot);
            }
        }
    }

    /// @dev What the tables above rest on: outside of everything, each of the calls goes through.
    function test_EveryEntryGoesThroughOnItsOwn() public {
        Entry[10] memory entries = entriesOf(alice, 100);
        for (uint256 index; index < entries.length; ++index) {
            enter(entries[index]);
        }
    }

    function enter(Entry memory entry) private {
        vm.prank(entry.caller);
        (bool success, bytes memory answer) = entry.target.call{value: entry.value}(entry.data);
        assertTrue(success, string.concat(entry.name, ": ", vm.toString(answer)));
    }

    function check(Entry memory outer, Entry memory inner, bool forbidden, bool reentered, bytes memory answer)
        private
        pure
    {
        string memory cell = string.concat(inner.name, " in ", outer.name, ": ", vm.toString(answer));
        assertEq(reentered, !forbidden, cell);
        if (forbidden) assertEq(answer, inner.isSending ? SENDING_REENTERED : RECEIVING_REENTERED, cell);
    }

    // ---- the entries, each with what it needs to go through

    function entriesOf(address caller, uint64 nonce) private returns (Entry[10] memory entries) {
        entries[0] = sending("route", caller, abi.encodeCall(source.route, (routeOverHyperlane())));
        (Message memory message,) = sent(caller);
        entries[1] = sending("retryRoute", caller, abi.encodeCall(source.retryRoute, (retryOf(message))));
        (message,) = sent(caller);
        entries[2] = sending("cancel", caller, abi.encodeCall(source.cancel, (message, 1, oneGmp(HYPERLANE), refundee)));
        entries[3] = sending("fund", caller, abi.encodeCall(source.fund, (unfunded(), refundee)));
        bytes memory to = InteroperableAddress.formatEvmV1(THERE, address(recipient));
        entries[4] = sending("sendMessage", caller, abi.encodeCall(source.sendMessage, (to, "hello", new bytes[](0))));
        entries[4].value = 1;
        entries[5] =
            sending("report", caller, abi.encodeCall(source.report, (executed(nonce), 1, oneGmp(HYPERLANE), refundee)));
        entries[6] = deliveryTo(address(recipient), nonce + 1);
        entries[7] = executionOf(address(recipient), nonce + 2);
        Message memory late = messageTo(address(recipient), nonce + 3);
        (late.sentAt, late.ttl) = (uint64(START - 10), 1);
        entries[8] = Entry("expire", caller, address(source), abi.encodeCall(source.expire, (late)), 0, false, true);
        giveCredit(caller);
        entries[9] =
            Entry("withdraw", caller, address(source), abi.encodeCall(source.withdraw, (refundee)), 0, false, false);
    }

    function sending(string memory name, address caller, bytes memory data) private view returns (Entry memory) {
        return Entry(name, caller, address(source), data, 0, true, false);
    }

    function deliveryTo(address to, uint64 nonce) private view returns (Entry memory) {
        bytes memory data = abi.encodeCall(RecordingAdapter.deliver, (source, THERE, envelopeOf(messageTo(to, nonce))));
        return Entry("receiveMessage", alice, address(outbound[AXELAR]), data, 0, false, true);
    }

    /// @dev It came with too little gas, so it waits.
    function executionOf(address to, uint64 nonce) private returns (Entry memory) {
        Message memory message = messageTo(to, nonce);
        outbound[AXELAR].deliver{gas: 300_000}(source, THERE, envelopeOf(message));
        return Entry("execute", alice, address(source), abi.encodeCall(source.execute, (message)), 0, false, true);
    }

    // ---- what they need

    function routeOverHyperlane() private view returns (Route memory request) {
        request = usualRoute(1, 1);
        request.refundTo = refundee;
    }

    function sent(address caller) private returns (Message memory message, bytes32 messageId) {
        Route memory request = routeOverHyperlane();
        message = expectedMessage(caller, request);
        vm.prank(caller);
        messageId = source.route(request);
    }

    function retryOf(Message memory message) private view returns (Retry memory) {
        return usualRetry(message, HYPERLANE);
    }

    function unfunded() private returns (Message memory message) {
        Route memory request = routeOverHyperlane();
        message = expectedMessage(alice, request);
        vm.prank(alice);
        source.sendMessage(InteroperableAddress.formatEvmV1(THERE, address(recipient)), "hello", new bytes[](0));
    }

    /// @dev The other way: from the destination to the source.
    function messageTo(address to, uint64 nonce) private view returns (Message memory message) {
        message = arrivingFor(to, 1);
        (message.sourceChain, message.destinationChain) = (THERE, HERE);
        (message.sourceRouter, message.destinationRouter) = (message.destinationRouter, message.sourceRouter);
        message.nonce = nonce;
        message.gasLimit = to == address(inside) ? 5_000_000 : GAS_LIMIT;
    }

    function executed(uint64 nonce) private returns (Message memory message) {
        message = messageTo(address(recipient), nonce);
        outbound[AXELAR].deliver(source, THERE, envelopeOf(message));
    }

    /// @dev A refund that the account, a contract without `receive` or made one, could not be paid.
    function giveCredit(address account) private {
        FailingAdapter failing = new FailingAdapter();
        vm.prank(owner);
        source.replaceAdapter(WORMHOLE, address(failing));
        Route memory request = routeOverHyperlane();
        request.gmps = new GmpFee[](2);
        (request.gmps[0].gmp, request.gmps[1].gmp) = (AXELAR, WORMHOLE);
        (request.gmps[1].fee, request.refundTo) = (1, account);
        vm.etch(alice, address(outbound[AXELAR]).code);
        vm.prank(stranger);
        source.route{value: 1}(request);
        vm.etch(alice, "");
    }
}
