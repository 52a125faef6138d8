// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {Gmp} from "../../../contracts/types/Gmp.sol";
import {GmpFee, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {AdapterBehaviour} from "./AdapterBehaviour.t.sol";

/// @notice What holds besides for a GMP that limits the length of messages.
abstract contract LimitedPayload is AdapterBehaviour {
    function test_OneByteOverTheLimitFailsOverThisGmpAlone() external {
        bytes memory payload = _noise(network.longestEnvelope() - MessageEncoding.HEADER_LENGTH + 1);
        GmpFee[] memory gmps = new GmpFee[](2);
        (gmps[0], gmps[1]) = (GmpFee(network.gmp(), 1 ether), GmpFee(OTHER_GMP, 0));
        Route memory request = _request(address(recipient), "", 100_000);
        (request.payload, request.gmps) = (payload, gmps);

        vm.recordLogs();
        vm.prank(dapp);
        alphaRouter.route{value: 1 ether}(request);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs[1].topics[0], IMessageSender.DispatchFailed.selector, "the GMP refused");
        assertEq(uint256(logs[1].topics[2]), Gmp.unwrap(network.gmp()), "which GMP");
        assertEq(network.collect(logs, ALPHA, BETA, address(betaAdapter)).length, 0, "parcels accepted by the GMP");
        assertEq(refundee.balance, 1 ether, "its fee came back");
    }
}
