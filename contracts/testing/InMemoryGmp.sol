// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev What {InMemoryGmp} hands a body to.
interface IInMemoryRecipient {
    function handle(uint64 sourceChain, bytes32 sender, bytes calldata body) external;
}

/// @notice A GMP for tests whose network is an array: it keeps what it is given until a test delivers it. It proves nothing
///         and believes everybody, so it must never carry a message that matters.
contract InMemoryGmp {
    /// @dev What was handed over to be carried.
    struct Parcel {
        uint64 sourceChain;
        bytes32 sender;
        uint64 destinationChain;
        bytes32 recipient;
        bytes body;
    }

    /// @notice What carrying costs, in wei.
    uint256 public fee;

    /// @notice While broken, it takes nothing.
    bool public broken;

    Parcel[] private _parcels;

    event Taken(uint256 indexed index, uint64 indexed destinationChain, bytes32 recipient, bytes body);

    error Broken();
    error FeeNotMet(uint256 value, uint256 fee);

    function setFee(uint256 fee_) external {
        fee = fee_;
    }

    function setBroken(bool broken_) external {
        broken = broken_;
    }

    /// @notice Takes a body to be delivered.
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

    /// @notice Delivers any body, any number of times; the GMP of the destination is called.
    function deliver(uint64 sourceChain, bytes32 sender, bytes32 recipient, bytes calldata body) external {
        IInMemoryRecipient(address(uint160(uint256(recipient)))).handle(sourceChain, sender, body);
    }

    /// @notice How many parcels it has taken.
    function count() external view returns (uint256) {
        return _parcels.length;
    }

    /// @notice A parcel that it has taken.
    function parcel(uint256 index) external view returns (Parcel memory) {
        return _parcels[index];
    }
}
