// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {IGmpRegistry} from "../../../contracts/interfaces/IGmpRegistry.sol";
import {IRouterViews} from "../../../contracts/interfaces/IRouterViews.sol";
import {IOwnable} from "../../../contracts/interfaces/IOwnable.sol";
import {IPauses} from "../../../contracts/interfaces/IPauses.sol";
import {IRecipientPolicy} from "../../../contracts/interfaces/IRecipientPolicy.sol";
import {IRoles} from "../../../contracts/interfaces/IRoles.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Kind, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Profile} from "../../../contracts/types/Profile.sol";
import {RouterWorld} from "./RouterWorld.sol";
import {UncheckedRouter} from "./UncheckedRouter.sol";

/// @dev Everything by which a router is configured, and what it keeps for accounts.
interface IConfiguration is IGmpRegistry, IRouterViews, IOwnable, IPauses, IRecipientPolicy, IRoles {}

/// @dev What no call changes: each function of an interface in turn, with symbolic arguments, from any caller.
contract AnyCallProofs is RouterWorld {
    /// @dev The router has doors beside those that check; only the controls know them.
    function newRouter() internal override returns (address) {
        return address(new UncheckedRouter(OWNER));
    }

    function check_NobodyWithoutARoleChangesWhatIsConfigured(address caller) public {
        _assertTrustKept(caller, "IConfiguration");
    }

    function control_NobodyWithoutARoleChangesWhatIsConfigured(address caller) public {
        _assertTrustKept(caller, "IBackdoors");
    }

    function check_WhoSendsThroughTheGatewayChangesNothingElse(
        address caller,
        bytes32 payload,
        bytes4 attribute,
        uint256 value
    ) public {
        bytes32 sendId = _sendAnything(caller, payload, attribute, value);
        (address sender,) = router.sentMessage(sendId);
        assert(sender == caller);
    }

    /// @dev Of the messages that anybody sends, alice is not the sender.
    function control_WhoSendsThroughTheGatewayChangesNothingElse(
        address caller,
        bytes32 payload,
        bytes4 attribute,
        uint256 value
    ) public {
        bytes32 sendId = _sendAnything(caller, payload, attribute, value);
        (address sender,) = router.sentMessage(sendId);
        assert(sender == ALICE);
    }

    /// @dev Any payload of one word with any attribute, known or not, with any argument; what is configured stays as it is.
    function _sendAnything(address caller, bytes32 payload, bytes4 attribute, uint256 value) private returns (bytes32) {
        _assumeNobody(caller);
        vm.startPrank(OWNER);
        router.profiles().setDefaultProfile(THERE, Profile(GmpSet.wrap(3), 2, 100_000, 7 days, Kind.PLAIN, false, 0));
        vm.stopPrank();
        bytes memory to = InteroperableAddress.formatEvmV1(THERE, ALICE);
        bytes[] memory attributes = new bytes[](1);
        attributes[0] = abi.encodeWithSelector(attribute, value);
        uint256[14] memory before = _trust(0);
        vm.prank(caller);
        (bool success, bytes memory answer) = address(router)
            .call(abi.encodeCall(IERC7786GatewaySource.sendMessage, (to, abi.encode(payload), attributes)));
        vm.assume(success);
        _assertTrust(0, before);
        return abi.decode(answer, (bytes32));
    }

    /// @dev Somebody without a role. Nobody calls from zero, which is also the pending owner while there is none.
    function _assumeNobody(address caller) private view {
        vm.assume(caller != address(0));
        vm.assume(caller != OWNER && caller != REVOKER && caller != GUARDIAN && caller != ALICE && caller != recipient);
        vm.assume(caller != TRIPWIRE);
        vm.assume(caller != address(router) && Gmp.unwrap(router.gmpOf(caller)) == 0);
    }

    function _assertTrustKept(address caller, string memory contractName) private {
        _assumeNobody(caller);
        bytes32 messageId = MessageEncoding.id(arriving(2));
        assert(tryDeliver(Gmp.wrap(1), arriving(2)));
        uint256[14] memory before = _trust(messageId);
        // After all that is the same for every call, so that it is followed once.
        bytes memory data = anyCallOf(contractName);
        vm.prank(caller);
        (bool success,) = address(router).call(data);
        vm.assume(success);
        _assertTrust(messageId, before);
    }

    /// @dev Not by their hashes: to halmos the hash of something symbolic might be any number.
    function _assertTrust(bytes32 messageId, uint256[14] memory expected) private view {
        uint256[14] memory found = _trust(messageId);
        for (uint256 index; index < expected.length; ++index) {
            assert(found[index] == expected[index]);
        }
    }

    function _trust(bytes32 messageId) private view returns (uint256[14] memory trust) {
        (GmpSet valid,) = router.receiptsOf(messageId);
        (uint8 quorum, GmpSet allowed) = router.policyOf(recipient, THERE);
        trust[0] = uint160(router.owner());
        trust[1] = uint160(router.revoker());
        trust[2] = uint160(router.guardian());
        trust[3] = GmpSet.unwrap(valid);
        trust[4] = quorum;
        trust[5] = GmpSet.unwrap(allowed);
        trust[6] = router.floorOf(THERE);
        trust[7] = uint160(router.retrierOf(ALICE));
        trust[8] = router.lanePausedUntil(THERE);
        trust[9] = router.gmpPausedUntil(Gmp.wrap(1));
        trust[10] = GmpSet.unwrap(router.enabledGmps());
        trust[11] = uint160(router.adapterOf(Gmp.wrap(1)));
        trust[12] = uint256(router.peerOf(THERE));
        trust[13] = uint160(router.tripwire());
    }
}
