// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title Hostile
/// @notice A recipient that makes a relayer pay for deliveries and executions that fail. For tests against a relayer.
/// @dev    A call without a transaction has no gas price: a contract can recognise it and answer with a lie.
contract Hostile {
    /// @notice What it does to a message, by the first byte of the payload.
    enum Way {
        Burn, // accepts calls, and burns all the gas of a transaction
        Refuse, // accepts calls, and refuses every transaction
        Bomb, // answers a transaction with a megabyte
        Reenter // calls the router again, with the rest of the payload
    }

    /// @notice Whether it refuses calls too: one cheap transaction toggles all messages at once.
    bool public hushed;

    error Refused();

    /// @notice Has it refuse calls without a transaction, or accept them again.
    function toggle() external {
        hushed = !hushed;
    }

    /// @notice ERC-7786's entry for recipients.
    function receiveMessage(bytes32, bytes calldata, bytes calldata payload) external payable returns (bytes4) {
        if (tx.gasprice == 0) {
            if (hushed) revert Refused();
            return this.receiveMessage.selector;
        }
        Way way = payload.length == 0 ? Way.Burn : Way(uint8(payload[0]) % 4);
        if (way == Way.Burn) {
            assembly ("memory-safe") {
                invalid()
            }
        }
        if (way == Way.Bomb) {
            assembly {
                revert(0, 1000000)
            }
        }
        if (way == Way.Reenter) {
            (bool succeeded,) = msg.sender.call(payload[1:]);
            if (succeeded) return this.receiveMessage.selector;
        }
        revert Refused();
    }
}
