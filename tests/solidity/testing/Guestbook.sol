// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ERC7786Recipient} from "@openzeppelin/contracts/crosschain/ERC7786Recipient.sol";

import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Addresses} from "../../../contracts/libraries/Addresses.sol";
import {GmpFee, Kind, Retry, Route} from "../../../contracts/types/Message.sol";

/// @notice A small dApp to be tested: who signs here appears in the guestbook of another chain.
contract Guestbook is ERC7786Recipient {
    using Addresses for address;

    IRouter private immutable _router;

    string[] public entries;

    constructor(IRouter router) {
        _router = router;
    }

    function sign(string calldata text, uint64 chain, address guestbook, uint8 quorum, GmpFee[] calldata gmps)
        external
        payable
        returns (bytes32 messageId)
    {
        return _router.route{value: msg.value}(
            Route({
                destinationChain: chain,
                recipient: guestbook.toBytes32(),
                payload: bytes(text),
                gasLimit: 200_000,
                ttl: 0,
                kind: Kind.PLAIN,
                quorum: quorum,
                replaces: 0,
                retriable: true,
                minDispatched: 1,
                gmps: gmps,
                refundTo: address(this)
            })
        );
    }

    /// @notice The contract is the message's sender, so only it may retry; whoever pays may ask it to.
    function retry(Retry calldata request) external payable returns (uint32 attempt) {
        return _router.retryRoute{value: msg.value}(request);
    }

    /// @dev What a GMP did not need.
    receive() external payable {}

    function _isAuthorizedGateway(address gateway, bytes calldata) internal view override returns (bool) {
        return gateway == address(_router);
    }

    function _processMessage(address, bytes32, bytes calldata, bytes calldata payload) internal override {
        entries.push(string(payload));
    }
}
