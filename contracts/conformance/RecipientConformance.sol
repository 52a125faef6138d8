// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {Test} from "forge-std/Test.sol";

/// @notice ERC-7786's requirements on a recipient, as forge tests. A project inherits this contract and implements hooks that
///         return its recipient, a gateway that the recipient trusts, and messages that it accepts.
abstract contract RecipientConformance is Test {
    function _recipient() internal view virtual returns (IERC7786Recipient);

    /// @notice A gateway that the recipient trusts.
    function _knownGateway() internal view virtual returns (address);

    /// @notice The next message that the recipient accepts: its sender as an interoperable address, and its payload.
    function _message() internal virtual returns (bytes memory sender, bytes memory payload);

    /// @notice The recipient MUST return `IERC7786Recipient.receiveMessage.selector` (0x2432ef26).
    function test_ReturnsTheSelector() public virtual {
        _assertTaken(bytes32(uint256(1)));
    }

    /// @notice The recipient MUST validate that the caller is a known gateway.
    function testFuzz_RefusesAnUnknownGateway(address caller) public virtual {
        vm.assume(caller != _knownGateway() && caller != address(vm));
        (bytes memory sender, bytes memory payload) = _message();
        (bool success,) = _callFrom(caller, bytes32(uint256(1)), sender, payload);
        assertFalse(success, "took a message from a stranger");
    }

    /// @notice A gateway's `receiveId` is empty or unique; two messages without an id must both be processed.
    function test_TakesMessagesWithoutIds() public virtual {
        _assertTaken(0);
        _assertTaken(0);
    }

    function _assertTaken(bytes32 receiveId) private {
        (bytes memory sender, bytes memory payload) = _message();
        (bool success, bytes memory answer) = _callFrom(_knownGateway(), receiveId, sender, payload);
        assertTrue(success, "refused a message from its gateway");
        assertEq(answer.length, 32, "did not return one word");
        assertEq(bytes32(answer), bytes32(bytes4(0x2432ef26)), "returned something else than the selector");
    }

    function _callFrom(address caller, bytes32 receiveId, bytes memory sender, bytes memory payload)
        private
        returns (bool success, bytes memory answer)
    {
        address account = address(_recipient());
        vm.prank(caller);
        return account.call(abi.encodeCall(IERC7786Recipient.receiveMessage, (receiveId, sender, payload)));
    }
}
