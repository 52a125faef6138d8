// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Mode} from "@openzeppelin/contracts/account/utils/draft-ERC7579Utils.sol";
import {CrosschainRemoteExecutor} from "@openzeppelin/contracts/crosschain/CrosschainRemoteExecutor.sol";
import {GovernorCrosschain} from "@openzeppelin/contracts/governance/extensions/GovernorCrosschain.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Message} from "../../../contracts/types/Message.sol";
import {GatewayChains} from "./GatewayChains.sol";
import {ChainGovernor, Governed} from "./doubles/OpenZeppelinApps.sol";

contract GovernorCrosschainTest is GatewayChains {
    Mode private constant SINGLE_CALL = Mode.wrap(0);

    ChainGovernor private governor;
    CrosschainRemoteExecutor private executor;
    Governed private governed;

    function setUp() public override {
        super.setUp();
        governor = new ChainGovernor();
        executor = new CrosschainRemoteExecutor(
            address(routers[BETA]), InteroperableAddress.formatEvmV1(ALPHA, address(governor))
        );
        governed = new Governed(address(executor));
    }

    function testFuzz_CarriesOutThereWhatWasVotedHere(uint256 value) external {
        bytes memory relay = abi.encodeCall(
            GovernorCrosschain.relayCrosschain,
            (address(routers[ALPHA]), _executorAddress(), SINGLE_CALL, _setCall(value))
        );
        vm.chainId(ALPHA);
        vm.recordLogs();
        _vote(relay);
        Message memory message = _unfunded();
        _payAndDeliver(message);
        assertTrue(_isExecuted(message), "executed");
        assertEq(governed.value(), value);
    }

    function testFuzz_CarriesOutNothingForAnybodyElse(address stranger) external {
        vm.assume(stranger != address(governor) && stranger != address(0));
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(stranger);
        routers[ALPHA].sendMessage(_executorAddress(), abi.encodePacked(SINGLE_CALL, _setCall(666)), new bytes[](0));
        Message memory message = _unfunded();
        _payAndDeliver(message);
        assertFalse(_isExecuted(message), "executed");
        assertEq(governed.value(), 0);
    }

    /// @dev OpenZeppelin's executor calls whatever the governor's message says.
    function testFuzz_OneLyingGmpCannotCallAnythingInTheGovernorsName(uint8 liar) external {
        bytes memory payload = abi.encodePacked(SINGLE_CALL, _setCall(666));
        Message memory forged = _forged(address(governor), address(executor), payload);
        _bring(forged, uint8(bound(liar, 1, GMPS)));
        assertFalse(_isExecuted(forged), "executed");
        assertEq(governed.value(), 0);
    }

    function _vote(bytes memory relay) private {
        address[] memory targets = new address[](1);
        targets[0] = address(governor);
        bytes[] memory calls = new bytes[](1);
        calls[0] = relay;
        uint256 proposal = governor.propose(targets, new uint256[](1), calls, "set it");
        vm.warp(block.timestamp + 2);
        governor.castVote(proposal, 1);
        vm.warp(block.timestamp + 1 days);
        governor.execute(targets, new uint256[](1), calls, keccak256("set it"));
    }

    function _executorAddress() private view returns (bytes memory) {
        return InteroperableAddress.formatEvmV1(BETA, address(executor));
    }

    function _setCall(uint256 value) private view returns (bytes memory) {
        return abi.encodePacked(address(governed), uint256(0), abi.encodeCall(Governed.set, (value)));
    }
}
