// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Message} from "../../../contracts/types/Message.sol";
import {TwoRouters} from "./TwoRouters.sol";
import {
    ChainBlindAdapter,
    OpenAdapter,
    RouterBlindAdapter,
    StubbornAdapter,
    SwallowingAdapter,
    TrustingAdapter,
    VulnerableAdapter
} from "./doubles/VulnerableAdapters.sol";
import {GmpNetwork, Parcel} from "./networks/GmpNetwork.sol";
import {HyperlaneNetwork} from "./networks/HyperlaneNetwork.sol";

/// @notice That the attacks of the shared suite are real: each succeeds on an adapter that forgets one check. The same attack on the
///         real adapters fails in {AdapterBehaviour}, under the name given with each.
contract VulnerableTwinsTest is TwoRouters {
    function _newNetwork() internal override returns (GmpNetwork) {
        return new HyperlaneNetwork();
    }

    /// @dev testFuzz_RevertWhen_TheCallerIsNotTheGmp
    function test_AnOpenEntryLetsAnyoneForge() external {
        _put(new OpenAdapter(betaRouter, _mailbox(), _domain(), ALPHA));
        Message memory message = _invented("forged");
        bytes memory envelope = message.encode(message.id());
        vm.chainId(BETA);
        network.knock(makeAddr("stranger"), betaAdapter, ALPHA, _word(address(alphaAdapter)), envelope);
        assertEq(recipient.received(), 1);
    }

    /// @dev testFuzz_RefusesAnAccountThatIsNotTheRemoteAdapter
    function test_AnUncheckedSenderLetsAnyUserOfTheGmpForge() external {
        _put(new TrustingAdapter(betaRouter, _mailbox(), _domain(), ALPHA));
        Message memory message = _invented("forged");
        network.deliver(_say(makeAddr("stranger"), ALPHA, message.encode(message.id())));
        assertEq(recipient.received(), 1);
    }

    /// @dev test_RefusesTheRemoteAdaptersAddressOnAnotherChain
    function test_AnUncheckedChainLetsAnotherChainForge() external {
        _put(new ChainBlindAdapter(betaRouter, _mailbox(), _domain(), ALPHA));
        Message memory message = _invented("forged");
        network.deliver(_say(address(alphaAdapter), GAMMA, message.encode(message.id())));
        assertEq(recipient.received(), 1);
    }

    /// @dev test_ARevokedRoutersAdapterDoesNotVouchForTheCurrentOne
    function test_AnUncheckedRouterLetsARevokedRoutersAdapterForge() external {
        RouterBlindAdapter twin = new RouterBlindAdapter(betaRouter, _mailbox(), _domain(), ALPHA);
        _put(twin);
        address othersAdapter = makeAddr("its adapter");
        vm.prank(owner);
        twin.connect(_word(makeAddr("alpha's other router")), _word(othersAdapter));
        Message memory message = _invented("forged");
        network.deliver(_say(othersAdapter, ALPHA, message.encode(message.id())));
        assertEq(recipient.received(), 1);
    }

    /// @dev test_StaysDeliverable_WhenTheSourceRouterIsUnknown
    function test_ASwallowedRevertLosesTheMessage() external {
        _put(new SwallowingAdapter(betaRouter, _mailbox(), _domain(), ALPHA));
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        _distrustAlpha();
        assertTrue(network.deliver(parcel), "consumed by the GMP");
        _trustAlpha();
        network.deliver(parcel);
        assertFalse(_isReceived(message), "the GMP delivers it never again");
    }

    /// @dev test_Consumes_WhenTheSameGmpDeliversAgain
    function test_ARevertedDuplicateIsNeverConsumed() external {
        _put(new StubbornAdapter(betaRouter, _mailbox(), _domain(), ALPHA));
        (Message memory message, Parcel memory parcel) = _send("hello", 100_000);
        assertTrue(network.deliver(parcel), "first");
        Parcel memory again = _retry(message);
        for (uint256 attempt; attempt < 3; ++attempt) {
            assertFalse(network.deliver(again), "consumed by the GMP");
        }
    }

    /// @dev Puts the twin in the place of beta's adapter.
    function _put(VulnerableAdapter twin) private {
        vm.startPrank(owner);
        betaRouter.replaceAdapter(network.gmp(), address(twin));
        twin.connect(_word(address(alphaRouter)), _word(address(alphaAdapter)));
        vm.stopPrank();
        betaAdapter = twin;
        // Alpha's messages go to the twin.
        network.connect(
            owner, alphaAdapter, BETA, _word(address(betaRouter)), _word(address(twin)), network.numberOf(BETA)
        );
    }

    function _mailbox() private view returns (address) {
        return address(HyperlaneNetwork(address(network)).mailboxes(BETA));
    }

    function _domain() private view returns (uint32) {
        return uint32(network.numberOf(ALPHA));
    }
}
