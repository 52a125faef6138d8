// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Mode} from "@openzeppelin/contracts/account/utils/draft-ERC7579Utils.sol";
import {CrosschainLinked} from "@openzeppelin/contracts/crosschain/CrosschainLinked.sol";
import {CrosschainRemoteExecutor} from "@openzeppelin/contracts/crosschain/CrosschainRemoteExecutor.sol";
import {IERC7786Recipient} from "@openzeppelin/contracts/interfaces/draft-IERC7786.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";

import {RecipientConformance} from "../../../contracts/conformance/RecipientConformance.sol";
import {Inbox} from "../../../contracts/examples/Inbox.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Governed, Token, TokenBridge} from "../erc7786/doubles/OpenZeppelinApps.sol";
import {TestedRouter} from "../TestedRouter.sol";

/// @dev A real router as the gateway: some recipients ask it for `supportsAttribute` first.
abstract contract RouterRecipientConformance is RecipientConformance {
    IRouter internal immutable router = TestedRouter.deploy(address(this));
    bytes internal counterpart = InteroperableAddress.formatEvmV1(901, address(0xc0));

    function _knownGateway() internal view override returns (address) {
        return address(router);
    }
}

contract InboxTest is RouterRecipientConformance {
    Inbox private immutable inbox = new Inbox(address(router), address(this));

    function _recipient() internal view override returns (IERC7786Recipient) {
        return inbox;
    }

    function _message() internal view override returns (bytes memory, bytes memory) {
        return (counterpart, "hello");
    }
}

/// @dev OpenZeppelin's, unmodified.
contract BridgeERC20RecipientTest is RouterRecipientConformance {
    Token private immutable token = new Token();
    TokenBridge private bridge;

    function setUp() external {
        CrosschainLinked.Link[] memory links = new CrosschainLinked.Link[](1);
        links[0] = CrosschainLinked.Link(address(router), counterpart);
        bridge = new TokenBridge(token, links);
        token.mint(address(bridge), 1000);
    }

    function _recipient() internal view override returns (IERC7786Recipient) {
        return bridge;
    }

    function _message() internal view override returns (bytes memory, bytes memory) {
        return (counterpart, abi.encode(bytes(""), abi.encodePacked(address(0xb0b)), uint256(10)));
    }
}

/// @dev OpenZeppelin's, unmodified.
contract CrosschainRemoteExecutorTest is RouterRecipientConformance {
    CrosschainRemoteExecutor private executor;
    Governed private governed;

    function setUp() external {
        executor = new CrosschainRemoteExecutor(address(router), counterpart);
        governed = new Governed(address(executor));
    }

    function _recipient() internal view override returns (IERC7786Recipient) {
        return executor;
    }

    function _message() internal view override returns (bytes memory, bytes memory) {
        bytes memory call = abi.encodeCall(Governed.set, (7));
        return (counterpart, abi.encodePacked(Mode.wrap(0), address(governed), uint256(0), call));
    }
}
