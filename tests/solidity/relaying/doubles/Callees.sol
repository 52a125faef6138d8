// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";

import {IBoundedMulticall} from "../../../../contracts/interfaces/IBoundedMulticall.sol";

/// @dev Remembers how it was called.
contract Callee {
    uint256 public calls;
    uint256 public gasReceived;
    bytes public lastData;

    error Refused();

    fallback() external payable {
        gasReceived = gasleft();
        ++calls;
        lastData = msg.data;
        assert(msg.value == 0);
    }

    function refuse() external pure {
        revert Refused();
    }

    /// @dev Uses all the gas that it is given.
    function burn() external pure {
        assembly ("memory-safe") {
            invalid()
        }
    }

    /// @dev Answers with so many bytes, or reverts with them.
    function bomb(uint256 size, bool reverts) external pure {
        assembly {
            if reverts { revert(0, size) }
            return(0, size)
        }
    }
}

/// @dev A recipient that uses all the gas that it is given, however much.
contract BurningRecipient is IERC7786Recipient {
    function receiveMessage(bytes32, bytes calldata, bytes calldata) external payable returns (bytes4) {
        assembly ("memory-safe") {
            invalid()
        }
    }
}

/// @dev Calls a multicall while that calls it: one call that succeeds, and one that does not.
contract ReenteringCallee {
    IBoundedMulticall private immutable _multicall;
    Callee private immutable _other;

    constructor(IBoundedMulticall multicall_, Callee other) {
        (_multicall, _other) = (multicall_, other);
    }

    fallback() external {
        IBoundedMulticall.Call[] memory inner = new IBoundedMulticall.Call[](2);
        inner[0] = IBoundedMulticall.Call(address(_other), 100_000, abi.encodeCall(Callee.refuse, ()));
        inner[1] = IBoundedMulticall.Call(address(_other), 100_000, "inner");
        assert(_multicall.multicall(inner) == 2);
    }
}

/// @dev The vulnerable twin: calls without bounds, as a plain multicall makes them.
contract UnboundedMulticall is IBoundedMulticall {
    function multicall(Call[] calldata calls) external returns (uint256 succeeded) {
        for (uint256 index; index < calls.length; ++index) {
            (bool success,) = calls[index].target.call(calls[index].data);
            if (success) succeeded |= 1 << index;
        }
    }
}
