// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Gmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, Kind, Message, Retry, Route} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {Record, Rule} from "./Ghost.sol";
import {Witness} from "./Witness.sol";
import {FickleAccount} from "./doubles/FickleAccount.sol";

/// @dev What senders, retriers and payers do. Calls that the routers refuse are part of the play; that they are refused where
///      they should go through, or go through where they should be refused, is noted.
abstract contract SendingActions is Witness {
    using Addresses for address;

    uint16 internal constant ALL = 15;

    // ---- actions

    function route(uint256 seed, uint16 set, uint8 quorum, uint8 choice) public {
        uint8 r = uint8(seed % ROUTERS);
        address account = accountBy(seed / 3);
        Route memory request = requestBy(r, seed, set, quorum, choice % 2 == 0);
        request.refundTo = account;
        bool isSound = isLaneOpen(r) && peer[r] != 0;
        for (uint256 index; index < request.gmps.length; ++index) {
            uint8 gmp = Gmp.unwrap(request.gmps[index].gmp);
            isSound = isSound && takes(r, gmp);
        }
        onRouter(r);
        vm.prank(account);
        try routers[r].route{value: feesOf(request.gmps)}(request) {}
        catch {
            forget();
            expect(!isSound, Rule.REFUSED_A_SOUND_ROUTE);
        }
        listen();
    }

    function sendThroughGateway(uint256 seed, uint8 choice) public {
        uint8 r = uint8(seed % ROUTERS);
        bytes memory recipient = InteroperableAddress.formatEvmV1(chainBeyond(r), recipientBeyond(r, seed / 3));
        onRouter(r);
        vm.prank(accountBy(seed / 9));
        try routers[r].sendMessage{value: choice % 2 == 0 ? 10 gwei : 0}(recipient, abi.encode(seed), new bytes[](0)) {}
        catch {
            forget();
        }
        listen();
    }

    function retry(uint256 idSeed, uint256 callerSeed, uint16 set) public {
        bytes32 messageId = idBy(idSeed);
        Record memory entry = records[messageId];
        uint8 r = entry.created ? entry.source : uint8(callerSeed % ROUTERS);
        Retry memory request = Retry(messageId, entry.message, 1, gmpsOf(set), accountBy(callerSeed));
        address sender = address(uint160(uint256(entry.message.sender)));
        address caller = callerFor(entry.message.sender, callerSeed);
        onRouter(r);
        vm.prank(caller);
        try routers[r].retryRoute{value: caller.balance < 1 ether ? 0 : feesOf(request.gmps)}(request) {
            bool mayRetry = caller == sender || caller == retrier[r][sender] || entry.message.kind == Kind.REPORT;
            expect(mayRetry, Rule.RETRIED_BY_ANOTHER);
            bool isOpen = isLaneOpen(r) && isPeer[r][indexOf(entry.message.destinationRouter)];
            bool isAlive = entry.created && entry.retriable && !entry.unfunded && !entry.cancelled;
            expect(isAlive && isOpen && !isExpired(messageId), Rule.RETRIED_WHAT_MAY_NOT_BE);
        } catch {
            forget();
        }
        listen();
    }

    function fund(uint256 idSeed, uint256 callerSeed) public {
        bytes32 messageId = idBy(idSeed);
        // Looks for one that waits, since few do.
        for (uint256 step; step < ids.length && records[messageId].waiting == 0; ++step) {
            messageId = ids[(idSeed % ids.length + step) % ids.length];
        }
        Record memory entry = records[messageId];
        uint8 r = entry.source;
        address payer = accountBy(callerSeed);
        onRouter(r);
        uint256 value = feesOf(gmpsOf(ALL));
        bool isSound = entry.created && !entry.cancelled && !isExpired(messageId) && isLaneOpen(r)
            && isPeer[r][indexOf(entry.message.destinationRouter)] && canBeFunded(r, entry) && payer.balance >= value;
        vm.prank(payer);
        try routers[r].fund{value: value}(entry.message, payer) {
            bool waited = entry.created && entry.waiting != 0 && !entry.cancelled && !isExpired(messageId);
            expect(waited && isLaneOpen(r), Rule.DISPATCHED_WHAT_WAS_NOT_WAITING);
        } catch {
            forget();
            // Whatever a stranger did before, and whenever: who pays has it sent.
            expect(!isSound, Rule.LOCKED_OUT);
        }
        isFunding = true;
        listen();
        isFunding = false;
    }

    /// @dev Whoever acts in a GMP's callback picks the worst moment: while a router sends.
    function actInACallback(uint256 idSeed, uint256 gmpSeed, uint8 choice) public {
        Message memory message = records[idBy(idSeed)].message;
        uint8 r = uint8(choice / 8 % ROUTERS);
        bytes memory call = abi.encodeCall(routers[r].fund, (message, address(this)));
        if (choice % 8 == 1) call = abi.encodeCall(routers[r].execute, (message));
        if (choice % 8 == 2) call = abi.encodeCall(routers[r].expire, (message));
        if (choice % 8 == 3) call = abi.encodeCall(routers[r].report, (message, 1, gmpsOf(1), address(this)));
        if (choice % 8 == 4) {
            Retry memory again = Retry(idBy(idSeed), message, 1, gmpsOf(1), address(this));
            call = abi.encodeCall(routers[r].retryRoute, (again));
        }
        if (choice % 8 == 5) {
            Route memory request = requestBy(r, idSeed, 1, 1, true);
            request.refundTo = address(this);
            call = abi.encodeCall(routers[r].route, (request));
        }
        networks[gmpSeed % GMPS].arm(address(routers[r]), call);
    }

    /// @dev A quote that nobody can pay; the first GMP stays free.
    function askTooMuch(uint256 gmpSeed, uint8 choice) public {
        uint256 index = 1 + gmpSeed % (GMPS - 1);
        networks[index].setFee(choice % 4 == 0 ? type(uint256).max : index * 1 gwei);
    }

    function cancel(uint256 idSeed, uint256 callerSeed, uint16 set) public {
        bytes32 messageId = idBy(idSeed);
        Record memory entry = records[messageId];
        uint8 r = entry.source;
        address sender = address(uint160(uint256(entry.message.sender)));
        address caller = callerFor(entry.message.sender, callerSeed);
        GmpFee[] memory gmps = gmpsOf(set);
        onRouter(r);
        vm.prank(caller);
        try routers[r].cancel{value: caller.balance < 1 ether ? 0 : feesOf(gmps)}(entry.message, 1, gmps, caller) {
            // Also of one that some GMP made up in its name.
            expect(caller == sender, Rule.CANCELLED_BY_ANOTHER);
        } catch {
            forget();
        }
        listen();
    }

    function report(uint256 idSeed, uint256 callerSeed, uint16 set) public {
        bytes32 messageId = idBy(idSeed);
        Message memory message = records[messageId].message;
        uint8 r = indexOf(message.destinationRouter);
        if (r == ROUTERS) return;
        GmpFee[] memory gmps = gmpsOf(set);
        onRouter(r);
        vm.prank(accountBy(callerSeed));
        try routers[r].report{value: feesOf(gmps)}(message, 1, gmps, accountBy(callerSeed / 5)) {
            expect(end[r][messageId] != Execution.NONE, Rule.UNTRUE_OUTCOME);
        } catch {
            forget();
        }
        listen();
    }

    function appointRetrier(uint256 seed) public {
        uint8 r = uint8(seed % ROUTERS);
        (address sender, address appointed) = (accountBy(seed / 3), accountBy(seed / 9));
        onRouter(r);
        vm.prank(sender);
        routers[r].appointRetrier(appointed);
        retrier[r][sender] = appointed;
        listen();
    }

    function withdraw(uint256 seed) public {
        (uint8 r, address account) = (uint8(seed % ROUTERS), accountBy(seed / 3));
        address to = accountBy(seed / 9);
        // Looks for a credit, since there are few.
        for (uint256 step = 1; step < ROUTERS * ACCOUNTS && credit[r][account] == 0; ++step) {
            (r, account) = (uint8((seed % ROUTERS + step) % ROUTERS), accountBy(seed / 3 + step / ROUTERS));
        }
        uint256 due = credit[r][account];
        onRouter(r);
        vm.prank(account);
        try routers[r].withdraw(payable(to)) {
            expect(due != 0, Rule.PAID_WRONGLY);
        } catch {
            forget();
        }
        listen();
    }

    function changeAccountsMood(uint256 seed, uint8 mood) public {
        accounts[seed % ACCOUNTS].setMood(FickleAccount.Mood(mood % 3));
    }

    function forceEther(uint8 r, uint64 amount) public {
        r %= ROUTERS;
        vm.deal(address(routers[r]), address(routers[r]).balance + amount);
        forced[r] += amount;
    }

    // ---- what they choose from

    function accountBy(uint256 seed) internal view returns (address) {
        return address(accounts[seed % ACCOUNTS]);
    }

    /// @dev Mostly the sender itself: strangers are refused, and nothing else would be tried. A router sends its reports and
    ///      calls no router, so it pays for nothing with the ether that was forced on it.
    function callerFor(bytes32 sender, uint256 seed) internal view returns (address) {
        bool isAnother = seed % 4 == 0 || indexOf(sender) != ROUTERS;
        return isAnother ? accountBy(seed / 5) : address(uint160(uint256(sender)));
    }

    /// @dev The first two recipients live on alpha, the others on beta.
    function recipientBeyond(uint8 r, uint256 seed) internal view returns (address) {
        return address(recipients[(r == 0 ? 2 : 0) + seed % 2]);
    }

    /// @dev One of the newest, since not much can happen any more to the others.
    function idBy(uint256 seed) internal view returns (bytes32) {
        uint256 count = ids.length;
        return count == 0 ? bytes32(0) : ids[count - 1 - seed % (count < 12 ? count : 12)];
    }

    function gmpsOf(uint16 set) internal view returns (GmpFee[] memory gmps) {
        set &= ALL;
        if (set == 0) set = ALL;
        gmps = new GmpFee[](sizeOf(set));
        uint256 index;
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            if (set & bit(gmp) != 0) {
                gmps[index++] = GmpFee(Gmp.wrap(gmp), asksTooMuch(gmp) ? 0 : networks[gmp - 1].fee());
            }
        }
    }

    function asksTooMuch(uint8 gmp) internal view returns (bool) {
        return networks[gmp - 1].fee() > 1 ether;
    }

    function takes(uint8 r, uint8 gmp) internal view returns (bool) {
        return enabled[r][gmp] && !isPaused(r, gmp) && !networks[gmp - 1].broken() && !asksTooMuch(gmp);
    }

    function canBeFunded(uint8 r, Record memory entry) internal view returns (bool) {
        uint256 able;
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            if (entry.waiting & bit(gmp) != 0 && takes(r, gmp)) ++able;
        }
        return able != 0 && (!entry.unfunded || able >= entry.message.quorum);
    }

    function feesOf(GmpFee[] memory gmps) internal pure returns (uint256 sum) {
        for (uint256 index; index < gmps.length; ++index) {
            sum += gmps[index].fee;
        }
    }

    function requestBy(uint8 r, uint256 seed, uint16 set, uint8 quorum, bool retriable)
        internal
        view
        returns (Route memory request)
    {
        request.destinationChain = chainBeyond(r);
        request.recipient = recipientBeyond(r, seed / 9).toBytes32();
        request.payload = abi.encode(seed % 7);
        request.gasLimit = seed % 5 == 0 ? 2_000_000 : 200_000;
        request.kind = seed % 3 == 0 ? Kind.STATE_SYNC : Kind.PLAIN;
        request.ttl = seed % 3 == 1 ? 0 : uint32(1 hours + seed % 2 days);
        request.gmps = gmpsOf(set);
        request.quorum = uint8(1 + quorum % request.gmps.length);
        request.retriable = retriable;
        request.minDispatched = retriable && seed % 4 != 0 ? 1 : 0;
    }
}
