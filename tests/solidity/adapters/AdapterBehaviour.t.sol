// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {AdapterConnections} from "./AdapterConnections.t.sol";
import {GasHungryRecipient} from "./doubles/RecordingRecipient.sol";
import {Parcel} from "./networks/GmpNetwork.sol";

/// @notice What every adapter must do, over its real GMP. A new adapter's tests inherit this and add what is its GMP's own.
///         AdapterBehaviour.tree lists the cases.
abstract contract AdapterBehaviour is AdapterConnections {
    /// @dev Length of the envelope that is tried over a GMP that sets no limit, in bytes.
    uint256 private constant UNLIMITED_SAMPLE = 30_000;

    // ---------------------------------------------------------------- dispatch and quote

    function testFuzz_RevertWhen_SomebodyElseThanTheRouterDispatches(address caller) external {
        vm.assume(caller != address(alphaRouter));
        vm.deal(caller, 1 ether);
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyRouter.selector, caller));
        vm.prank(caller);
        alphaAdapter.dispatch{value: 1 ether}(BETA, _word(address(betaRouter)), "envelope", 0, refundee);
    }

    function testFuzz_RevertWhen_DestinationIsNotConnected(uint64 chain, bytes32 router) external {
        vm.assume(chain != BETA || router != _word(address(betaRouter)));
        bytes memory expected = abi.encodeWithSelector(IAdapter.NotConnected.selector, chain, router);
        vm.expectRevert(expected);
        alphaAdapter.quote(chain, router, "envelope", 0);
        vm.expectRevert(expected);
        vm.prank(address(alphaRouter));
        alphaAdapter.dispatch(chain, router, "envelope", 0, refundee);
    }

    function testFuzz_QuoteIsWhatTheSendConsumes(uint16 length, uint32 gasLimit) external {
        length = uint16(bound(length, 0, 4000));
        gasLimit = uint32(bound(gasLimit, 0, 1_000_000));
        uint256 fee = _quote(length, gasLimit);
        assertGt(fee, 0, "this network charges");
        Route memory request = _request(address(recipient), new bytes(length), gasLimit);

        _send(request);
        assertEq(refundee.balance, 0, "nothing was left over of the quote");
        assertEq(address(alphaAdapter).balance, 0, "the adapter kept nothing");
    }

    function testFuzz_CreditsWhatTheGmpDoesNotNeed(uint16 length, uint64 surplus) external {
        Route memory request = _request(address(recipient), new bytes(bound(length, 0, 4000)), 100_000);
        request.gmps[0].fee += surplus;

        _send(request);
        assertEq(alphaRouter.creditOf(refundee), surplus, "the surplus is the refundee's");
        assertEq(address(alphaAdapter).balance, 0, "the adapter kept nothing");
    }

    /// @dev Whether the GMP's own contract refuses a fee that is too small, in its own words; else the adapter does.
    function _gmpChecksTheFee() internal pure virtual returns (bool) {
        return false;
    }

    function testFuzz_RevertWhen_FeeIsBelowTheQuote(uint256 missing) external {
        uint256 fee = _quote(5, 100_000);
        missing = bound(missing, 1, fee);
        Message memory message = _invented("hello");
        bytes memory envelope = message.encode(message.id());
        vm.deal(address(alphaRouter), fee);
        // Money that was forced on the adapter must not make up for it.
        vm.deal(address(alphaAdapter), fee);
        vm.prank(address(alphaRouter));
        if (_gmpChecksTheFee()) vm.expectRevert();
        else vm.expectRevert(abi.encodeWithSelector(IAdapter.WrongFee.selector, fee - missing, fee));
        alphaAdapter.dispatch{value: fee - missing}(BETA, _word(address(betaRouter)), envelope, 100_000, refundee);
    }

    /// @dev A surplus of one wei made the GMP fail.
    function test_SendsWhole_WhenTheSurplusCannotBeRefunded() external {
        Route memory request = _request(address(recipient), "hello", 100_000);
        request.gmps[0].fee += 1;
        // A contract without a receive function.
        request.refundTo = address(recipient);
        (, Parcel memory parcel) = _send(request);
        assertEq(alphaRouter.creditOf(address(recipient)), 1);
        assertTrue(network.deliver(parcel), "sent whole");
    }

    /// @dev An account that takes no money, not even nothing, is no obstacle to a send that leaves nothing over.
    function test_PaysNobodyBack_WhenTheFeeIsTheQuote() external {
        Route memory request = _request(address(recipient), "hello", 100_000);
        // A contract without a receive function.
        request.refundTo = address(recipient);
        (, Parcel memory parcel) = _send(request);
        assertTrue(network.deliver(parcel), "sent whole");
    }

    // ---------------------------------------------------------------- delivery

    function testFuzz_DeliversWhatWasSent(bytes calldata payload, address sender) external {
        vm.assume(uint160(sender) > 0xffff && sender.code.length == 0);
        vm.deal(sender, 1 ether);
        Route memory request = _request(address(recipient), payload, 200_000);
        (Message memory message, Parcel memory parcel) = _sendAs(sender, request);

        assertTrue(network.deliver(parcel), "consumed by the GMP");
        assertTrue(_isReceived(message), "receipt recorded");
        assertEq(recipient.received(), 1, "executed once");
        assertEq(recipient.lastPayloadHash(), keccak256(payload), "payload");
        assertEq(recipient.lastSender(), InteroperableAddress.formatEvmV1(ALPHA, sender), "sender");
    }

    function test_DeliversThePayloadAtTheLimit() external {
        uint256 limit = network.longestEnvelope();
        bytes memory payload = _noise((limit == 0 ? UNLIMITED_SAMPLE : limit) - MessageEncoding.HEADER_LENGTH);
        (, Parcel memory parcel) = _send(payload, 150_000);
        assertTrue(network.deliver(parcel), "consumed by the GMP");
        assertEq(recipient.lastPayloadHash(), keccak256(payload), "payload");
    }

    function test_AsksForTheRecipientsGasATwelfthMoreAndWhatADeliveryOfThatLengthTakes() external view {
        assertEq(alphaAdapter.deliveryGas(1000, 120_000), 120_000 + 10_000 + 250_000 + 16_000);
        assertEq(alphaAdapter.deliveryGas(0, 0), 250_000);
    }

    function testFuzz_TheGasAskedForIsEnoughToExecute(uint16 length, uint32 gasLimit) external {
        _executesWithTheGasAskedFor(bound(length, 0, 9_000), uint64(bound(gasLimit, 30_000, 6_000_000)));
    }

    function test_TheGasAskedForIsEnoughToExecute_AtTheLimits() external {
        uint256 limit = network.longestEnvelope();
        uint256 longest = (limit == 0 ? UNLIMITED_SAMPLE : limit) - MessageEncoding.HEADER_LENGTH - 32;
        _executesWithTheGasAskedFor(longest, 30_000);
        _executesWithTheGasAskedFor(longest, 6_000_000);
        _executesWithTheGasAskedFor(0, 6_000_000);
    }

    function _executesWithTheGasAskedFor(uint256 length, uint64 gasLimit) private {
        uint256 envelopeLength = MessageEncoding.HEADER_LENGTH + 32 + length;
        uint256 asked = alphaAdapter.deliveryGas(envelopeLength, gasLimit);
        if (asked > network.mostGas()) {
            gasLimit -= uint64(asked - network.mostGas());
            asked = alphaAdapter.deliveryGas(envelopeLength, gasLimit);
        }
        // The recipient uses up all but what its own entry and exit take.
        GasHungryRecipient hungry = new GasHungryRecipient();
        bytes memory payload = bytes.concat(abi.encode(gasLimit - 5_000), new bytes(length));
        (Message memory message, Parcel memory parcel) = _send(_request(address(hungry), payload, gasLimit));

        vm.cool(address(betaRouter));
        vm.cool(address(betaAdapter));
        vm.cool(address(hungry));
        assertTrue(network.deliverWithGas(parcel, asked), "consumed by the GMP");
        (, Execution execution) = betaRouter.receiptsOf(message.id());
        assertEq(uint8(execution), uint8(Execution.EXECUTED), "executed on arrival");
    }

    // ---------------------------------------------------------------- who may deliver

    function testFuzz_RevertWhen_TheCallerIsNotTheGmp(address caller) external {
        vm.assume(!_isGmp(caller));
        Message memory message = _invented("forged");
        bytes memory envelope = message.encode(message.id());
        vm.chainId(BETA);
        vm.expectRevert();
        network.knock(caller, betaAdapter, ALPHA, _word(address(alphaAdapter)), envelope);
        assertFalse(_isReceived(message));
    }

    function test_RefusesWhatTheGmpsOwnPartiesDidNotAttest() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        assertFalse(network.deliverForged(parcel), "consumed by the GMP");
        assertFalse(_isReceived(message), "receipt");
        assertTrue(network.deliver(parcel), "still deliverable");
    }

    function testFuzz_RefusesAnAccountThatIsNotTheRemoteAdapter(address stranger) external {
        vm.assume(stranger != address(alphaAdapter) && uint160(stranger) > 0xffff && stranger.code.length == 0);
        Message memory message = _invented("forged");
        Parcel memory parcel = _say(stranger, ALPHA, message.encode(message.id()));
        assertFalse(network.deliver(parcel), "consumed by the GMP");
        assertFalse(_isReceived(message), "receipt");
    }

    function test_RefusesTheRemoteAdaptersAddressOnAnotherChain() external {
        Message memory message = _invented("forged");
        Parcel memory parcel = _say(address(alphaAdapter), GAMMA, message.encode(message.id()));
        assertFalse(network.deliver(parcel), "consumed by the GMP");
        assertFalse(_isReceived(message), "receipt");
    }

    function test_RefusesAMessageThatNamesAnotherChainThanItCameFrom() external {
        address gammaAdapter = makeAddr("gamma's adapter");
        _connect(betaAdapter, GAMMA, alphaRouter, gammaAdapter);
        _setPeer(BETA, betaRouter, GAMMA, alphaRouter);

        Message memory message = _invented("forged");
        Parcel memory parcel = _say(gammaAdapter, GAMMA, message.encode(message.id()));
        assertFalse(network.deliver(parcel), "consumed by the GMP");
        assertFalse(_isReceived(message), "receipt");

        message.sourceChain = GAMMA;
        parcel = _say(gammaAdapter, GAMMA, message.encode(message.id()));
        assertTrue(network.deliver(parcel), "its own chain's message is consumed");
        assertTrue(_isReceived(message), "its own chain's receipt");
    }

    function testFuzz_RefusesAnAlteredEnvelope(uint256 position, uint8 flip) external {
        Message memory message = _invented("forged");
        bytes memory envelope = message.encode(message.id());
        position = bound(position, 0, envelope.length - 1);
        flip = uint8(bound(flip, 1, 255));
        envelope[position] ^= bytes1(flip);
        assertFalse(network.deliver(_say(address(alphaAdapter), ALPHA, envelope)), "consumed by the GMP");
        assertEq(recipient.received(), 0, "executed");
    }

    // ---------------------------------------------------------------- the receive table, towards the GMP

    function test_Consumes_WhenTheSameGmpDeliversAgain() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        assertTrue(network.deliver(parcel), "first");
        Parcel memory again = _retry(message);

        vm.expectEmit(address(betaAdapter));
        emit IAdapter.DuplicateAbsorbed(message.id(), network.gmp());
        assertTrue(network.deliver(again), "again");
        assertEq(recipient.received(), 1, "executed once");
    }

    function test_Consumes_WhenTheMessageWasExecutedAfterAnotherGmpsDelivery() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        vm.chainId(BETA);
        betaOther.bring(ALPHA, message.encode(message.id()));
        assertEq(recipient.received(), 1, "executed by the other's delivery");

        assertTrue(network.deliver(parcel), "consumed by the GMP");
        (GmpSet valid,) = betaRouter.receiptsOf(message.id());
        assertEq(valid.count(), 2, "receipts");
        assertEq(recipient.received(), 1, "executed once");
    }

    function test_Consumes_WhenTheQuorumIsNotYetReached() external {
        Route memory request = _request(address(recipient), "hello", 100_000);
        GmpFee[] memory gmps = new GmpFee[](2);
        (gmps[0], gmps[1]) = (request.gmps[0], GmpFee(OTHER_GMP, 0));
        (request.gmps, request.quorum) = (gmps, 2);
        (Message memory message, Parcel memory parcel) = _send(request);

        assertTrue(network.deliver(parcel), "consumed by the GMP");
        assertTrue(_isReceived(message), "receipt");
        assertEq(recipient.received(), 0, "executed");
        betaOther.bring(ALPHA, message.encode(message.id()));
        assertEq(recipient.received(), 1, "executed once");
    }

    function test_Consumes_WhenTheRecipientFails() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        recipient.refuse(true);
        assertTrue(network.deliver(parcel), "consumed by the GMP");
        assertTrue(_isReceived(message), "receipt");
        assertEq(recipient.received(), 0, "executed");

        recipient.refuse(false);
        betaRouter.execute(message);
        assertEq(recipient.received(), 1, "executed once");
    }

    function test_Consumes_WhenTheDeliveryBringsTooLittleGas() external virtual {
        (Message memory message, Parcel memory parcel) = _send("hello", 2_000_000);
        assertTrue(network.deliverWithGas(parcel, 1_000_000), "consumed by the GMP");
        assertTrue(_isReceived(message), "receipt");
        assertEq(recipient.received(), 0, "executed");

        betaRouter.execute(message);
        assertEq(recipient.received(), 1, "executed once");
    }

    function test_Consumes_WhenTheMessageHasExpired() external {
        Route memory request = _request(address(recipient), "hello", 100_000);
        request.ttl = 1 hours;
        (Message memory message, Parcel memory parcel) = _send(request);
        vm.warp(block.timestamp + 1 hours + 1);
        assertTrue(network.deliver(parcel), "consumed by the GMP");
        (, Execution execution) = betaRouter.receiptsOf(message.id());
        assertEq(uint8(execution), uint8(Execution.EXPIRED), "marked");
        assertEq(recipient.received(), 0, "executed");
    }

    function test_Consumes_WhenTheMessageWasCancelled() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        Message memory cancellation = _cancelOverTheOther(message);
        vm.chainId(BETA);
        betaOther.bring(ALPHA, cancellation.encode(cancellation.id()));

        assertTrue(network.deliver(parcel), "consumed by the GMP");
        (, Execution execution) = betaRouter.receiptsOf(message.id());
        assertEq(uint8(execution), uint8(Execution.CANCELLED), "still cancelled");
        assertEq(recipient.received(), 0, "executed");
    }

    function test_DeliversACancellation() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        recipient.refuse(true);
        assertTrue(network.deliver(parcel), "the message is consumed");
        assertTrue(network.deliver(_cancel(message)), "the cancellation is consumed");
        (, Execution execution) = betaRouter.receiptsOf(message.id());
        assertEq(uint8(execution), uint8(Execution.CANCELLED), "cancelled");
    }

    function test_StaysDeliverable_WhileTheLaneIsPaused() external {
        (, Parcel memory parcel) = _send("hello", 100_000);
        vm.prank(owner);
        betaRouter.pauseLane(ALPHA, uint48(block.timestamp + 1 hours));
        assertFalse(network.deliver(parcel), "consumed during the pause");
        vm.warp(block.timestamp + 1 hours + 1);
        assertTrue(network.deliver(parcel), "consumed when delivered again");
        assertEq(recipient.received(), 1, "executed once");
    }

    function test_StaysDeliverable_WhileTheGmpIsPaused() external {
        (, Parcel memory parcel) = _send("hello", 100_000);
        vm.startPrank(owner);
        betaRouter.pauseGmp(network.gmp(), uint48(block.timestamp + 1 hours));
        vm.stopPrank();
        assertFalse(network.deliver(parcel), "consumed during the pause");
        vm.warp(block.timestamp + 1 hours + 1);
        assertTrue(network.deliver(parcel), "consumed when delivered again");
        assertEq(recipient.received(), 1, "executed once");
    }

    function test_StaysDeliverable_WhenTheSourceRouterIsUnknown() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        _distrustAlpha();
        assertFalse(network.deliver(parcel), "consumed while the peer is revoked");
        assertFalse(_isReceived(message), "receipt while the peer is revoked");

        _trustAlpha();
        assertTrue(network.deliver(parcel), "consumed when delivered again");
        assertEq(recipient.received(), 1, "executed once");
    }

    function test_StaysDeliverable_WhenTheAdapterIsNotTheGmpsAnyMore() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        vm.startPrank(owner);
        betaRouter.revokeAdapter(network.gmp());
        assertFalse(network.deliver(parcel), "consumed while revoked");
        vm.startPrank(owner);
        betaRouter.addAdapter(network.gmp(), address(betaAdapter));
        vm.stopPrank();
        assertTrue(network.deliver(parcel), "consumed when delivered again");
        assertTrue(_isReceived(message), "receipt");
    }

    /// @dev Who may pass the GMP's part in a knock at the adapter's entry.
    function _isGmp(address caller) internal view virtual returns (bool);

    function _noise(uint256 length) internal pure returns (bytes memory noise) {
        noise = new bytes(length);
        for (uint256 index; index < length; ++index) {
            noise[index] = bytes1(uint8(uint256(keccak256(abi.encode(index / 32))) >> (8 * (index % 32))));
        }
    }
}
