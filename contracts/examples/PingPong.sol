// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Lane, Lanes} from "../client/Lanes.sol";
import {RouterClient} from "../client/RouterClient.sol";
import {IRouter} from "../interfaces/IRouter.sol";
import {Kind} from "../types/Message.sol";

/// @title PingPong
/// @notice Plays a ball back and forth between chains: the smallest dApp that sends, receives, and sends while it receives.
/// @dev Returns are paid from the contract's own balance. When it is empty, the ball waits at the router: send money here, and
///      then anyone may execute the message.
contract PingPong is RouterClient {
    /// @notice The maximum number of returns in a game.
    uint8 public constant MOST_RETURNS = 32;

    mapping(uint64 chain => Lane) private _lanes;

    /// @notice How many balls came from a chain.
    mapping(uint64 chain => uint256 balls) public received;

    event LaneSet(uint64 indexed chain, address recipient);
    event BallPlayed(uint64 indexed chain, uint8 returnsLeft, bytes32 messageId);
    event BallReceived(uint64 indexed chain, uint8 returnsLeft, bytes32 messageId);

    /// @notice A game has at most `most` returns.
    error TooManyReturns(uint8 returns_, uint8 most);

    constructor(IRouter router_, address owner_) RouterClient(router_, owner_) {}

    /// @notice Money for returning balls.
    receive() external payable {}

    /// @notice Sets how balls travel to a chain.
    function setLane(Lane calldata lane) external onlyOwner {
        _lanes[lane.chain] = lane;
        emit LaneSet(lane.chain, lane.recipient);
    }

    /// @notice Starts a game with `returns_` returns. `msg.value` pays the first ball; the rest is returned to the caller.
    function serve(uint64 chain, uint8 returns_) external payable returns (bytes32 messageId) {
        if (returns_ > MOST_RETURNS) revert TooManyReturns(returns_, MOST_RETURNS);
        return _play(chain, returns_, msg.value, msg.sender);
    }

    function _handle(bytes32 messageId, uint64 chain, address, bytes calldata payload) internal override {
        uint8 returnsLeft = abi.decode(payload, (uint8));
        ++received[chain];
        emit BallReceived(chain, returnsLeft, messageId);
        if (returnsLeft != 0) _play(chain, returnsLeft - 1, address(this).balance, address(this));
    }

    function _play(uint64 chain, uint8 returnsLeft, uint256 value, address refundTo)
        private
        returns (bytes32 messageId)
    {
        Lane memory lane = _lanes[chain];
        messageId = Lanes.send(router, lane.request(Kind.PLAIN, abi.encode(returnsLeft), refundTo), value);
        emit BallPlayed(chain, returnsLeft, messageId);
    }
}
