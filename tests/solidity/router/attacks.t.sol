// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Gmp} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterFixture} from "./RouterFixture.sol";
import {FailingAdapter, RecordingAdapter} from "./doubles/Adapters.sol";
import {ReentrantRecipient} from "./doubles/Recipients.sol";
import {ReentrantRefundee} from "./doubles/Refundees.sol";

/// @dev Attacks that no single function's tests are the place for.
contract AttacksTest is RouterFixture {
    /// @dev A liar alters the payload and keeps everything else. Its receipt is one for another message, whichever comes first.
    function testFuzz_ALiesReceiptNeverCountsForTheHonestMessage(bytes calldata forged, uint8 liar, bool first) public {
        Message memory honest = arriving(2);
        vm.assume(forged.length < 1000 && keccak256(forged) != keccak256(honest.payload));
        Message memory lie = arriving(2);
        lie.payload = forged;
        liar = uint8(bound(liar, 1, 3));
        deliver(Gmp.wrap(first ? liar : liar % 3 + 1), first ? lie : honest);
        deliver(Gmp.wrap(first ? liar % 3 + 1 : liar), first ? honest : lie);
        assertEq(recipient.received(), 0, "one GMP and a liar are not two GMPs");
    }

    /// @dev One GMP that stays silent for ever, whichever it is, stops nothing.
    function testFuzz_AnyTwoOfThreeGmpsSufficeAndAnyoneMayExecute(uint8 silent, address caller) public {
        silent = uint8(bound(silent, 1, 3));
        Message memory message = arriving(2);
        message.gasLimit = 500_000;
        deliver(Gmp.wrap(silent % 3 + 1), message);
        inbound[Gmp.wrap((silent + 1) % 3 + 1)].deliver{gas: 480_000}(destination, HERE, envelopeOf(message));
        assertEq(recipient.received(), 0, "it came with too little gas");
        vm.prank(caller);
        destination.execute(message);
        (, Execution execution) = destination.receiptsOf(MessageEncoding.id(message));
        assertTrue(execution == Execution.EXECUTED);
    }

    /// @dev The refundee of a stranger's own send delivered a message to a recipient that answers. The recipient's `route` was
    ///      refused, since sending was under way; it caught that and accepted, so its answer was lost for ever.
    function test_ARefundCannotDeliverToARecipientThatAnswers() public {
        ReentrantRecipient victim = new ReentrantRecipient();
        victim.reenterWith(address(source), abi.encodeCall(source.route, (usualRoute(1, 1))));
        Message memory question = arrivingFor(address(victim), 1);
        (question.sourceChain, question.destinationChain) = (THERE, HERE);
        (question.sourceRouter, question.destinationRouter) = (question.destinationRouter, question.sourceRouter);
        question.gasLimit = 1_000_000;
        ReentrantRefundee greedy = new ReentrantRefundee();
        bytes memory delivery = abi.encodeCall(RecordingAdapter.deliver, (source, THERE, envelopeOf(question)));
        greedy.reenterWith(address(outbound[AXELAR]), delivery);
        install(HYPERLANE, new FailingAdapter());
        onSource();

        Route memory request = usualRoute(3, 1);
        (request.gmps[0].fee, request.minDispatched, request.refundTo) = (1, 1, address(greedy));
        vm.prank(stranger);
        source.route{value: 1}(request);
        assertFalse(greedy.reentered(), "delivered while sending");

        install(HYPERLANE, new RecordingAdapter());
        outbound[AXELAR].deliver(source, THERE, envelopeOf(question));
        assertTrue(victim.reentered(), "the answer is on its way");
        (, Execution execution) = source.receiptsOf(MessageEncoding.id(question));
        assertTrue(execution == Execution.EXECUTED);
    }
}
