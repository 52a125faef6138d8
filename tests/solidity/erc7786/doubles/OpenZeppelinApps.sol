// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {CrosschainLinked} from "@openzeppelin/contracts/crosschain/CrosschainLinked.sol";
import {BridgeERC20} from "@openzeppelin/contracts/crosschain/bridges/BridgeERC20.sol";
import {BridgeERC721} from "@openzeppelin/contracts/crosschain/bridges/BridgeERC721.sol";
import {Governor} from "@openzeppelin/contracts/governance/Governor.sol";
import {GovernorCountingSimple} from "@openzeppelin/contracts/governance/extensions/GovernorCountingSimple.sol";
import {GovernorCrosschain} from "@openzeppelin/contracts/governance/extensions/GovernorCrosschain.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ERC20Crosschain} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Crosschain.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";
import {IERC721} from "@openzeppelin/contracts/token/ERC721/IERC721.sol";

// OpenZeppelin's own code, unmodified: these contracts give its abstract ones constructors, and override nothing of theirs that
// sends or receives.

contract TokenBridge is BridgeERC20 {
    constructor(IERC20 token, Link[] memory links) BridgeERC20(token) CrosschainLinked(links) {}
}

contract CollectibleBridge is BridgeERC721 {
    constructor(IERC721 token, Link[] memory links) BridgeERC721(token) CrosschainLinked(links) {}
}

contract CrosschainToken is ERC20Crosschain {
    constructor(address holder, uint256 supply, Link[] memory links)
        ERC20("Crosschain Token", "XT")
        CrosschainLinked(links)
    {
        _mint(holder, supply);
    }
}

contract Token is ERC20("Token", "T") {
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }
}

contract Collectible is ERC721("Collectible", "C") {
    function mint(address to, uint256 id) external {
        _mint(to, id);
    }
}

/// @notice One account, one vote, a day to cast it.
contract ChainGovernor is Governor("Chain Governor"), GovernorCountingSimple, GovernorCrosschain {
    function clock() public view override returns (uint48) {
        return uint48(block.timestamp);
    }

    function CLOCK_MODE() public pure override returns (string memory) {
        return "mode=timestamp";
    }

    function votingDelay() public pure override returns (uint256) {
        return 1;
    }

    function votingPeriod() public pure override returns (uint256) {
        return 1 days;
    }

    function quorum(uint256) public pure override returns (uint256) {
        return 1;
    }

    function _getVotes(address, uint256, bytes memory) internal pure override returns (uint256) {
        return 1;
    }
}

/// @notice What a governor on another chain governs.
contract Governed {
    address public immutable governor;
    uint256 public value;

    error OnlyGovernor(address caller);

    constructor(address governor_) {
        governor = governor_;
    }

    function set(uint256 value_) external {
        if (msg.sender != governor) revert OnlyGovernor(msg.sender);
        value = value_;
    }
}
