// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {Lanes} from "../../../contracts/client/Lanes.sol";
import {IMessageReceiver} from "../../../contracts/interfaces/IMessageReceiver.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {Message, Retry} from "../../../contracts/types/Message.sol";
import {GatewayChains} from "./GatewayChains.sol";
import {CrosschainToken, Token, TokenBridge} from "./doubles/OpenZeppelinApps.sol";

contract BridgeERC20Test is GatewayChains {
    Token private alphaToken;
    Token private betaToken;
    TokenBridge private alphaBridge;
    TokenBridge private betaBridge;
    address private immutable ann = makeAddr("ann");
    address private immutable bob = makeAddr("bob");

    function setUp() public override {
        super.setUp();
        (alphaToken, betaToken) = (new Token(), new Token());
        address second = vm.computeCreateAddress(address(this), vm.getNonce(address(this)) + 1);
        alphaBridge = new TokenBridge(alphaToken, _link(ALPHA, BETA, second));
        betaBridge = new TokenBridge(betaToken, _link(BETA, ALPHA, address(alphaBridge)));
        assertEq(address(betaBridge), second);
        alphaToken.mint(ann, 1000);
        vm.prank(ann);
        alphaToken.approve(address(alphaBridge), 1000);
        betaToken.mint(address(betaBridge), 1000);
    }

    function _transfer(uint256 amount) private returns (Message memory message) {
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(ann);
        bytes32 sendId = alphaBridge.crosschainTransfer(InteroperableAddress.formatEvmV1(BETA, bob), amount);
        message = _unfunded();
        assertEq(sendId, message.id(), "sendId");
    }

    function testFuzz_PaysOutThereWhatItKeptHere(uint256 amount) external {
        amount = bound(amount, 0, 1000);
        Message memory message = _transfer(amount);
        assertEq(alphaToken.balanceOf(address(alphaBridge)), amount, "kept");
        assertEq(betaToken.balanceOf(bob), 0, "paid out before anyone paid for the message");
        _payAndDeliver(message);
        assertEq(betaToken.balanceOf(bob), amount, "paid out");
    }

    function test_RevertWhen_TheMessageIsPaidForTwice() external {
        Message memory message = _transfer(10);
        _pay(message);
        uint256 fees = _price(message);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.NotUnfunded.selector, message.id()));
        vm.prank(payer);
        routers[ALPHA].fund{value: fees}(message, payer);
    }

    /// @dev The bridge could not call {retryRoute}, and its messages are not retriable: what helps is another delivery, or {execute}.
    function test_RevertWhen_ATransferIsRetriedInsteadOfDeliveredAgain() external {
        Message memory message = _transfer(10);
        _pay(message);
        _bring(message, 1);
        (Retry memory way, uint256 fees) = Lanes.retryOf(routers[ALPHA], message, ALL, payer);
        vm.chainId(ALPHA);
        vm.deal(address(alphaBridge), fees);
        vm.expectRevert(abi.encodeWithSelector(IMessageSender.NotRetriable.selector, message.id()));
        vm.prank(address(alphaBridge));
        routers[ALPHA].retryRoute{value: fees}(way);

        _bring(message, 2);
        assertEq(betaToken.balanceOf(bob), 10, "paid out on the second delivery");
    }

    function test_PaysOutLaterWhenTheOtherSideHadNothing() external {
        vm.prank(address(betaBridge));
        betaToken.transfer(address(1), 1000);
        Message memory message = _transfer(10);
        _payAndDeliver(message);
        assertFalse(_isExecuted(message), "executed without tokens");

        betaToken.mint(address(betaBridge), 10);
        _execute(message);
        assertEq(betaToken.balanceOf(bob), 10, "paid out");
        vm.expectRevert();
        _execute(message);
    }

    function test_ALateDeliveryPaysOutNothingMore() external {
        Message memory message = _transfer(10);
        _payAndDeliver(message);
        _bring(message, 3);
        assertEq(betaToken.balanceOf(bob), 10);
    }

    function test_OneGmpIsNotEnough() external {
        Message memory message = _transfer(10);
        _pay(message);
        _bring(message, 1);
        assertEq(betaToken.balanceOf(bob), 0);
        vm.expectRevert();
        _execute(message);
    }

    /// @dev The bridge asks for two GMPs on its way out and has no policy on its way in: the lane's floor is all that protects it.
    function testFuzz_OneLyingGmpCannotDrainTheBridge(uint8 liar) external {
        bytes memory payload = abi.encode(bytes(""), abi.encodePacked(bob), uint256(1000));
        Message memory forged = _forged(address(alphaBridge), address(betaBridge), payload);
        _bring(forged, uint8(bound(liar, 1, GMPS)));
        assertEq(betaToken.balanceOf(bob), 0, "one liar was believed");
        vm.expectRevert(abi.encodeWithSelector(IMessageReceiver.QuorumNotReached.selector, forged.id(), 1, 2));
        _execute(forged);
    }

    function testFuzz_AStrangersMessagePaysOutNothing(address stranger) external {
        vm.assume(stranger != address(alphaBridge) && stranger != address(0));
        bytes memory payload = abi.encode(bytes(""), abi.encodePacked(bob), uint256(1000));
        bytes memory to = InteroperableAddress.formatEvmV1(BETA, address(betaBridge));
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(stranger);
        routers[ALPHA].sendMessage(to, payload, new bytes[](0));
        Message memory message = _unfunded();
        _payAndDeliver(message);
        assertFalse(_isExecuted(message));
        assertEq(betaToken.balanceOf(bob), 0);
    }
}

contract ERC20CrosschainTest is GatewayChains {
    CrosschainToken private alphaToken;
    CrosschainToken private betaToken;
    Message[] private _underWay;
    uint256 private constant SUPPLY = 1_000_000;

    function setUp() public override {
        super.setUp();
        address second = vm.computeCreateAddress(address(this), vm.getNonce(address(this)) + 1);
        alphaToken = new CrosschainToken(address(this), SUPPLY, _link(ALPHA, BETA, second));
        betaToken = new CrosschainToken(address(this), SUPPLY, _link(BETA, ALPHA, address(alphaToken)));
    }

    /// @dev Transfers to and fro, some delivered at once and some at the end; nothing is made or lost on the way.
    function testFuzz_SuppliesAndTransfersUnderWayAddUp(uint256 seed) external {
        uint256 onTheWay;
        for (uint256 round; round < 6; ++round) {
            seed = uint256(keccak256(abi.encode(seed)));
            (Message memory message, uint256 amount) = _transfer(seed & 1 == 0, seed >> 8);
            _pay(message);
            if (seed & 2 == 0) {
                _deliver(message);
            } else {
                _underWay.push(message);
                onTheWay += amount;
            }
            assertEq(alphaToken.totalSupply() + betaToken.totalSupply() + onTheWay, 2 * SUPPLY);
        }
        for (uint256 index; index < _underWay.length; ++index) {
            _deliver(_underWay[index]);
        }
        assertEq(alphaToken.totalSupply() + betaToken.totalSupply(), 2 * SUPPLY);
        assertEq(alphaToken.balanceOf(address(this)) + betaToken.balanceOf(address(this)), 2 * SUPPLY);
    }

    function _transfer(bool forth, uint256 wanted) private returns (Message memory, uint256 amount) {
        (uint64 from, uint64 to) = forth ? (ALPHA, BETA) : (BETA, ALPHA);
        CrosschainToken token = forth ? alphaToken : betaToken;
        amount = wanted % (token.balanceOf(address(this)) + 1);
        vm.chainId(from);
        vm.recordLogs();
        token.crosschainTransfer(InteroperableAddress.formatEvmV1(to, address(this)), amount);
        return (_unfunded(), amount);
    }
}
