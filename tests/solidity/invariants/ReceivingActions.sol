// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {InMemoryAdapter} from "../../../contracts/testing/InMemoryAdapter.sol";
import {InMemoryGmp} from "../../../contracts/testing/InMemoryGmp.sol";
import {Kind, Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {Record, Rule} from "./Ghost.sol";
import {SendingActions} from "./SendingActions.sol";
import {FickleRecipient} from "./doubles/FickleRecipient.sol";

/// @dev What GMPs do, honest and lying, and what anybody does on the destination.
abstract contract ReceivingActions is SendingActions {
    using Addresses for address;

    /// @dev For any delivery with its execution. A recipient that burns what it gets leaves the rest of a campaign its gas.
    uint64 private constant ENOUGH_GAS = 10_000_000;

    // ---- honest GMPs

    /// @dev Any parcel any number of times.
    function deliver(uint256 gmpSeed, uint256 parcelSeed) public {
        uint8 gmp = uint8(1 + gmpSeed % GMPS);
        uint256 count = networks[gmp - 1].count();
        if (count != 0) handOver(gmp, networks[gmp - 1].parcel(parcelSeed % count), ENOUGH_GAS, true);
    }

    /// @dev Everything that carries one message, so that quorums are reached.
    function deliverEverywhere(uint256 idSeed) public {
        bytes32 messageId = idBy(idSeed);
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            InMemoryGmp network = networks[gmp - 1];
            for (uint256 index = network.count(); index > 0; --index) {
                InMemoryGmp.Parcel memory parcel = network.parcel(index - 1);
                if (MessageEncoding.statedId(parcel.body) != messageId) continue;
                handOver(gmp, parcel, ENOUGH_GAS, true);
                break;
            }
        }
    }

    function deliverWithLittleGas(uint256 gmpSeed, uint256 parcelSeed, uint256 gas) public {
        uint8 gmp = uint8(1 + gmpSeed % GMPS);
        uint256 count = networks[gmp - 1].count();
        if (count == 0) return;
        handOver(gmp, networks[gmp - 1].parcel(parcelSeed % count), uint64(bound(gas, 60_000, 600_000)), true);
    }

    function breakGmp(uint256 gmpSeed, uint8 choice) public {
        networks[gmpSeed % GMPS].setBroken(choice % 2 == 0);
    }

    // ---- lying GMPs

    /// @dev A message that nobody sent. There are few of them, so that several liars may agree.
    function lieInventing(uint256 seed, uint256 gmpSeed) public {
        uint8 r = uint8(seed % ROUTERS);
        Message memory message = _invented(r, seed / 3);
        _lie(r, uint8(1 + gmpSeed % GMPS), message, MessageEncoding.id(message));
    }

    /// @dev A message that was sent, but for one field, with the id that fits it.
    function lieAltering(uint256 idSeed, uint256 gmpSeed, uint8 field) public {
        bytes32 messageId = idBy(idSeed);
        Message memory message = records[messageId].message;
        uint8 r = indexOf(message.destinationRouter);
        if (r == ROUTERS || message.kind >= Kind.CANCELLATION) return;
        field %= 6;
        if (field == 0) message.payload = "all your funds";
        if (field == 1) message.quorum = 1;
        if (field == 2) message.ttl = 0;
        if (field == 3) message.recipient = address(recipients[idSeed % RECIPIENTS]).toBytes32();
        if (field == 4) message.nonce += 100;
        if (field == 5) message.sender = accountBy(idSeed / 7).toBytes32();
        _lie(r, uint8(1 + gmpSeed % GMPS), message, MessageEncoding.id(message));
    }

    /// @dev A message that was sent, but for its payload, under the true id.
    function lieUnderTheTrueId(uint256 idSeed, uint256 gmpSeed) public {
        bytes32 messageId = idBy(idSeed);
        Message memory message = records[messageId].message;
        uint8 r = indexOf(message.destinationRouter);
        if (r == ROUTERS) return;
        message.payload = "all your funds";
        if (MessageEncoding.id(message) == messageId) return;
        bool accepted = _lie(r, uint8(1 + gmpSeed % GMPS), message, messageId);
        expect(!accepted, Rule.ALTERED_CONTENT_ACCEPTED);
    }

    /// @dev A true message over a GMP that was never given it, or before it was.
    function lieRepeating(uint256 idSeed, uint256 gmpSeed) public {
        bytes32 messageId = idBy(idSeed);
        Message memory message = records[messageId].message;
        uint8 r = indexOf(message.destinationRouter);
        if (r != ROUTERS) _lie(r, uint8(1 + gmpSeed % GMPS), message, messageId);
    }

    /// @dev A cancellation that its sender did not ask for, or a report of what did not happen.
    function lieAboutAnEnd(uint256 idSeed, uint256 gmpSeed, uint8 choice) public {
        bool isReport = choice % 2 == 0;
        Message memory original = records[idBy(idSeed)].message;
        (uint8 from, uint8 to) = (indexOf(original.sourceRouter), indexOf(original.destinationRouter));
        if (from == ROUTERS || to == ROUTERS || original.kind >= Kind.CANCELLATION) return;
        if (isReport) (from, to) = (to, from);
        bytes32 payloadHash = keccak256(original.payload);
        Message memory message = _invented(to, idSeed);
        message.sourceRouter = address(routers[from]).toBytes32();
        message.sender = isReport ? message.sourceRouter : original.sender;
        message.recipient = message.destinationRouter;
        message.kind = isReport ? Kind.REPORT : Kind.CANCELLATION;
        (message.quorum, message.ttl, message.replaces) = (original.quorum, 0, MessageEncoding.id(original));
        original.payload = "";
        message.payload = abi.encode(original, payloadHash, isReport ? choice % 3 + 1 : uint8(Execution.CANCELLED));
        _lie(to, uint8(1 + gmpSeed % GMPS), message, MessageEncoding.id(message));
    }

    // ---- anybody

    function execute(uint256 idSeed, uint256 callerSeed) public {
        bytes32 messageId = idBy(idSeed);
        uint8 r = _placeBy(messageId, callerSeed);
        bool ready = isReady(r, messageId);
        arrival = Arrival(ROUTERS, 0, messageId);
        onRouter(r);
        vm.prank(accountBy(callerSeed));
        try routers[r].execute(records[messageId].message) {}
        catch {
            forget();
            expect(!ready, Rule.STRANDED);
        }
        listen();
    }

    function expire(uint256 idSeed, uint256 callerSeed) public {
        bytes32 messageId = idBy(idSeed);
        uint8 r = _placeBy(messageId, callerSeed);
        onRouter(r);
        vm.prank(accountBy(callerSeed));
        try routers[r].expire(records[messageId].message) {}
        catch {
            forget();
        }
        listen();
    }

    function changeRecipientsMood(uint256 seed, uint8 mood) public {
        recipients[seed % RECIPIENTS].setMood(FickleRecipient.Mood(mood % 4));
    }

    /// @dev From now on the recipient calls the router back: to have a message delivered, executed or marked, or to send one.
    function makeRecipientCallBack(uint256 seed, uint256 idSeed, uint8 choice) public {
        uint256 index = seed % RECIPIENTS;
        uint8 r = index < 2 ? 0 : uint8(1 + seed % 2);
        bytes32 messageId = idBy(idSeed);
        Message memory message = records[messageId].message;
        address target;
        bytes memory call = abi.encodeCall(routers[r].execute, (message));
        if (choice % 4 == 1) call = abi.encodeCall(routers[r].expire, (message));
        if (choice % 4 == 2) call = abi.encodeCall(routers[r].route, (requestBy(r, seed - seed % 5, 1, 0, true)));
        // On beta the delivery might be one to the other router, whose guard is down.
        if (choice % 4 == 3 && r == 0) (target, call) = _deliveryCall(r, message, messageId);
        recipients[index].setCall(target, call, choice % 4 != 2);
    }

    // ---- how

    /// @return accepted The GMP considers it delivered.
    function handOver(uint8 gmp, InMemoryGmp.Parcel memory parcel, uint64 gas, bool isHonest)
        internal
        returns (bool accepted)
    {
        uint8 r = routerOfAdapter[address(uint160(uint256(parcel.recipient)))];
        bytes32 messageId = MessageEncoding.statedId(parcel.body);
        arrival = Arrival(r, gmp, messageId);
        (wasAbsorbed, wasRecorded) = (false, false);
        bool isKnownReceipt = delivered(r, messageId) & bit(gmp) != 0;
        bool isSound = isHonest && gas == ENOUGH_GAS && _isWayOpen(r, gmp, parcel);
        onRouter(r);
        try networks[gmp - 1].deliver{gas: gas}(parcel.sourceChain, parcel.sender, parcel.recipient, parcel.body) {
            accepted = true;
        } catch {
            forget();
            expect(!isSound, Rule.REFUSED_A_SOUND_DELIVERY);
        }
        listen();
        if (!accepted) return false;
        expect(wasAbsorbed == isKnownReceipt, isKnownReceipt ? Rule.RECEIPT_COUNTED_TWICE : Rule.RECEIPT_LOST);
        expect(wasRecorded != wasAbsorbed, Rule.RECEIPT_LOST);
        if (isSound && wasRecorded) expect(!isReady(r, messageId), Rule.STRANDED);
    }

    /// @dev Nothing is in the way of executing it now.
    function isReady(uint8 r, bytes32 messageId) internal view returns (bool) {
        Record memory entry = records[messageId];
        uint8 source = indexOf(entry.message.sourceRouter);
        if (!entry.created || entry.message.kind >= Kind.CANCELLATION || end[r][messageId] != Execution.NONE) {
            return false;
        }
        if (indexOf(entry.message.destinationRouter) != r || !isPeer[r][source] || !isLaneOpen(r)) return false;
        FickleRecipient recipient = FickleRecipient(address(uint160(uint256(entry.message.recipient))));
        if (isExpired(messageId) || recipient.mood() != FickleRecipient.Mood.ACCEPTS) return false;
        (uint8 receipts, uint8 quorum) = progress(r, messageId);
        return receipts >= quorum;
    }

    function _isWayOpen(uint8 r, uint8 gmp, InMemoryGmp.Parcel memory parcel) private view returns (bool) {
        InMemoryAdapter adapter = adapterOf[r][gmp];
        uint8 source = routerOfAdapter[address(uint160(uint256(parcel.sender)))];
        bytes32 trusted = adapter.remoteAdapterOf(parcel.sourceChain, address(routers[source]).toBytes32());
        return address(adapter).toBytes32() == parcel.recipient && trusted == parcel.sender && enabled[r][gmp]
            && !isPaused(r, gmp) && isLaneOpen(r) && isPeer[r][source];
    }

    function _lie(uint8 r, uint8 gmp, Message memory message, bytes32 stated) private returns (bool) {
        InMemoryGmp.Parcel memory parcel;
        uint8 from = indexOf(message.sourceRouter);
        if (from == ROUTERS) from = opposite(r, 0);
        parcel.sourceChain = chainBeyond(r);
        parcel.sender = address(adapterOf[from][gmp]).toBytes32();
        parcel.recipient = address(adapterOf[r][gmp]).toBytes32();
        parcel.body = MessageEncoding.encode(message, stated);
        bytes32 messageId = MessageEncoding.id(message);
        know(messageId, message);
        liars[messageId] |= bit(gmp);
        return handOver(gmp, parcel, ENOUGH_GAS, false);
    }

    function _invented(uint8 r, uint256 seed) private view returns (Message memory message) {
        message.sourceChain = chainBeyond(r);
        message.sourceRouter = address(routers[opposite(r, seed)]).toBytes32();
        message.sender = accountBy(seed).toBytes32();
        message.nonce = uint64(1000 + seed % 2);
        message.destinationChain = chainOf(r);
        message.destinationRouter = address(routers[r]).toBytes32();
        message.recipient = address(recipients[(r == 0 ? 0 : 2) + seed % 2]).toBytes32();
        message.gasLimit = 200_000;
        message.sentAt = uint64(START);
        message.quorum = uint8(1 + seed % 2);
        message.payload = "all your funds";
    }

    function _deliveryCall(uint8 r, Message memory message, bytes32 messageId)
        private
        view
        returns (address, bytes memory)
    {
        bytes32 sender = address(adapterOf[opposite(r, 0)][1]).toBytes32();
        bytes32 to = address(adapterOf[r][1]).toBytes32();
        bytes memory body = MessageEncoding.encode(message, messageId);
        return (address(networks[0]), abi.encodeCall(networks[0].deliver, (chainBeyond(r), sender, to, body)));
    }

    /// @dev Mostly where the message belongs.
    function _placeBy(bytes32 messageId, uint256 seed) private view returns (uint8 r) {
        r = indexOf(records[messageId].message.destinationRouter);
        if (r == ROUTERS || seed % 8 == 0) r = uint8((seed / 3) % ROUTERS);
    }
}
