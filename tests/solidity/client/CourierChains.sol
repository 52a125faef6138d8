// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Test} from "forge-std/Test.sol";
import {Vm} from "forge-std/Vm.sol";

import {IMessageSender} from "../../../contracts/interfaces/IMessageSender.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Lane} from "../../../contracts/client/Lanes.sol";
import {RouterClient} from "../../../contracts/client/RouterClient.sol";
import {Gmp, GmpSet} from "../../../contracts/types/Gmp.sol";
import {Message, MessageEncoding} from "../../../contracts/types/Message.sol";
import {Execution} from "../../../contracts/types/MessageRecords.sol";
import {TestedRouter} from "../TestedRouter.sol";
import {CourierAdapter} from "./doubles/CourierAdapter.sol";

/// @notice Routers on two chains, alpha and beta, joined by three GMPs that deliver exactly what a test has them deliver. The lanes
///         have the floor that a deployment gives them.
abstract contract CourierChains is Test {
    uint64 internal constant ALPHA = 31337;
    uint64 internal constant BETA = 31338;
    uint8 internal constant GMPS = 3;
    GmpSet internal constant ALL = GmpSet.wrap(7);
    uint256 internal constant FEE = 0.001 ether;

    address internal immutable owner = makeAddr("owner");

    mapping(uint64 chain => IRouter) internal routers;
    mapping(uint64 chain => mapping(uint8 gmp => CourierAdapter)) internal couriers;

    function setUp() public virtual {
        vm.warp(1_790_000_000);
        _newRouter(ALPHA);
        _newRouter(BETA);
        _setPeer(ALPHA, BETA);
        _setPeer(BETA, ALPHA);
    }

    function _newRouter(uint64 chain) private {
        vm.chainId(chain);
        IRouter router = TestedRouter.deploy(owner);
        routers[chain] = router;
        for (uint8 gmp = 1; gmp <= GMPS; ++gmp) {
            couriers[chain][gmp] = new CourierAdapter(router);
            vm.prank(owner);
            router.addAdapter(Gmp.wrap(gmp), address(couriers[chain][gmp]));
        }
    }

    function _setPeer(uint64 home, uint64 chain) private {
        vm.chainId(home);
        vm.prank(owner);
        routers[home].setPeer(chain, bytes32(uint256(uint160(address(routers[chain])))), 2);
    }

    function _lane(uint64 chain, address recipient) internal pure returns (Lane memory) {
        return
            Lane({
                chain: chain, recipient: recipient, gasLimit: 300_000, ttl: 1 days, quorum: 2, gmps: ALL, maxFeeGwei: 0
            });
    }

    function _allow(RouterClient client, uint64 chain, address sender, uint8 quorum, GmpSet gmps) internal {
        vm.prank(owner);
        client.allowRoute(chain, sender, quorum, gmps);
    }

    /// @dev The messages that were routed since the last `vm.recordLogs()`.
    function _routed() internal returns (Message[] memory messages) {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        messages = new Message[](logs.length);
        uint256 count;
        for (uint256 index; index < logs.length; ++index) {
            if (logs[index].topics[0] != IMessageSender.MessageRouted.selector) continue;
            (,, bytes memory envelope) = abi.decode(logs[index].data, (bool, uint16, bytes));
            messages[count++] = this.decodeEnvelope(envelope);
        }
        assembly ("memory-safe") {
            mstore(messages, count)
        }
    }

    function _bring(Message memory message, uint8 gmp) internal {
        uint64 chain = message.destinationChain;
        vm.chainId(chain);
        couriers[chain][gmp].bring(message.sourceChain, message.encode(message.id()));
    }

    /// @dev Brings a message over as many GMPs as its quorum asks for.
    function _deliver(Message memory message) internal {
        for (uint8 gmp = 1; gmp <= message.quorum; ++gmp) {
            _bring(message, gmp);
        }
    }

    function _isExecuted(Message memory message) internal view returns (bool) {
        (, Execution execution) = routers[message.destinationChain].receiptsOf(message.id());
        return execution == Execution.EXECUTED;
    }

    function _execute(Message memory message) internal {
        vm.chainId(message.destinationChain);
        routers[message.destinationChain].execute(message);
    }

    function decodeEnvelope(bytes calldata envelope) external pure returns (Message memory message) {
        (, message) = MessageEncoding.decode(envelope);
    }
}
