// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice OpenZeppelin's `Ownable2Step`, which publishes no interface of its own.
interface IOwnable {
    event OwnershipTransferStarted(address indexed previousOwner, address indexed newOwner);
    event OwnershipTransferred(address indexed previousOwner, address indexed newOwner);

    /// @notice Only the owner may call this.
    error OwnableUnauthorizedAccount(address account);
    /// @notice The address cannot be an owner.
    error OwnableInvalidOwner(address owner);

    function owner() external view returns (address);

    function pendingOwner() external view returns (address);

    function transferOwnership(address newOwner) external;

    function acceptOwnership() external;
}
