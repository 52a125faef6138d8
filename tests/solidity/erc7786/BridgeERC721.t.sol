// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Message} from "../../../contracts/types/Message.sol";
import {GatewayChains} from "./GatewayChains.sol";
import {Collectible, CollectibleBridge} from "./doubles/OpenZeppelinApps.sol";

contract BridgeERC721Test is GatewayChains {
    Collectible private alphaToken;
    Collectible private betaToken;
    CollectibleBridge private alphaBridge;
    CollectibleBridge private betaBridge;
    address private immutable ann = makeAddr("ann");
    address private immutable bob = makeAddr("bob");

    function setUp() public override {
        super.setUp();
        (alphaToken, betaToken) = (new Collectible(), new Collectible());
        address second = vm.computeCreateAddress(address(this), vm.getNonce(address(this)) + 1);
        alphaBridge = new CollectibleBridge(alphaToken, _link(ALPHA, BETA, second));
        betaBridge = new CollectibleBridge(betaToken, _link(BETA, ALPHA, address(alphaBridge)));
    }

    function testFuzz_CarriesATokenThereAndBack(uint256 id) external {
        alphaToken.mint(ann, id);
        betaToken.mint(address(betaBridge), id);

        _carry(ALPHA, alphaToken, alphaBridge, ann, BETA, bob, id);
        assertEq(alphaToken.ownerOf(id), address(alphaBridge), "kept on alpha");
        assertEq(betaToken.ownerOf(id), bob, "Bob's on beta");

        _carry(BETA, betaToken, betaBridge, bob, ALPHA, ann, id);
        assertEq(betaToken.ownerOf(id), address(betaBridge), "kept on beta");
        assertEq(alphaToken.ownerOf(id), ann, "Ann's on alpha");
    }

    function _carry(
        uint64 home,
        Collectible token,
        CollectibleBridge bridge,
        address from,
        uint64 chain,
        address to,
        uint256 id
    ) private {
        vm.chainId(home);
        vm.prank(from);
        token.approve(address(bridge), id);
        vm.recordLogs();
        vm.prank(from);
        bridge.crosschainTransferFrom(from, InteroperableAddress.formatEvmV1(chain, to), id);
        Message memory message = _unfunded();
        _payAndDeliver(message);
        assertTrue(_isExecuted(message), "executed");
    }
}
