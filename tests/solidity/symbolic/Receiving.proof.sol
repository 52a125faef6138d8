// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {RouterWorld, TakingAdapter} from "./RouterWorld.sol";

/// @dev What a router takes, counts and executes.
contract ReceivingProofs is RouterWorld {
    function check_NobodyButAnAdapterDelivers(address caller, uint64 originChain) public {
        vm.assume(Gmp.unwrap(router.gmpOf(caller)) == 0);
        assert(!tryReceive(caller, originChain, envelopeOf(arriving(2))));
        assert(!tryReceive(caller, originChain, svm.createBytes(MessageEncoding.HEADER_LENGTH, "envelope")));
    }

    function control_NobodyButAnAdapterDelivers(address caller, uint64 originChain) public {
        assert(!tryReceive(caller, originChain, envelopeOf(arriving(2))));
    }

    function check_AnEnvelopeIsTakenOnlyUnderItsOwnId(bytes32 stated, uint64 originChain, Message memory message)
        public
    {
        _fixRouting(message);
        if (tryReceive(router.adapterOf(Gmp.wrap(1)), originChain, MessageEncoding.encode(message, stated))) {
            assert(stated == MessageEncoding.id(message) && originChain == message.sourceChain);
        }
    }

    function control_AnEnvelopeIsTakenOnlyUnderItsOwnId(bytes32 stated, uint64 originChain, Message memory message)
        public
    {
        _fixRouting(message);
        assert(!tryReceive(router.adapterOf(Gmp.wrap(1)), originChain, MessageEncoding.encode(message, stated)));
    }

    function check_AMessageForAnotherChainIsNeitherTakenNorExecuted(uint64 chain) public {
        vm.assume(chain != HERE);
        _assertUntouchedOn(chain);
    }

    function control_AMessageForAnotherChainIsNeitherTakenNorExecuted(uint64 chain) public {
        _assertUntouchedOn(chain);
    }

    function check_ExecutedExactlyWhenTheQuorumAndTheFloorAreReached(bool first, bool second, uint8 quorum, uint8 floor)
        public
    {
        uint8 count = _deliverOver(first, second, quorum, floor);
        _assertExecutedExactlyWhen(count >= quorum && count >= floor, quorum);
    }

    function control_ExecutedExactlyWhenTheQuorumAndTheFloorAreReached(
        bool first,
        bool second,
        uint8 quorum,
        uint8 floor
    ) public {
        uint8 count = _deliverOver(first, second, quorum, floor);
        // As if the message's own wish were enough.
        _assertExecutedExactlyWhen(count >= quorum, quorum);
    }

    function check_ARevokedGmpsReceiptIsVoid(uint8 number) public {
        _assertVoidAfter(number, router.revokeAdapter.selector);
    }

    function control_ARevokedGmpsReceiptIsVoid(uint8 number) public {
        // Replacing keeps receipts: that is the difference between the two.
        _assertVoidAfter(number, router.replaceAdapter.selector);
    }

    function check_ASecondDeliveryOverTheSameGmpIsRefused(uint8 first, uint8 second) public {
        vm.assume(first == second);
        _assertSecondRefused(first, second);
    }

    function control_ASecondDeliveryOverTheSameGmpIsRefused(uint8 first, uint8 second) public {
        _assertSecondRefused(first, second);
    }

    function _assertUntouchedOn(uint64 chain) private {
        Message memory message = arriving(1);
        bytes memory envelope = envelopeOf(message);
        address adapter = router.adapterOf(Gmp.wrap(1));
        vm.chainId(chain);
        assert(!tryReceive(adapter, message.sourceChain, envelope));
        (bool success,) = address(router).call(abi.encodeCall(IMessageReceiver.execute, (message)));
        assert(!success);
    }

    function _deliverOver(bool first, bool second, uint8 quorum, uint8 floor) private returns (uint8 count) {
        vm.assume(quorum >= 1 && quorum <= 3 && floor >= 1 && floor <= 3);
        vm.prank(OWNER);
        router.setFloor(THERE, floor);
        bool[2] memory delivers = [first, second];
        for (uint8 index; index < delivers.length; ++index) {
            if (!delivers[index]) continue;
            assert(tryDeliver(Gmp.wrap(index + 1), arriving(quorum)));
            ++count;
        }
    }

    /// @dev Gas is symbolic: where a delivery brought too little, anybody may bring more.
    function _assertExecutedExactlyWhen(bool reached, uint8 quorum) private {
        Message memory message = arriving(quorum);
        (bool success, bytes memory reason) = address(router).call(abi.encodeCall(IMessageReceiver.execute, (message)));
        bool executed = executionOf(MessageEncoding.id(message)) == Execution.EXECUTED;
        bool lackedGas = !success && bytes4(reason) == IMessageReceiver.InsufficientGas.selector;
        assert(reached ? executed || lackedGas : !executed && !lackedGas);
    }

    function _assertVoidAfter(uint8 number, bytes4 action) private {
        vm.assume(number >= 1 && number <= GMPS);
        Message memory message = arriving(2);
        assert(tryDeliver(Gmp.wrap(number), message));
        address replacement = address(new TakingAdapter());
        vm.prank(OWNER);
        if (action == router.revokeAdapter.selector) router.revokeAdapter(Gmp.wrap(number));
        else router.replaceAdapter(Gmp.wrap(number), replacement);
        (GmpSet valid,) = router.receiptsOf(MessageEncoding.id(message));
        assert(valid.count() == 0);
        assert(!router.hasReceived(MessageEncoding.id(message), Gmp.wrap(number)));
    }

    function _assertSecondRefused(uint8 first, uint8 second) private {
        vm.assume(first >= 1 && first <= GMPS && second >= 1 && second <= GMPS);
        assert(tryDeliver(Gmp.wrap(first), arriving(1)));
        assert(!tryDeliver(Gmp.wrap(second), arriving(1)));
    }

    /// @dev All but the way is symbolic: with a symbolic way too, nearly every path would end at the first check.
    function _fixRouting(Message memory message) private view {
        Message memory usual = arriving(2);
        (message.sourceRouter, message.destinationRouter) = (usual.sourceRouter, usual.destinationRouter);
        message.destinationChain = usual.destinationChain;
        (message.sender, message.recipient, message.quorum) = (usual.sender, usual.recipient, usual.quorum);
        (message.kind, message.payload) = (usual.kind, usual.payload);
    }
}
