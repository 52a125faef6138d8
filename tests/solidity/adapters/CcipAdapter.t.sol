// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {
    CcipAdapter,
    ICcipReceiver,
    ICcipReceiverV2,
    ICcipRouter,
    ICcipVerifierResolver
} from "../../../contracts/adapters/CcipAdapter.sol";
import {IAdapter} from "../../../contracts/interfaces/IAdapter.sol";
import {DirtyAddress} from "../../../contracts/libraries/Addresses.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {LimitedPayload} from "./LimitedPayload.t.sol";
import {CcipNetwork} from "./networks/CcipNetwork.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";

contract Resolver is ICcipVerifierResolver {
    function getOutboundImplementation(uint64, bytes memory) external view returns (address) {
        return address(this);
    }
}

contract CcipAdapterTest is LimitedPayload {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new CcipNetwork();
    }

    function _isGmp(address caller) internal view override returns (bool) {
        return caller == address(_ccip().routerOn(BETA));
    }

    function testFuzz_RevertWhen_CcipReceiveIsNotCalledByTheRouter(address caller) external {
        vm.assume(!_isGmp(caller));
        ICcipReceiver.IncomingMessage memory message;
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyGmp.selector, caller));
        vm.prank(caller);
        CcipAdapter(address(betaAdapter)).ccipReceive(message);
    }

    /// @dev Failure shape: failure state and another execution, by anyone, with as much gas or more.
    function test_ARefusedDeliveryFailsAndCanBeExecutedAgain() external {
        (, Parcel memory parcel) = _send("hello", 100_000);
        _distrustAlpha();
        assertFalse(network.deliver(parcel), "consumed");
        assertEq(_ccip().stateOf(parcel), _ccip().FAILURE(), "state");

        _trustAlpha();
        _ccip().execute(parcel, _ccip().gasLimitOf(parcel) + 1);
        assertEq(_ccip().stateOf(parcel), _ccip().SUCCESS(), "state");
        assertEq(recipient.received(), 1, "executed once");
    }

    /// @dev CCIP lets nobody deliver with less gas than was asked for, so this GMP can't bring too little: the suite's case
    ///      becomes "nobody can make it so".
    function test_Consumes_WhenTheDeliveryBringsTooLittleGas() external override {
        (Message memory message, Parcel memory parcel) = _send("hello", 2_000_000);
        _distrustAlpha();
        assertFalse(network.deliver(parcel), "consumed");
        CcipNetwork ccip = _ccip();
        uint256 tooLittle = ccip.gasLimitOf(parcel) - 1;
        vm.expectRevert();
        ccip.execute(parcel, tooLittle);
        assertFalse(_isReceived(message), "receipt");
    }

    function testFuzz_TheMessageCarriesTheGasAskedFor(uint16 length, uint32 gasLimit) external {
        gasLimit = uint32(bound(gasLimit, 0, 2_000_000));
        bytes memory payload = new bytes(bound(length, 0, 4000));
        (, Parcel memory parcel) = _send(payload, gasLimit);
        uint256 asked = alphaAdapter.deliveryGas(MessageEncoding.HEADER_LENGTH + payload.length, gasLimit);
        assertEq(_ccip().gasLimitOf(parcel), asked);
    }

    /// @dev CCIP skips a recipient that does not say so, and calls the message delivered.
    function test_DeclaresThatItReceives() external view {
        CcipAdapter adapter = CcipAdapter(address(betaAdapter));
        assertTrue(adapter.supportsInterface(0x85572ffb), "CCIP's receiver");
        assertTrue(adapter.supportsInterface(0x01ffc9a7), "ERC-165");
        assertTrue(adapter.supportsInterface(ICcipReceiverV2.getCCVsAndFinalityConfig.selector), "chooses verifiers");
        assertFalse(adapter.supportsInterface(0xffffffff), "the invalid interface");
    }

    function testFuzz_RevertWhen_TheRemoteAdapterIsNoEvmAddress(bytes32 remote) external {
        vm.assume(uint256(remote) >> 160 != 0);
        uint256 number = network.numberOf(GAMMA);
        vm.expectRevert(abi.encodeWithSelector(DirtyAddress.selector, remote));
        network.connect(owner, alphaAdapter, GAMMA, bytes32(uint256(1)), remote, number);
    }

    function test_RevertWhen_DeployedWithoutARouter() external {
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        new CcipAdapter(alphaRouter, ICcipRouter(address(0)));
    }

    function test_NamesChainsAsCcipDoes() external view {
        CcipAdapter adapter = CcipAdapter(address(alphaAdapter));
        uint64 selector = uint64(network.numberOf(BETA));
        assertEq(adapter.selectorOf(BETA), selector);
        assertEq(adapter.chainOf(selector), BETA);
        assertEq(adapter.chainOf(7), 0);
    }

    function testFuzz_TheOwnerChoosesTheVerifiers(address caller) external {
        vm.assume(caller != owner);
        (address[] memory required, address[] memory optional) = _chosen();
        CcipAdapter adapter = CcipAdapter(address(betaAdapter));
        vm.expectRevert(abi.encodeWithSelector(IAdapter.OnlyOwner.selector, caller));
        vm.prank(caller);
        adapter.setVerifiers(7, required, optional, 1);
        vm.expectEmit(address(adapter));
        emit CcipAdapter.VerifiersSet(7, required, optional, 1);
        vm.prank(owner);
        adapter.setVerifiers(7, required, optional, 1);
        (address[] memory all, address[] memory some, uint8 threshold, bytes4 finality) =
            adapter.getCCVsAndFinalityConfig(7, "anyone's");
        assertEq(all, required);
        assertEq(some, optional);
        assertEq(threshold, 1);
        assertEq(finality, bytes4(0), "full finality");
        (all, some,,) = adapter.getCCVsAndFinalityConfig(8, "");
        assertEq(all.length + some.length, 0, "of another chain: the lane's own");
    }

    function test_AsksForTheChosenVerifiers() external {
        CcipAdapter adapter = CcipAdapter(address(alphaAdapter));
        uint64 selector = adapter.selectorOf(BETA);
        uint256 gasLimit = adapter.deliveryGas(5, 100_000);
        _expectExtraArgs(abi.encodePacked(hex"181dcf10", gasLimit, uint256(1)));

        (address[] memory required, address[] memory optional) = _chosen();
        vm.prank(owner);
        adapter.setVerifiers(selector, required, optional, 1);
        _expectExtraArgs(
            abi.encodePacked(
                abi.encodePacked(hex"a69dd4aa", uint32(gasLimit), hex"00000000", hex"04", hex"00", hex"0000"),
                abi.encodePacked(hex"14", required[1], hex"0000"),
                abi.encodePacked(hex"14", optional[0], hex"0000", hex"14", optional[1], hex"0000"),
                hex"00",
                hex"0000",
                hex"00",
                hex"0000"
            )
        );
    }

    function test_RevertWhen_NoMessageCouldHaveTheVerifiers() external {
        (address[] memory required, address[] memory optional) = _chosen();
        _expectUnusable(required, optional, 0);
        _expectUnusable(required, optional, 3);
        _expectUnusable(required, new address[](0), 1);
        _expectUnusable(optional, optional, 1);
        _expectUnusable(required, new address[](2), 1);
        _expectUnusable(new address[](2), optional, 1);
        _expectUnusable(new address[](17), new address[](0), 0);
    }

    function test_RevertWhen_AVerifierIsNoResolver() external {
        address[] memory required = new address[](1);
        address[2] memory others = [makeAddr("an account"), address(recipient)];
        for (uint256 i = 0; i < others.length; ++i) {
            required[0] = others[i];
            vm.expectRevert(abi.encodeWithSelector(CcipAdapter.NotAResolver.selector, others[i]));
            vm.prank(owner);
            CcipAdapter(address(alphaAdapter)).setVerifiers(7, required, new address[](0), 0);
        }
    }

    function test_RevertWhen_VerifiersAreForNoChain() external {
        vm.expectRevert(IAdapter.ZeroConnection.selector);
        vm.prank(owner);
        CcipAdapter(address(alphaAdapter)).setVerifiers(0, new address[](0), new address[](0), 0);
    }

    /// @dev The lane's own and one other, and one of two more.
    function _chosen() private returns (address[] memory required, address[] memory optional) {
        (required, optional) = (new address[](2), new address[](2));
        required[1] = address(new Resolver());
        (optional[0], optional[1]) = (address(new Resolver()), address(new Resolver()));
    }

    function _expectUnusable(address[] memory required, address[] memory optional, uint8 threshold) private {
        vm.expectRevert(CcipAdapter.UnusableVerifiers.selector);
        vm.prank(owner);
        CcipAdapter(address(alphaAdapter)).setVerifiers(7, required, optional, threshold);
    }

    /// @dev Expects CCIP's router to be asked for a quote with those arguments.
    function _expectExtraArgs(bytes memory extraArgs) private {
        CcipAdapter adapter = CcipAdapter(address(alphaAdapter));
        ICcipRouter router = adapter.ccipRouter();
        vm.mockCall(address(router), abi.encodeWithSelector(ICcipRouter.getFee.selector), abi.encode(uint256(3)));
        ICcipRouter.OutgoingMessage memory message = ICcipRouter.OutgoingMessage({
            receiver: abi.encode(address(betaAdapter)),
            data: "hello",
            tokenAmounts: new ICcipRouter.TokenAmount[](0),
            feeToken: address(0),
            extraArgs: extraArgs
        });
        vm.expectCall(address(router), abi.encodeCall(ICcipRouter.getFee, (adapter.selectorOf(BETA), message)));
        assertEq(adapter.quote(BETA, _word(address(betaRouter)), "hello", 100_000), 3);
        vm.clearMockedCalls();
    }

    function _ccip() private view returns (CcipNetwork) {
        return CcipNetwork(address(network));
    }
}
