// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @notice The word is not a 20-byte address padded with zeros. Truncating it would name another account.
error DirtyAddress(bytes32 word);

/// @notice 20-byte addresses and the 32-byte form that messages carry.
library Addresses {
    function toBytes32(address account) internal pure returns (bytes32) {
        return bytes32(uint256(uint160(account)));
    }

    function toAddress(bytes32 word) internal pure returns (address) {
        if (uint256(word) >> 160 != 0) revert DirtyAddress(word);
        return address(uint160(uint256(word)));
    }
}
