// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {CommonBase} from "forge-std/Base.sol";
import {StdCheats} from "forge-std/StdCheats.sol";
import {StdUtils} from "forge-std/StdUtils.sol";

import {IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {InMemoryAdapter} from "../../../contracts/testing/InMemoryAdapter.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {FickleAccount} from "./doubles/FickleAccount.sol";
import {FickleRecipient} from "./doubles/FickleRecipient.sol";
import {NosyGmp} from "./doubles/NosyGmp.sol";

/// @dev Two chains in one EVM: a router on alpha, and on beta a router and its successor. Four GMPs carry between them; they
///      believe everybody, so a lie is a delivery of something that nobody sent.
abstract contract World is CommonBase, StdCheats, StdUtils {
    using Addresses for address;

    uint64 internal constant ALPHA = 901;
    uint64 internal constant BETA = 902;
    uint8 public constant ROUTERS = 3;
    uint8 public constant GMPS = 4;
    uint8 public constant RECIPIENTS = 4;
    uint8 public constant ACCOUNTS = 3;
    uint256 internal constant START = 1_700_000_000;
    uint256 public constant WEALTH = 1_000_000 ether;

    address internal owner = makeAddr("owner");
    address internal tripwire = makeAddr("tripwire");

    /// @dev The time on both chains, Unix seconds.
    uint256 public time = START;

    IRouter[ROUTERS] public routers;
    NosyGmp[GMPS] public networks;
    FickleRecipient[RECIPIENTS] public recipients;
    FickleAccount[ACCOUNTS] public accounts;

    /// @dev Every adapter there has ever been, and the router that it was made for.
    InMemoryAdapter[] public adapters;
    mapping(address adapter => uint8 router) internal routerOfAdapter;
    mapping(uint8 router => mapping(uint8 gmp => InMemoryAdapter)) internal adapterOf;

    constructor() {
        vm.warp(START);
        for (uint8 r; r < ROUTERS; ++r) {
            routers[r] = TestedRouter.deploy(owner);
            vm.prank(owner);
            routers[r].setTripwire(tripwire);
        }
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            networks[gmp - 1] = new NosyGmp();
            // The first is free, so that a recipient without money can send while it receives.
            networks[gmp - 1].setFee((gmp - 1) * 1 gwei);
            for (uint8 r; r < ROUTERS; ++r) {
                makeAdapter(r, gmp);
                vm.prank(owner);
                routers[r].addAdapter(Gmp.wrap(gmp), address(adapterOf[r][gmp]));
            }
        }
        connectRouter(1, 0);
        connectRouter(2, 0);
        connectRouter(0, 2);
        connectRouter(0, 1);
        for (uint8 index; index < RECIPIENTS; ++index) {
            recipients[index] = new FickleRecipient();
        }
        for (uint8 index; index < ACCOUNTS; ++index) {
            accounts[index] = new FickleAccount();
            vm.deal(address(accounts[index]), WEALTH);
        }
    }

    // ---- places

    function chainOf(uint8 r) public pure returns (uint64) {
        return r == 0 ? ALPHA : BETA;
    }

    function chainBeyond(uint8 r) public pure returns (uint64) {
        return r == 0 ? BETA : ALPHA;
    }

    /// @dev A router on the other chain.
    function opposite(uint8 r, uint256 seed) internal pure returns (uint8) {
        return r == 0 ? uint8(1 + seed % 2) : 0;
    }

    /// @dev The router at an address, or ROUTERS.
    function indexOf(address router) internal view returns (uint8 r) {
        while (r < ROUTERS && address(routers[r]) != router) {
            ++r;
        }
    }

    function indexOf(bytes32 router) internal view returns (uint8) {
        return indexOf(address(uint160(uint256(router))));
    }

    /// @dev From now on the calls are made on that router's chain, at the present time.
    function onChainOf(uint8 r) internal {
        vm.chainId(chainOf(r));
        vm.warp(time);
    }

    // ---- connections

    function connectRouter(uint8 r, uint8 peer) private {
        onChainOf(r);
        vm.prank(owner);
        routers[r].setPeer(chainOf(peer), address(routers[peer]).toBytes32(), 1);
        IProfiles profiles = routers[r].profiles();
        vm.prank(owner);
        profiles.setDefaultProfile(chainOf(peer), Profile(GmpSet.wrap(7), 2, 200_000, 2 days, Kind.PLAIN, r == 0, 0));
    }

    /// @dev Deploys an adapter for the router and connects it with those of the routers on the other chain.
    function makeAdapter(uint8 r, uint8 gmp) internal returns (InMemoryAdapter adapter) {
        adapter = new InMemoryAdapter(routers[r], networks[gmp - 1]);
        adapters.push(adapter);
        routerOfAdapter[address(adapter)] = r;
        adapterOf[r][gmp] = adapter;
        for (uint8 other; other < ROUTERS; ++other) {
            if (chainOf(other) == chainOf(r) || address(adapterOf[other][gmp]) == address(0)) continue;
            connect(r, other, gmp);
            connect(other, r, gmp);
        }
    }

    function connect(uint8 r, uint8 other, uint8 gmp) private {
        vm.prank(owner);
        adapterOf[r][gmp].connect(
            chainOf(other), address(routers[other]).toBytes32(), address(adapterOf[other][gmp]).toBytes32()
        );
    }
}
