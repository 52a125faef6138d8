// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ERC7786Recipient} from "@openzeppelin/contracts/crosschain/ERC7786Recipient.sol";
import {InteroperableAddress} from "@openzeppelin/contracts/utils/draft-InteroperableAddress.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";

import {IRouter} from "../interfaces/IRouter.sol";

/// @dev What a relayer says of a lane at the moment when it sends a heartbeat over it; times in seconds.
struct Beat {
    /// @dev When it was said, by the relayer's clock.
    uint64 at;
    /// @dev State changes that are final on the source, and those of them that ended on the destination.
    uint64 primaryFinal;
    uint64 applied;
    /// @dev Since when the oldest of the others is final; 0 if there is none.
    uint64 lagSeconds;
    /// @dev What the source's router had counted ({IRouterViews-sentTo}).
    uint64 sent;
    uint32 sentSum;
}

/// @dev A heartbeat, and how the lane stood here when it arrived.
struct Arrived {
    Beat beat;
    /// @dev Messages that the source created before this heartbeat and that were not executed here when it arrived: under way,
    ///      expired, cancelled or lost. What overtook the heartbeat is not told from them, and makes it fewer.
    uint64 missing;
    /// @dev False if as many were executed as the source had counted, and they were others.
    bool matches;
}

/// @title Heartbeats
/// @notice Shows on the destination how far each lane that leads there is, and what of it is missing. An operator of something
///         there need not ask the source, its relayer or its index.
/// @dev Anybody may send heartbeats, so each sender has a place of its own, and readers name the relayers that they believe.
contract Heartbeats is ERC7786Recipient {
    using InteroperableAddress for bytes;
    using SafeCast for uint256;

    IRouter public immutable router;

    mapping(uint64 chain => mapping(address sender => Arrived)) private _last;

    event HeartbeatReceived(uint64 indexed chain, address indexed sender, Arrived heartbeat);

    constructor(IRouter router_) {
        router = router_;
    }

    /// @notice The newest heartbeat of a relayer on `chain`; zeros if none has arrived.
    function lastOf(uint64 chain, address sender) external view returns (Arrived memory) {
        return _last[chain][sender];
    }

    function _isAuthorizedGateway(address gateway, bytes calldata) internal view override returns (bool) {
        return gateway == address(router);
    }

    /// @dev The newest one counts: what a slow GMP brings late is received, and changes nothing.
    function _processMessage(address, bytes32, bytes calldata sender, bytes calldata payload) internal override {
        (uint256 chainId, address account) = sender.parseEvmV1Calldata();
        uint64 chain = chainId.toUint64();
        Beat memory beat = abi.decode(payload, (Beat));
        if (beat.at <= _last[chain][account].beat.at) return;
        // A lane's nonces begin at 1. The heartbeat itself is not counted as executed yet.
        (,, uint64 nonce,) = router.executing();
        (uint64 executed, uint192 sum) = router.executedFrom(chain);
        uint64 missing = nonce - 1 > executed ? nonce - 1 - executed : 0;
        Arrived memory arrived = Arrived(beat, missing, beat.sent != executed || beat.sentSum == uint32(sum));
        _last[chain][account] = arrived;
        emit HeartbeatReceived(chain, account, arrived);
    }
}
