// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {CrosschainLinked} from "@openzeppelin/contracts/crosschain/CrosschainLinked.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";
import {Vm} from "forge-std/Vm.sol";

import {Lanes} from "../../../contracts/client/Lanes.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IProfiles} from "../../../contracts/interfaces/IProfiles.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {Kind, Message} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {CourierChains} from "../client/CourierChains.sol";

/// @notice Two routers as ERC-7786 gateways, for senders that know nothing of Waybill: they send no value and no attributes, so
///         the lane's default profile says how their messages travel, and somebody else pays.
abstract contract GatewayChains is CourierChains {
    using Addresses for address;

    address internal immutable payer = makeAddr("payer");

    function setUp() public virtual override {
        super.setUp();
        vm.deal(payer, 100 ether);
        _setDefault(ALPHA, BETA);
        _setDefault(BETA, ALPHA);
    }

    function _setDefault(uint64 home, uint64 chain) private {
        vm.chainId(home);
        Profile memory profile = Profile({
            gmps: ALL, quorum: 2, gasLimit: 300_000, ttl: 7 days, kind: Kind.PLAIN, retriable: false, maxFeeGwei: 0
        });
        IProfiles profiles = routers[home].profiles();
        vm.prank(owner);
        profiles.setDefaultProfile(chain, profile);
    }

    /// @dev The link of an OpenZeppelin contract on `home` to its counterpart on the other chain.
    function _link(uint64 home, uint64 chain, address counterpart)
        internal
        view
        returns (CrosschainLinked.Link[] memory links)
    {
        links = new CrosschainLinked.Link[](1);
        links[0] = CrosschainLinked.Link(address(routers[home]), InteroperableAddress.formatEvmV1(chain, counterpart));
    }

    /// @dev The message that was kept unfunded since the last `vm.recordLogs()`.
    function _unfunded() internal returns (Message memory) {
        return _unfundedIn(vm.getRecordedLogs());
    }

    /// @dev The message that was kept unfunded, of all that was emitted meanwhile.
    function _unfundedIn(Vm.Log[] memory logs) internal view returns (Message memory message) {
        for (uint256 index; index < logs.length; ++index) {
            if (logs[index].topics[0] != IMessageSender.MessageUnfunded.selector) continue;
            (,, bytes memory envelope) = abi.decode(logs[index].data, (bool, uint16, bytes));
            return this.decodeEnvelope(envelope);
        }
        revert("no message was kept unfunded");
    }

    /// @dev What a GMP that lies makes up: a message of `sender` on alpha that asks for one receipt.
    function _forged(address sender, address recipient, bytes memory payload) internal view returns (Message memory) {
        return Message({
            sourceChain: ALPHA,
            sourceRouter: address(routers[ALPHA]).toBytes32(),
            sender: sender.toBytes32(),
            nonce: 77,
            destinationChain: BETA,
            destinationRouter: address(routers[BETA]).toBytes32(),
            recipient: recipient.toBytes32(),
            gasLimit: 300_000,
            sentAt: uint64(block.timestamp),
            ttl: 0,
            kind: Kind.PLAIN,
            quorum: 1,
            replaces: 0,
            payload: payload
        });
    }

    /// @dev Anyone pays.
    function _pay(Message memory message) internal {
        vm.chainId(message.sourceChain);
        IRouter router = routers[message.sourceChain];
        uint256 fees = _price(message);
        vm.prank(payer);
        router.fund{value: fees}(message, payer);
    }

    /// @dev What the GMPs of the default profile ask for.
    function _price(Message memory message) internal view returns (uint256 fees) {
        (fees,) = routers[message.sourceChain].quoteRetry(message, Lanes.unpriced(ALL));
    }

    function _payAndDeliver(Message memory message) internal {
        _pay(message);
        _deliver(message);
    }
}
