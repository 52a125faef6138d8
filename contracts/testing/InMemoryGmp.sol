// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev What {InMemoryGmp} hands a body to.
interface IInMemoryRecipient {
    function handle(uint64 sourceChain, bytes32 sender, bytes calldata body) external;
}

/// @notice A GMP for tests that stores parcels in an array until a test delivers them. It verifies nothing and trusts everyone,
///         so it must never carry a message that matters.
contract InMemoryGmp {
    /// @dev A parcel that was accepted for delivery.
    struct Parcel {
        uint64 sourceChain;
        bytes32 sender;
        uint64 destinationChain;
        bytes32 recipient;
        bytes body;
    }

    /// @notice The fee for a parcel, in wei.
    uint256 public fee;

    /// @notice While the GMP is broken, it accepts no parcels.
    bool public broken;

    Parcel[] private _parcels;

    event Taken(uint256 indexed index, uint64 indexed destinationChain, bytes32 recipient, bytes body);

    /// @notice The GMP is broken.
    error Broken();
    /// @notice The value is below the fee, in wei.
    error FeeNotMet(uint256 value, uint256 fee);

    function setFee(uint256 fee_) external {
        fee = fee_;
    }

    function setBroken(bool broken_) external {
        broken = broken_;
    }

    /// @notice Accepts a body for delivery.
    function send(uint64 destinationChain, bytes32 recipient, bytes calldata body) public payable virtual {
        if (broken) revert Broken();
        if (msg.value < fee) revert FeeNotMet(msg.value, fee);
        emit Taken(_parcels.length, destinationChain, recipient, body);
        _parcels.push(
            Parcel({
                sourceChain: uint64(block.chainid),
                sender: bytes32(uint256(uint160(msg.sender))),
                destinationChain: destinationChain,
                recipient: recipient,
                body: body
            })
        );
    }

    /// @notice Delivers any body, any number of times, by calling the destination's GMP.
    function deliver(uint64 sourceChain, bytes32 sender, bytes32 recipient, bytes calldata body) external {
        IInMemoryRecipient(address(uint160(uint256(recipient)))).handle(sourceChain, sender, body);
    }

    /// @notice The number of parcels that it has accepted.
    function count() external view returns (uint256) {
        return _parcels.length;
    }

    /// @notice Returns an accepted parcel.
    function parcel(uint256 index) external view returns (Parcel memory) {
        return _parcels[index];
    }
}
