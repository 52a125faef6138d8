// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {InMemoryAdapter} from "../../../contracts/testing/InMemoryAdapter.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Rule} from "./Ghost.sol";
import {ReceivingActions} from "./ReceivingActions.sol";

/// @dev All actions; those of owners and of time are here. The owner does what it may, so it must succeed.
contract Handler is ReceivingActions {
    using Addresses for address;

    // ---- adapters

    function replaceAdapter(uint8 r, uint8 gmp) public {
        (r, gmp) = (r % ROUTERS, 1 + gmp % GMPS);
        if (!enabled[r][gmp]) return;
        InMemoryAdapter adapter = makeAdapter(r, gmp);
        _asOwner(r);
        routers[r].replaceAdapter(Gmp.wrap(gmp), address(adapter));
        listen();
    }

    function revokeAdapter(uint8 r, uint8 gmp) public {
        (r, gmp) = (r % ROUTERS, 1 + gmp % GMPS);
        if (!enabled[r][gmp]) return;
        _asOwner(r);
        routers[r].revokeAdapter(Gmp.wrap(gmp));
        listen();
        enabled[r][gmp] = false;
        ++epoch[r][gmp];
    }

    function addAdapter(uint8 r, uint8 gmp) public {
        (r, gmp) = (r % ROUTERS, 1 + gmp % GMPS);
        // The lowest that is missing, so that it does not stay so for long.
        for (uint8 step; step < GMPS && enabled[r][gmp]; ++step) {
            gmp = 1 + gmp % GMPS;
        }
        if (enabled[r][gmp]) return;
        InMemoryAdapter adapter = makeAdapter(r, gmp);
        _asOwner(r);
        routers[r].addAdapter(Gmp.wrap(gmp), address(adapter));
        listen();
        enabled[r][gmp] = true;
    }

    // ---- pauses

    function pauseGmp(uint8 r, uint8 gmp, uint256 duration) public {
        (r, gmp) = (r % ROUTERS, 1 + gmp % GMPS);
        if (!enabled[r][gmp]) return;
        uint256 until = time + bound(duration, 1, 1 hours);
        _asOwner(r);
        routers[r].pauseGmp(Gmp.wrap(gmp), uint48(until));
        listen();
        gmpPausedUntil[r][gmp] = until;
    }

    /// @dev Until the tripwire's allowance is spent. It never ends a pause sooner.
    function tripGmp(uint8 r, uint8 gmp, uint256 duration) public {
        (r, gmp) = (r % ROUTERS, 1 + gmp % GMPS);
        uint256 until = time + bound(duration, 1, 1 hours);
        uint256 from = isPaused(r, gmp) ? gmpPausedUntil[r][gmp] : time;
        if (!enabled[r][gmp] || until <= from) return;
        if (routers[r].tripwireAllowance(Gmp.wrap(gmp)) < until - from) return;
        onRouter(r);
        vm.prank(tripwire);
        routers[r].pauseGmp(Gmp.wrap(gmp), uint48(until));
        listen();
        gmpPausedUntil[r][gmp] = until;
    }

    function endGmpPause(uint8 r, uint8 gmp) public {
        (r, gmp) = (r % ROUTERS, 1 + gmp % GMPS);
        _asOwner(r);
        routers[r].endGmpPause(Gmp.wrap(gmp));
        listen();
        if (isPaused(r, gmp)) gmpPausedUntil[r][gmp] = time;
    }

    function pauseLane(uint8 r, uint256 duration) public {
        r %= ROUTERS;
        uint256 until = time + bound(duration, 1, 1 hours);
        _asOwner(r);
        routers[r].pauseLane(chainBeyond(r), uint48(until));
        listen();
        lanePausedUntil[r] = until;
    }

    function endLanePause(uint8 r) public {
        r %= ROUTERS;
        _asOwner(r);
        routers[r].endLanePause(chainBeyond(r));
        listen();
        if (!isLaneOpen(r)) lanePausedUntil[r] = time;
    }

    // ---- peers and demands

    function changePeer(uint8 r, uint256 seed) public {
        r %= ROUTERS;
        uint8 other = opposite(r, seed);
        _asOwner(r);
        routers[r].setPeer(chainBeyond(r), address(routers[other]).toBytes32(), 1);
        listen();
        peer[r] = other + 1;
        isPeer[r][other] = true;
    }

    function revokePeer(uint8 r, uint256 seed) public {
        r %= ROUTERS;
        uint8 other = opposite(r, seed / 4);
        // Seldom, since hardly anything goes on without peers.
        if (!isPeer[r][other] || seed % 4 != 0) return;
        _asOwner(r);
        routers[r].revokePeer(chainBeyond(r), address(routers[other]).toBytes32());
        listen();
        isPeer[r][other] = false;
        if (peer[r] == other + 1) peer[r] = 0;
    }

    function setFloor(uint8 r, uint8 least) public {
        (r, least) = (r % ROUTERS, 1 + least % 3);
        _asOwner(r);
        routers[r].setFloor(chainBeyond(r), least);
        listen();
        floor[r] = least;
    }

    /// @dev Recipients demand for messages and cancellations, senders for reports.
    function setPolicy(uint8 r, uint256 seed, uint8 quorum, uint16 gmps) public {
        (r, quorum, gmps) = (r % ROUTERS, quorum % 4, gmps & ALL);
        if (quorum > sizeOf(gmps)) quorum = sizeOf(gmps);
        if (quorum == 0) gmps = 0;
        address account = seed % 3 == 0 ? accountBy(seed / 3) : address(recipients[seed % RECIPIENTS]);
        onRouter(r);
        vm.prank(account);
        routers[r].setPolicy(chainBeyond(r), quorum, GmpSet.wrap(gmps));
        listen();
        (policyQuorum[r][account], policyGmps[r][account]) = (quorum, gmps);
    }

    /// @dev Whoever has no role tries what the owner does.
    function configureAsAStranger(uint8 r, uint256 seed) public {
        r %= ROUTERS;
        bytes32 router = address(routers[opposite(r, 0)]).toBytes32();
        bytes memory call = abi.encodeCall(routers[r].revokeAdapter, (Gmp.wrap(1)));
        if (seed % 5 == 1) call = abi.encodeCall(routers[r].setPeer, (chainBeyond(r), router, 1));
        if (seed % 5 == 2) call = abi.encodeCall(routers[r].setFloor, (chainBeyond(r), 1));
        if (seed % 5 == 3) call = abi.encodeCall(routers[r].pauseLane, (chainBeyond(r), uint48(time + 1)));
        if (seed % 5 == 4) call = abi.encodeCall(routers[r].replaceAdapter, (Gmp.wrap(1), address(this)));
        onRouter(r);
        vm.prank(accountBy(seed / 3));
        (bool success,) = address(routers[r]).call(call);
        expect(!success, Rule.CONFIGURED_BY_A_STRANGER);
        listen();
    }

    // ---- time

    function warp(uint256 duration) public {
        time += bound(duration, 1, 6 hours);
    }

    // ---- for the invariants

    /// @dev On that router's chain, at the present time: views ask for both.
    function visit(uint8 r) external {
        onChainOf(r);
    }

    function currentAdapter(uint8 r, uint8 gmp) external view returns (address) {
        return enabled[r][gmp] ? address(adapterOf[r][gmp]) : address(0);
    }

    function adaptersLength() external view returns (uint256) {
        return adapters.length;
    }

    function _asOwner(uint8 r) private {
        onRouter(r);
        vm.prank(owner);
    }
}
