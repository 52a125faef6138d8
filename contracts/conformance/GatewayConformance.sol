// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786GatewaySource, IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";
import {Test} from "forge-std/Test.sol";
import {Vm} from "forge-std/Vm.sol";

/// @notice ERC-7786's requirements on a gateway between EVM chains, as forge tests. A project inherits this contract and
///         implements hooks for its gateway and its relayers. Both chains are in one EVM; during a test the chain id is the
///         source's.
/// @dev Each test states the requirement of the ERC that it checks. If a gateway can't meet one, override the test with
///      `vm.skip`.
abstract contract GatewayConformance is Test {
    /// @dev The contents of `MessageSent`.
    struct Sent {
        bytes32 sendId;
        bytes sender;
        bytes recipient;
        bytes payload;
        uint256 value;
        bytes[] attributes;
    }

    address internal immutable sender = makeAddr("sender");

    /// @dev Returns the value that ERC-7786 requires.
    RecordingRecipient internal immutable recipient = new RecordingRecipient(IERC7786Recipient.receiveMessage.selector);

    // ---- implemented by a project

    /// @notice The gateway on the source chain. `sender` may send through it.
    function _gateway() internal view virtual returns (IERC7786GatewaySource);

    /// @notice The destination chain; the source chain for a gateway that delivers on its own chain.
    function _destinationChain() internal view virtual returns (uint256);

    /// @notice Acts as the gateway's relayers: pays for a message and delivers it.
    /// @param logs All logs of the transaction that called `sendMessage`. A gateway that delivers within it does nothing here.
    function _deliver(Vm.Log[] memory logs) internal virtual;

    /// @notice Tries to deliver a message again in every way that a relayer has. It may revert.
    function _deliverAgain(Vm.Log[] memory logs) internal virtual {
        _deliver(logs);
    }

    /// @notice One example of each supported attribute: its selector and a valid value.
    function _attributes() internal view virtual returns (bytes[] memory) {}

    /// @notice The value that a message may carry, in wei; 0 if the gateway accepts no value.
    function _value() internal view virtual returns (uint256) {}

    // ---- sending

    /// @notice `sendMessage` MUST emit `MessageSent` with the id that it returns. An empty attribute list is valid.
    function testFuzz_MessageSentSaysWhatWasSent(bytes calldata payload) public virtual {
        vm.assume(payload.length <= 1024);
        bytes memory to = _interoperable(recipient);
        (bytes32 sendId, Vm.Log[] memory logs) = _send(to, payload, new bytes[](0));
        Sent memory sent = _sentIn(logs);
        assertEq(sent.sendId, sendId, "MessageSent has another sendId than sendMessage returned");
        bytes memory from = InteroperableAddress.formatEvmV1(block.chainid, sender);
        assertEq(sent.sender, from, "MessageSent has another sender than the caller");
        assertEq(sent.recipient, to, "MessageSent has another recipient");
        assertEq(sent.payload, payload, "MessageSent has another payload");
        assertEq(sent.value, 0, "MessageSent has a value where none was sent");
        assertEq(sent.attributes.length, 0, "MessageSent has attributes where none were sent");
    }

    /// @notice The send identifier is unique, or zero.
    function test_ASendIdIsUniqueOrZero() public virtual {
        (bytes32 first,) = _send(_interoperable(recipient), "the same", new bytes[](0));
        (bytes32 second,) = _send(_interoperable(recipient), "the same", new bytes[](0));
        assertTrue(first != second || first == 0, "two messages have one sendId");
    }

    /// @notice MUST revert with `UnsupportedAttribute` if an unsupported attribute is included.
    function testFuzz_AnUnsupportedAttributeIsRefusedByName(bytes4 selector, bytes calldata value) public virtual {
        vm.assume(!_gateway().supportsAttribute(selector) && value.length <= 256);
        bytes[] memory only = new bytes[](1);
        only[0] = bytes.concat(selector, value);
        _assertUnsupported(only, selector);
    }

    /// @notice The same, wherever in the list the attribute is.
    function test_AnUnsupportedAttributeIsRefusedAfterSupportedOnes() public virtual {
        bytes4 unsupported = bytes4(keccak256("conformanceTest(uint256)"));
        assertFalse(_gateway().supportsAttribute(unsupported), "supports an attribute that is made up");
        bytes[] memory known = _attributes();
        bytes[] memory list = new bytes[](known.length + 1);
        for (uint256 index; index < known.length; ++index) {
            list[index] = known[index];
        }
        list[known.length] = abi.encodeWithSelector(unsupported, 1);
        _assertUnsupported(list, unsupported);
    }

    /// @notice An attribute for which `supportsAttribute` returns true is accepted, and is part of `MessageSent`.
    function test_ASupportedAttributeIsTaken() public virtual {
        bytes[] memory known = _attributes();
        for (uint256 index; index < known.length; ++index) {
            assertTrue(_gateway().supportsAttribute(bytes4(known[index])), "takes what it says it does not support");
            bytes[] memory only = new bytes[](1);
            only[0] = known[index];
            (, Vm.Log[] memory logs) = _send(_interoperable(recipient), "", only);
            Sent memory sent = _sentIn(logs);
            assertEq(sent.attributes.length, 1, "MessageSent lacks the attribute");
            assertEq(sent.attributes[0], known[index], "MessageSent has another attribute");
        }
    }

    /// @notice MUST revert if call value is included but not supported. Otherwise `MessageSent` contains the value.
    function test_ValueIsNamedOrRefused() public virtual {
        uint256 value = _value();
        vm.deal(sender, value + 1);
        bytes memory call =
            abi.encodeCall(IERC7786GatewaySource.sendMessage, (_interoperable(recipient), "", new bytes[](0)));
        vm.recordLogs();
        (bool success,) = _call(call, value == 0 ? 1 : value);
        if (value == 0) return assertFalse(success, "took value that it does not support");
        assertTrue(success, "refused value that it supports");
        assertEq(_sentIn(vm.getRecordedLogs()).value, value, "MessageSent has another value");
    }

    /// @notice The recipient MUST be an interoperable address.
    function test_ARecipientThatIsNoInteroperableAddressIsRefused() public virtual {
        bytes memory to = _interoperable(recipient);
        bytes memory cut = new bytes(to.length - 1);
        for (uint256 index; index < cut.length; ++index) {
            cut[index] = to[index];
        }
        _assertRefused(cut, "took a recipient that is cut off");
        bytes memory ofAnotherVersion = bytes.concat(to);
        ofAnotherVersion[1] = 0x02;
        _assertRefused(ofAnotherVersion, "took a recipient of an unknown version");
    }

    /// @notice SHOULD reject non-canonical encodings of addresses.
    function test_ARecipientInAnotherSpellingIsRefused() public virtual {
        bytes memory to = _interoperable(recipient);
        _assertRefused(bytes.concat(to, hex"00"), "took a recipient with a byte too many");
        uint8 length = uint8(to[4]);
        bytes memory padded = abi.encodePacked(hex"00010000", length + 1, hex"00");
        for (uint256 index = 5; index < to.length; ++index) {
            padded = bytes.concat(padded, to[index]);
        }
        _assertRefused(padded, "took a chain id with a leading zero");
    }

    // ---- delivering

    /// @notice The gateway MUST invoke `receiveMessage` with the message's contents.
    function testFuzz_TheRecipientGetsWhatWasSent(bytes calldata payload) public virtual {
        vm.assume(payload.length <= 1024);
        bytes memory from = InteroperableAddress.formatEvmV1(block.chainid, sender);
        (, Vm.Log[] memory logs) = _send(_interoperable(recipient), payload, new bytes[](0));
        _deliver(logs);
        assertEq(recipient.calls(), 1, "calls");
        assertEq(recipient.senderHash(), keccak256(from), "the recipient got another sender");
        assertEq(recipient.payloadHash(), keccak256(payload), "the recipient got another payload");
    }

    /// @notice A message MUST NOT be delivered more than once.
    function test_AMessageIsDeliveredOnce() public virtual {
        (, Vm.Log[] memory logs) = _send(_interoperable(recipient), "once", new bytes[](0));
        _deliver(logs);
        try this.deliverAgain(logs) {} catch {}
        assertEq(recipient.calls(), 1, "calls");
    }

    /// @notice Messages with identical parameters MUST be delivered separately; `receiveId` MUST be empty or unique.
    function test_IdenticalMessagesAreDeliveredSeparately() public virtual {
        bytes32[2] memory ids;
        for (uint256 index; index < 2; ++index) {
            (, Vm.Log[] memory logs) = _send(_interoperable(recipient), "the same", new bytes[](0));
            _deliver(logs);
            ids[index] = recipient.lastId();
        }
        assertEq(recipient.calls(), 2, "calls");
        assertTrue(ids[0] != ids[1] || ids[0] == 0, "two messages have one receiveId");
    }

    /// @notice The gateway MUST verify that `receiveMessage` returns the correct value, and MUST revert otherwise. A gateway may
    ///         catch that revert itself, but the recipient's changes must be undone.
    function test_ARecipientThatReturnsAnotherValueIsUndone() public virtual {
        RecordingRecipient wrong = new RecordingRecipient(0xffffffff);
        try this.sendAndDeliver(_interoperable(wrong)) {} catch {}
        assertEq(wrong.calls(), 0, "a recipient with a wrong answer kept what it did");
    }

    // ---- external calls, so that they may revert

    function deliverAgain(Vm.Log[] memory logs) external {
        _deliverAgain(logs);
    }

    function sendAndDeliver(bytes calldata to) external {
        (, Vm.Log[] memory logs) = _send(to, "", new bytes[](0));
        _deliver(logs);
    }

    // ---- helpers

    function _interoperable(RecordingRecipient account) internal view returns (bytes memory) {
        return InteroperableAddress.formatEvmV1(_destinationChain(), address(account));
    }

    /// @dev Sends without value, and returns the logs of the call.
    function _send(bytes memory to, bytes memory payload, bytes[] memory attributes)
        internal
        returns (bytes32 sendId, Vm.Log[] memory logs)
    {
        IERC7786GatewaySource gateway = _gateway();
        vm.recordLogs();
        vm.prank(sender);
        sendId = gateway.sendMessage(to, payload, attributes);
        logs = vm.getRecordedLogs();
    }

    function _call(bytes memory call, uint256 value) private returns (bool success, bytes memory answer) {
        address gateway = address(_gateway());
        vm.prank(sender);
        return gateway.call{value: value}(call);
    }

    /// @dev The gateway's own `MessageSent`, which must exist.
    function _sentIn(Vm.Log[] memory logs) private view returns (Sent memory sent) {
        address gateway = address(_gateway());
        uint256 count;
        for (uint256 index; index < logs.length; ++index) {
            Vm.Log memory log = logs[index];
            if (log.emitter != gateway || log.topics[0] != IERC7786GatewaySource.MessageSent.selector) continue;
            ++count;
            sent.sendId = log.topics[1];
            (sent.sender, sent.recipient, sent.payload, sent.value, sent.attributes) =
                abi.decode(log.data, (bytes, bytes, bytes, uint256, bytes[]));
        }
        assertEq(count, 1, "events MessageSent of the gateway");
    }

    function _assertUnsupported(bytes[] memory attributes, bytes4 selector) private {
        bytes memory call =
            abi.encodeCall(IERC7786GatewaySource.sendMessage, (_interoperable(recipient), "", attributes));
        (bool success, bytes memory answer) = _call(call, 0);
        assertFalse(success, "took an attribute that it does not support");
        bytes memory wanted = abi.encodeWithSelector(IERC7786GatewaySource.UnsupportedAttribute.selector, selector);
        assertEq(answer, wanted, "reverted with something else than UnsupportedAttribute");
    }

    function _assertRefused(bytes memory to, string memory otherwise) private {
        (bool success,) = _call(abi.encodeCall(IERC7786GatewaySource.sendMessage, (to, "", new bytes[](0))), 0);
        assertFalse(success, otherwise);
    }
}

/// @notice Stores the message that it gets in four slots, and returns the value that its constructor got.
contract RecordingRecipient is IERC7786Recipient {
    bytes4 private immutable _answer;

    uint256 public calls;
    bytes32 public lastId;
    bytes32 public senderHash;
    bytes32 public payloadHash;

    constructor(bytes4 answer) {
        _answer = answer;
    }

    function receiveMessage(bytes32 receiveId, bytes calldata sender, bytes calldata payload)
        external
        payable
        returns (bytes4)
    {
        ++calls;
        (lastId, senderHash, payloadHash) = (receiveId, keccak256(sender), keccak256(payload));
        return _answer;
    }
}
