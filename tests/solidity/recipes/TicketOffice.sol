// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Lane, Lanes} from "../../../contracts/client/Lanes.sol";
import {ReissueGuard} from "../../../contracts/client/ReissueGuard.sol";
import {RouterClient} from "../../../contracts/client/RouterClient.sol";
import {IRouter} from "../../../contracts/interfaces/IRouter.sol";
import {Kind, Route} from "../../../contracts/types/Message.sol";

/// @notice The second dApp of docs/recipes.md: a message gives its holder one ticket, so applying it twice would give two.
contract TicketOffice is RouterClient, ReissueGuard {
    Lane private _lane;

    mapping(address holder => uint256) public tickets;

    constructor(IRouter router_, address owner_) RouterClient(router_, owner_) {}

    function setLane(Lane calldata lane) external onlyOwner {
        _lane = lane;
    }

    /// @param replaces The message that this one is issued in place of, or 0.
    function issue(address holder, bytes32 replaces) external payable returns (bytes32 messageId) {
        Route memory made = _lane.request(Kind.PLAIN, abi.encode(holder), msg.sender);
        made.replaces = replaces;
        return Lanes.send(router, made, msg.value);
    }

    function _handle(bytes32 messageId, uint64 chain, address sender, bytes calldata payload) internal override {
        (,,, bytes32 replaces) = router.executing();
        _applyOnce(chain, sender, messageId, replaces);
        ++tickets[abi.decode(payload, (address))];
    }
}

/// @notice The vulnerable twin: forgets to ask.
contract ForgetfulTicketOffice is TicketOffice {
    constructor(IRouter router_, address owner_) TicketOffice(router_, owner_) {}

    function _applyOnce(uint64, address, bytes32, bytes32) internal override {}
}
