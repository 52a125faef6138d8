// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {StdCheats} from "forge-std/StdCheats.sol";
import {CommonBase} from "forge-std/Base.sol";
import {Vm} from "forge-std/Vm.sol";

import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../../contracts/types/Gmp.sol";

/// @dev A message that a GMP accepted on one chain and that waits to be delivered on another.
struct Parcel {
    uint64 from;
    uint64 to;
    /// @dev The adapter it is for.
    address adapter;
    /// @dev What the GMP needs to deliver it; only its network reads it.
    bytes content;
}

/// @notice One GMP as it really is: its own contracts, from its maker's bytecode in build/gmp, on several chains, and the parties
///         that attest and relay (validators, guardians, verifiers, oracles), played with local keys.
/// @dev All chains live in one EVM. A contract belongs to the chain that was active when it was deployed, and each function
///      makes the right chain the active one: {CommonBase-vm}.chainId changes what the opcode returns, and that is all
///      that the contracts can see of their chain.
abstract contract GmpNetwork is CommonBase, StdCheats {
    struct Signer {
        address account;
        uint256 key;
    }

    /// @dev Ascending by address, as most GMPs want them.
    Signer[] internal signers;

    /// @dev Keys that no GMP knows.
    Signer[] internal outsiders;

    uint64[] internal chains;

    /// @dev Gas for a delivery in which nobody is short of gas.
    uint256 internal constant PLENTY = 10_000_000;

    constructor() {
        _makeSigners("signer", signers);
        _makeSigners("outsider", outsiders);
    }

    function gmp() external pure virtual returns (Gmp);

    /// @dev The GMP's number for a chain. Axelar, which has names, hashes them.
    function numberOf(uint64 chain) public pure virtual returns (uint256);

    /// @dev The longest envelope that the GMP takes, in bytes; 0 when it sets no limit.
    function longestEnvelope() external pure virtual returns (uint256) {
        return 0;
    }

    /// @dev The most gas that a delivery may ask for.
    function mostGas() external pure virtual returns (uint256) {
        return PLENTY;
    }

    function addChain(uint64 chain) external {
        vm.chainId(chain);
        _deploy(chain);
        chains.push(chain);
    }

    /// @dev Opens the lanes between all chains.
    function wire() external {
        for (uint256 a; a < chains.length; ++a) {
            vm.chainId(chains[a]);
            for (uint256 b; b < chains.length; ++b) {
                if (a != b) _openLane(chains[a], chains[b]);
            }
        }
    }

    function deployAdapter(uint64 chain, IRouter router) external returns (IAdapter) {
        vm.chainId(chain);
        return _deployAdapter(chain, router);
    }

    /// @dev Calls the adapter's `connect` as `caller`, with `number` for the chain.
    function connect(
        address caller,
        IAdapter adapter,
        uint64 chain,
        bytes32 remoteRouter,
        bytes32 remoteAdapter,
        uint256 number
    ) external virtual;

    /// @dev Sends over the GMP without Waybill.
    function sendAs(address account, uint64 from, uint64 to, address receiver, bytes calldata body) external virtual;

    /// @dev Knocks at the adapter's entry as if `caller` were the GMP.
    function knock(address caller, IAdapter adapter, uint64 from, bytes32 sender, bytes calldata envelope)
        external
        virtual;

    /// @dev The parcels that the GMP accepted, read from what it logged on `from`.
    function collect(Vm.Log[] calldata logs, uint64 from, uint64 to, address adapter)
        external
        returns (Parcel[] memory parcels)
    {
        parcels = new Parcel[](logs.length);
        uint256 count;
        for (uint256 index; index < logs.length; ++index) {
            (bool accepted, bytes memory content) = _read(logs, index, from);
            if (accepted) parcels[count++] = Parcel(from, to, adapter, content);
        }
        assembly ("memory-safe") {
            mstore(parcels, count)
        }
    }

    /// @dev Attests and delivers, or delivers again in the way the GMP has for that.
    /// @return consumed Whether the GMP considers the parcel delivered.
    function deliver(Parcel calldata parcel) external returns (bool consumed) {
        vm.chainId(parcel.to);
        return _deliver(parcel, signers, PLENTY);
    }

    /// @dev Like {deliver}, but the adapter gets no more than `gasLimit`.
    function deliverWithGas(Parcel calldata parcel, uint256 gasLimit) external returns (bool consumed) {
        vm.chainId(parcel.to);
        return _deliver(parcel, signers, gasLimit);
    }

    /// @dev Attests with keys that the GMP does not know.
    function deliverForged(Parcel calldata parcel) external returns (bool consumed) {
        vm.chainId(parcel.to);
        return _deliver(parcel, outsiders, PLENTY);
    }

    function _deploy(uint64 chain) internal virtual;

    function _openLane(uint64 from, uint64 to) internal virtual;

    function _deployAdapter(uint64 chain, IRouter router) internal virtual returns (IAdapter);

    function _read(Vm.Log[] calldata logs, uint256 index, uint64 from)
        internal
        virtual
        returns (bool accepted, bytes memory content);

    function _deliver(Parcel calldata parcel, Signer[] storage attesters, uint256 gasLimit)
        internal
        virtual
        returns (bool consumed);

    function _deployGmp(string memory path, bytes memory arguments) internal returns (address) {
        return deployCode(string.concat("build/gmp/", path, ".json"), arguments);
    }

    function _accounts() internal view returns (address[] memory accounts) {
        accounts = new address[](signers.length);
        for (uint256 index; index < signers.length; ++index) {
            accounts[index] = signers[index].account;
        }
    }

    function _sign(Signer storage signer, bytes32 digest) internal view returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(signer.key, digest);
        return abi.encodePacked(r, s, v);
    }

    function _makeSigners(string memory name, Signer[] storage made) private {
        for (uint256 index; index < 4; ++index) {
            (address account, uint256 key) = makeAddrAndKey(string.concat(name, vm.toString(index)));
            made.push();
            uint256 place = index;
            for (; place > 0 && made[place - 1].account > account; --place) {
                made[place] = made[place - 1];
            }
            made[place] = Signer(account, key);
        }
    }
}
