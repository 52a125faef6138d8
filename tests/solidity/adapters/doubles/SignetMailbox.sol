// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @dev What the mailbox calls.
interface ISignetRecipient {
    function handleSignet(uint32 source, bytes32 sender, bytes calldata data) external;
}

/// @notice A GMP of three signers of whom two are believed: the one that `docs/add-an-adapter.md` adds.
contract SignetMailbox {
    uint256 public constant FEE = 1e12; // wei
    uint256 public constant THRESHOLD = 2;

    uint32 public immutable network;
    mapping(address => bool) public isSigner;
    mapping(bytes32 => bool) public isDelivered;
    uint64 public sequence;

    event Sent(uint64 sequence, uint32 destination, bytes32 indexed sender, bytes32 recipient, bytes data);

    error WrongFee(uint256 given);
    error DeliveredAlready(bytes32 digest);
    error NotSigned(bytes32 digest);

    constructor(uint32 network_, address[] memory signers) {
        network = network_;
        for (uint256 index; index < signers.length; ++index) {
            isSigner[signers[index]] = true;
        }
    }

    function send(uint32 destination, bytes32 recipient, bytes calldata data) external payable {
        if (msg.value != FEE) revert WrongFee(msg.value);
        emit Sent(++sequence, destination, bytes32(uint256(uint160(msg.sender))), recipient, data);
    }

    /// @param signatures by different signers, in ascending order of their addresses.
    function deliver(
        uint32 source,
        uint64 sequence_,
        bytes32 sender,
        bytes32 recipient,
        bytes calldata data,
        bytes[] calldata signatures
    ) external {
        bytes32 digest = keccak256(abi.encode(source, network, sequence_, sender, recipient, keccak256(data)));
        if (isDelivered[digest]) revert DeliveredAlready(digest);
        isDelivered[digest] = true;
        address last;
        for (uint256 index; index < signatures.length; ++index) {
            address signer = ECDSA.recover(digest, signatures[index]);
            if (signer <= last || !isSigner[signer]) revert NotSigned(digest);
            last = signer;
        }
        if (signatures.length < THRESHOLD) revert NotSigned(digest);
        ISignetRecipient(address(uint160(uint256(recipient)))).handleSignet(source, sender, data);
    }
}
