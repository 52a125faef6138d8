// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, Message, Route} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {RouterFixture} from "./RouterFixture.sol";

/// @dev Senders whose profile is the chain's default: two GMPs, both of which must deliver.
abstract contract GatewayFixture is RouterFixture {
    bytes[] internal none;
    bytes internal to;

    function setUp() public override {
        super.setUp();
        to = InteroperableAddress.formatEvmV1(THERE, address(recipient));
        vm.startPrank(owner);
        source.profiles().setDefaultProfile(THERE, usualProfile());
        vm.stopPrank();
    }

    function usualProfile() internal pure returns (Profile memory) {
        return Profile({
            gmps: GmpSet.wrap(3),
            quorum: 2,
            gasLimit: GAS_LIMIT,
            ttl: 7 days,
            kind: Kind.PLAIN,
            retriable: false,
            maxFeeGwei: 0
        });
    }

    /// @dev The message that alice's next call makes of a profile.
    function expected(Profile memory profile, bytes memory payload) internal view returns (Message memory) {
        Route memory request = usualRoute(1, 1);
        request.payload = payload;
        (request.gasLimit, request.ttl) = (profile.gasLimit, profile.ttl);
        (request.kind, request.quorum) = (profile.kind, profile.quorum);
        return expectedMessage(alice, request);
    }

    function sendUnfunded() internal returns (Message memory message, bytes32 sendId) {
        message = expected(usualProfile(), "hello");
        vm.prank(alice);
        sendId = source.sendMessage(to, "hello", none);
    }
}
