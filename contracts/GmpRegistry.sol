// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Create3} from "@openzeppelin/contracts/utils/Create3.sol";

import {LanePolicy} from "./LanePolicy.sol";
import {RecipientPolicy} from "./RecipientPolicy.sol";
import {IAdapter} from "./interfaces/IAdapter.sol";
import {IGmpRegistry} from "./interfaces/IGmpRegistry.sol";
import {ILanePolicy} from "./interfaces/ILanePolicy.sol";
import {Addresses} from "./libraries/Addresses.sol";
import {Epochs, Gmp, GmpSet, HIGHEST_GMP, NO_GMP} from "./types/Gmp.sol";
import {LaneWord} from "./types/MessageRecords.sol";

/// @dev The registry of adapters and peers, as {IGmpRegistry} specifies it.
abstract contract GmpRegistry is IGmpRegistry, RecipientPolicy, LanePolicy {
    using Addresses for address;
    using Addresses for bytes32;

    uint8 private constant HIGHEST_NUMBER = 7;

    /// @inheritdoc IGmpRegistry
    function createAdapter(Gmp gmp, uint8 number, bytes calldata creationCode)
        external
        onlyOwner
        returns (address adapter)
    {
        gmp.toSet();
        if (number == 0 || number > HIGHEST_NUMBER) revert InvalidCreationNumber(number);
        adapter = Create3.deploy(0, _creationSalt(gmp, number), creationCode);
        _creationHashes[adapter] = keccak256(creationCode);
    }

    /// @inheritdoc IGmpRegistry
    function addAdapter(Gmp gmp, address adapter) external onlyOwner {
        GmpSet enabled = _gmps.enabled().with(gmp);
        _gmps.epochs().requireRevocable(gmp);
        if (_adapterSlots[gmp].adapter != address(0)) revert GmpAlreadyHasAdapter(gmp, _adapterSlots[gmp].adapter);
        _bind(gmp, adapter);
        _setTable(_gmps.withEnabled(enabled).withCreatedAs(gmp, _createdAs(gmp, adapter)));
        emit AdapterAdded(gmp, adapter);
    }

    /// @inheritdoc IGmpRegistry
    function replaceAdapter(Gmp gmp, address adapter) external onlyOwner {
        address previous = _requireAdapter(gmp);
        _tables[previous] = _tables[previous].withoutCopy();
        _bind(gmp, adapter);
        _setTable(_gmps.withCreatedAs(gmp, _createdAs(gmp, adapter)));
        emit AdapterReplaced(gmp, adapter, previous);
    }

    /// @inheritdoc IGmpRegistry
    function revokeAdapter(Gmp gmp) external onlyRevoker {
        address adapter = _requireAdapter(gmp);
        _tables[adapter] = _tables[adapter].withoutCopy();
        delete _adapterSlots[gmp].adapter;
        Epochs epochs = _gmps.epochs().bump(gmp);
        _setTable(_gmps.withEnabled(_gmps.enabled().without(gmp)).withEpochs(epochs).withCreatedAs(gmp, 0));
        emit AdapterRevoked(gmp, adapter, epochs.epochOf(gmp));
    }

    /// @inheritdoc IGmpRegistry
    function setPeer(uint64 chain, bytes32 router, uint8 floor) external onlyOwner {
        if (chain == 0) revert ZeroChain();
        if (chain == block.chainid) revert ILanePolicy.SameChain(chain);
        if (router == 0) revert ZeroAddress();
        // Every peer is an EVM router; a word that is not an address could never deliver a message.
        address peer = router.toAddress();
        _lanes[chain].word = _lanes[chain].word.withPeer(peer);
        _knownPeers[chain][peer] = true;
        // A floor that was raised in an emergency must not fall when the peer changes.
        uint8 present = _lanes[chain].word.floor();
        _setFloor(chain, floor > present ? floor : present);
        emit PeerSet(chain, router);
    }

    /// @inheritdoc IGmpRegistry
    function revokePeer(uint64 chain, bytes32 router) external onlyRevoker {
        if (!_isPeer(chain, router)) revert ILanePolicy.UnknownPeer(chain, router);
        address peer = router.toAddress();
        delete _knownPeers[chain][peer];
        LaneWord word = _lanes[chain].word;
        if (word.peer() == peer) _lanes[chain].word = word.withPeer(address(0));
        // Permanent: from now on, every lane is checked before a message on it is accepted or retried.
        _setTable(_gmps.withLanesClosed(type(uint16).max));
        emit PeerRevoked(chain, router);
    }

    /// @inheritdoc IGmpRegistry
    function adapterOf(Gmp gmp) external view returns (address) {
        return _adapterSlots[gmp].adapter;
    }

    /// @inheritdoc IGmpRegistry
    function gmpOf(address adapter) external view returns (Gmp) {
        return _tables[adapter].gmp();
    }

    /// @inheritdoc IGmpRegistry
    function creationHashOf(address adapter) external view returns (bytes32) {
        return _creationHashes[adapter];
    }

    /// @inheritdoc IGmpRegistry
    function enabledGmps() external view returns (GmpSet) {
        return _gmps.enabled();
    }

    /// @inheritdoc IGmpRegistry
    function epochOf(Gmp gmp) external view returns (uint8) {
        return _gmps.epochs().epochOf(gmp);
    }

    /// @inheritdoc IGmpRegistry
    function peerOf(uint64 chain) external view returns (bytes32) {
        return _lanes[chain].word.peer().toBytes32();
    }

    /// @inheritdoc IGmpRegistry
    function isPeer(uint64 chain, bytes32 router) external view returns (bool) {
        return _isPeer(chain, router);
    }

    /// @dev Only {createAdapter} can put code at such an address.
    function _createdAs(Gmp gmp, address adapter) private view returns (uint8 number) {
        if (_creationHashes[adapter] == 0) return 0;
        for (number = HIGHEST_NUMBER; number != 0; --number) {
            if (_createdAddress(gmp, number) == adapter) return number;
        }
    }

    function _requireAdapter(Gmp gmp) private view returns (address adapter) {
        adapter = _adapterSlots[gmp].adapter;
        if (adapter == address(0)) revert GmpHasNoAdapter(gmp);
    }

    /// @dev Two numbers for one transport would let a single GMP reach a quorum of two.
    function _requireOwnTransport(Gmp gmp, address transport) private view {
        for (uint8 number = 1; number <= Gmp.unwrap(HIGHEST_GMP); ++number) {
            address other = _adapterSlots[Gmp.wrap(number)].adapter;
            if (other == address(0) || Gmp.wrap(number) == gmp) continue;
            if (IAdapter(other).transport() == transport) revert TransportAlreadyUsed(transport, Gmp.wrap(number));
        }
    }

    function _bind(Gmp gmp, address adapter) private {
        if (adapter.code.length == 0) revert NotContract(adapter);
        Gmp used = _tables[adapter].gmp();
        if (used != NO_GMP) revert AdapterAlreadyUsed(adapter, used);
        address router = IAdapter(adapter).router();
        if (router != address(this)) revert AdapterOfAnotherRouter(adapter, router);
        _requireOwnTransport(gmp, IAdapter(adapter).transport());
        _adapterSlots[gmp].adapter = adapter;
    }
}
