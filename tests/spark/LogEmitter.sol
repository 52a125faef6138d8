// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev Emits any logs, so that a test can tell every story without the contracts that would tell it.
contract LogEmitter {
    struct Log {
        bytes32[] topics;
        bytes data;
    }

    error TooManyTopics(uint256 count);

    function emitLogs(Log[] calldata logs) external {
        for (uint256 index; index < logs.length; ++index) {
            _emit(logs[index].topics, logs[index].data);
        }
    }

    function _emit(bytes32[] memory topics, bytes memory data) private {
        uint256 count = topics.length;
        if (count > 4) revert TooManyTopics(count);
        assembly ("memory-safe") {
            let start := add(data, 32)
            let length := mload(data)
            let first := mload(add(topics, 32))
            let second := mload(add(topics, 64))
            let third := mload(add(topics, 96))
            let fourth := mload(add(topics, 128))
            switch count
            case 0 { log0(start, length) }
            case 1 { log1(start, length, first) }
            case 2 { log2(start, length, first, second) }
            case 3 { log3(start, length, first, second, third) }
            default { log4(start, length, first, second, third, fourth) }
        }
    }
}
