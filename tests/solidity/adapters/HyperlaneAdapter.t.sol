// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {HyperlaneAdapter, IMailbox} from "../../../contracts/adapters/HyperlaneAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Message, MessageEncoding, Route} from "../../../contracts/types/Message.sol";
import {AdapterBehaviour} from "./AdapterBehaviour.t.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";
import {HyperlaneNetwork, IGasPaymaster} from "./networks/HyperlaneNetwork.sol";

/// @dev Which ISM verifies what comes to a recipient.
interface IMailboxOfIsms {
    function recipientIsm(address recipient) external view returns (address);

    function defaultIsm() external view returns (address);
}

contract HyperlaneAdapterTest is AdapterBehaviour {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new HyperlaneNetwork();
    }

    function _gmpChecksTheFee() internal pure override returns (bool) {
        return true;
    }

    function _isGmp(address caller) internal view override returns (bool) {
        return caller == address(_hyperlane().mailboxes(BETA));
    }

    function testFuzz_RevertWhen_HandleIsNotCalledByTheMailbox(address caller) external {
        vm.assume(!_isGmp(caller));
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyGmp.selector, caller));
        vm.prank(caller);
        HyperlaneAdapter(payable(address(betaAdapter))).handle(1, 0, "");
    }

    function testFuzz_OnlyTheOwnerChoosesTheIsmThatTheMailboxAsks(address caller, address module) external {
        vm.assume(caller != owner && module != address(0));
        HyperlaneAdapter adapter = HyperlaneAdapter(payable(address(betaAdapter)));
        IMailboxOfIsms mailbox = IMailboxOfIsms(address(adapter.mailbox()));
        assertEq(mailbox.recipientIsm(address(adapter)), mailbox.defaultIsm());
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyOwner.selector, caller));
        vm.prank(caller);
        adapter.setInterchainSecurityModule(module);
        vm.expectEmit(address(adapter));
        emit HyperlaneAdapter.InterchainSecurityModuleSet(module);
        vm.prank(owner);
        adapter.setInterchainSecurityModule(module);
        assertEq(mailbox.recipientIsm(address(adapter)), module);
    }

    function testFuzz_ThePaymasterIsPaidForTheGasAskedFor(uint16 length, uint32 gasLimit) external {
        length = uint16(bound(length, 0, 4000));
        gasLimit = uint32(bound(gasLimit, 0, 14_000_000));
        Route memory request = _request(address(recipient), new bytes(length), gasLimit);
        vm.chainId(ALPHA);
        vm.recordLogs();
        vm.prank(dapp);
        alphaRouter.route{value: request.gmps[0].fee}(request);
        uint256 asked = alphaAdapter.deliveryGas(MessageEncoding.HEADER_LENGTH + length, gasLimit);
        assertEq(_gasPaidFor(vm.getRecordedLogs()), asked + _hyperlane().OVERHEAD());
    }

    function testFuzz_ThePaymasterIsToldOfNoValueAndWhoGetsTheRest(uint64 gasLimit, address refundTo) external {
        gasLimit = uint64(bound(gasLimit, 0, 1_000_000));
        vm.assume(refundTo != address(0));
        Message memory message = _invented("hello");
        bytes memory envelope = message.encode(message.id());
        uint256 fee = _quote(5, gasLimit);
        uint256 asked = alphaAdapter.deliveryGas(envelope.length, gasLimit);
        bytes memory metadata = abi.encodePacked(uint16(1), uint256(0), asked, address(alphaAdapter));
        uint32 domain = uint32(network.numberOf(BETA));
        bytes32 remote = _word(address(betaAdapter));
        vm.deal(address(alphaRouter), fee);
        vm.expectCall(
            address(_hyperlane().mailboxes(ALPHA)),
            fee,
            abi.encodeCall(IMailbox.dispatch, (domain, remote, envelope, metadata))
        );
        vm.prank(address(alphaRouter));
        alphaAdapter.dispatch{value: fee}(BETA, _word(address(betaRouter)), envelope, gasLimit, refundTo);
    }

    /// @dev Failure shape: revert and retry. The Mailbox hands on the adapter's own error.
    function test_ARefusedDeliveryRevertsAndCanBeProcessedAgain() external {
        (, Parcel memory parcel) = _send("hello", 100_000);
        vm.prank(owner);
        betaAdapter.disconnect(ALPHA, _word(address(alphaAdapter)));
        vm.expectRevert(abi.encodeWithSelector(IAdapter.UntrustedRemote.selector, ALPHA, _word(address(alphaAdapter))));
        _hyperlane().processWithValue(parcel);
        _connect(betaAdapter, ALPHA, alphaRouter, address(alphaAdapter));
        _hyperlane().processWithValue(parcel);
        assertEq(recipient.received(), 1);
    }

    /// @dev Value that comes with a delivery would be stuck in the adapter for ever.
    function test_RevertWhen_ADeliveryBringsValue() external {
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        HyperlaneNetwork hyperlane = _hyperlane();
        vm.expectRevert();
        hyperlane.processWithValue{value: 1}(parcel);
        assertFalse(_isReceived(message));
        assertTrue(network.deliver(parcel));
    }

    function test_RevertWhen_DeployedWithoutAMailboxOrARouter() external {
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new HyperlaneAdapter(alphaRouter, IMailbox(address(0)));
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new HyperlaneAdapter(IRouter(address(0)), IMailbox(address(1)));
    }

    function test_NamesTheDomainsOfChains() external view {
        HyperlaneAdapter adapter = HyperlaneAdapter(payable(address(alphaAdapter)));
        uint32 domain = uint32(network.numberOf(BETA));
        assertEq(adapter.domainOf(BETA), domain);
        assertEq(adapter.chainOf(domain), BETA);
        assertEq(adapter.domainOf(GAMMA), 0);
        assertEq(adapter.chainOf(7), 0);
    }

    function _hyperlane() private view returns (HyperlaneNetwork) {
        return HyperlaneNetwork(address(network));
    }

    function _gasPaidFor(Vm.Log[] memory logs) private pure returns (uint256 gasAmount) {
        for (uint256 index; index < logs.length; ++index) {
            if (logs[index].topics[0] != IGasPaymaster.GasPayment.selector) continue;
            (gasAmount,) = abi.decode(logs[index].data, (uint256, uint256));
        }
    }
}
