// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRelayerVault} from "../../../../contracts/interfaces/IRelayerVault.sol";
import {Gmp} from "../../../../contracts/types/Gmp.sol";

/// @dev Uses up all gas that it is given.
contract BurningPayer {
    uint256 private burnt;

    receive() external payable {
        while (true) ++burnt;
    }
}

/// @dev Asks for its refund again while it gets it.
contract GreedyPayer {
    IRelayerVault private immutable vault;
    bytes32 private immutable messageId;
    Gmp private immutable gmp;

    bool public wasRefused;

    constructor(IRelayerVault vault_, bytes32 messageId_, Gmp gmp_) {
        (vault, messageId, gmp) = (vault_, messageId_, gmp_);
    }

    receive() external payable {
        try vault.refund(messageId, gmp, address(this)) {}
        catch {
            wasRefused = true;
        }
    }
}
