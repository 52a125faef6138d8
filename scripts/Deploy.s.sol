// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Script} from "forge-std/Script.sol";
import {stdJson} from "forge-std/StdJson.sol";

import {Router} from "../contracts/Router.sol";
import {IRouter} from "../contracts/interfaces/IRouter.sol";
import {AxelarAdapter} from "../contracts/adapters/AxelarAdapter.sol";
import {CcipAdapter} from "../contracts/adapters/CcipAdapter.sol";
import {HyperlaneAdapter} from "../contracts/adapters/HyperlaneAdapter.sol";
import {LayerZeroAdapter} from "../contracts/adapters/LayerZeroAdapter.sol";
import {WormholeAdapter} from "../contracts/adapters/WormholeAdapter.sol";
import {Parameters} from "../contracts/governance/Parameters.sol";
import {Inbox} from "../contracts/examples/Inbox.sol";
import {BoundedMulticall} from "../contracts/relaying/BoundedMulticall.sol";
import {IAdapter} from "../contracts/interfaces/IAdapter.sol";
import {Addresses} from "../contracts/libraries/Addresses.sol";
import {ALL_GMPS, Gmp} from "../contracts/types/Gmp.sol";

/// @notice Brings one chain of a network to the state that a plan describes, and does only what is missing.
/// @dev Every address follows from the plan (CREATE2), the other chains' too, so chains can be deployed in any order or at once.
///      `bridge/deploy.py` writes the plan, runs this for each chain and joins the results. Environment: WAYBILL_PLAN, the
///      plan; WAYBILL_RESULT, the file to write; WAYBILL_DEPLOYER_KEY, the owner's key.
contract Deploy is Script {
    using stdJson for string;
    using Addresses for address;

    /// @dev One chain of the plan; a GMP that is not there has zero addresses.
    struct ChainPlan {
        uint64 id;
        string name;
        uint32 hyperlaneDomain;
        address mailbox;
        string axelarName;
        address gateway;
        address gasService;
        uint16 wormholeId;
        address core;
        uint32 layerzeroEid;
        address endpoint;
        uint64 ccipSelector;
        address ccipRouter;
    }

    /// @dev Another salt makes a second set of contracts.
    bytes32 private constant SALT = keccak256("waybill 1");

    Gmp private constant HYPERLANE = Gmp.wrap(1);
    Gmp private constant AXELAR = Gmp.wrap(2);
    Gmp private constant WORMHOLE = Gmp.wrap(3);
    Gmp private constant LAYERZERO = Gmp.wrap(4);
    Gmp private constant CCIP = Gmp.wrap(5);

    /// @dev Wormhole's number for: the guardians wait until the block is final.
    uint8 private constant FINALIZED = 1;

    /// @dev How many GMPs must agree on what the governor says.
    uint8 private constant GOVERNORS_QUORUM = 2;

    string private constant RESULT = "result";

    address private _owner;
    uint8 private _floor;
    string[] private _done;

    error NotInPlan(uint256 chain);
    error OwnerIsAnother(address owner, address deployer);
    error NotCreated(string name, address expected);
    error AnotherNetworkDeployed(address deployed, address planned);
    error AnotherAdapterRegistered(Gmp gmp, address registered, address planned);

    function run() external {
        string memory plan = vm.readFile(vm.envString("WAYBILL_PLAN"));
        uint256 key = vm.envUint("WAYBILL_DEPLOYER_KEY");
        _owner = plan.readAddress(".owner");
        _floor = uint8(plan.readUint(".floor"));
        if (vm.addr(key) != _owner) revert OwnerIsAnother(_owner, vm.addr(key));
        ChainPlan[] memory chains = _readChains(plan);
        _requireSameNetwork(plan);
        // Taken before anything is sent, so that the router is younger.
        vm.serializeUint(RESULT, "startBlock", block.number);

        vm.startBroadcast(key);
        ChainPlan memory here = _find(chains);
        IRouter router = IRouter(_create("router", _routerCode()));
        vm.serializeAddress(RESULT, "router", address(router));
        _deployAdapters(here, router);
        _deployParameters(chains[0].id, router);
        vm.serializeAddress(RESULT, "multicall", _create("multicall", type(BoundedMulticall).creationCode));
        if (plan.readBool(".examples")) {
            bytes memory code = abi.encodePacked(type(Inbox).creationCode, abi.encode(router, _owner));
            vm.serializeAddress(RESULT, "inbox", _create("inbox", code));
        }
        for (uint256 index; index < chains.length; ++index) {
            if (chains[index].id != here.id) _connect(here, chains[index], router);
        }
        vm.stopBroadcast();
        vm.writeJson(vm.serializeString(RESULT, "done", _done), vm.envString("WAYBILL_RESULT"));
    }

    /// @dev Other code or another owner makes another router. Where the network's file names one that is deployed, that would be
    ///      a second network under the same name.
    function _requireSameNetwork(string memory plan) private view {
        address planned = _addressOf(_routerCode());
        address[] memory deployed = plan.readAddressArray(".deployed");
        for (uint256 index; index < deployed.length; ++index) {
            if (deployed[index] != planned) revert AnotherNetworkDeployed(deployed[index], planned);
        }
    }

    function _deployAdapters(ChainPlan memory here, IRouter router) private {
        if (here.mailbox != address(0)) {
            _register(router, HYPERLANE, "hyperlane", _create("hyperlane adapter", _hyperlaneCode(here)));
        }
        if (here.gateway != address(0)) {
            _register(router, AXELAR, "axelar", _create("axelar adapter", _axelarCode(here)));
        }
        if (here.core != address(0)) {
            _register(router, WORMHOLE, "wormhole", _create("wormhole adapter", _wormholeCode(here)));
        }
        if (here.endpoint != address(0)) {
            _register(router, LAYERZERO, "layerzero", _create("layerzero adapter", _layerzeroCode(here)));
        }
        if (here.ccipRouter != address(0)) {
            _register(router, CCIP, "ccip", _create("ccip adapter", _ccipCode(here)));
        }
    }

    /// @dev The owner is its timelock at first, and its governor from the plan's first chain.
    function _deployParameters(uint64 governorsChain, IRouter router) private {
        bytes memory arguments = abi.encode(_owner, router, governorsChain, _owner, GOVERNORS_QUORUM, ALL_GMPS);
        address created = _create("parameters", abi.encodePacked(type(Parameters).creationCode, arguments));
        vm.serializeAddress(RESULT, "parameters", created);
        _setParameters(Parameters(created));
    }

    /// @dev What `bridge/dead_letters/parameters.py` reads: alarms by dead letters per hour, and the owner as the first operator.
    function _setParameters(Parameters parameters) private {
        bytes32[] memory names = new bytes32[](3);
        uint256[] memory values = new uint256[](3);
        (names[0], values[0]) = (keccak256("dlq.alertThreshold"), 10);
        (names[1], values[1]) = (keccak256("dlq.criticalThreshold"), 100);
        (names[2], values[2]) = (keccak256(abi.encode(keccak256("dlq.operator"), _owner)), 1);
        // Anyone may have created the contract before, so what it says counts, and not whether it is new. What governance has
        // decided since stays.
        uint256 missing;
        for (uint256 index; index < names.length; ++index) {
            if (parameters.numberOf(names[index]) != 0) continue;
            (names[missing], values[missing]) = (names[index], values[index]);
            ++missing;
        }
        if (missing == 0) return;
        assembly ("memory-safe") {
            mstore(names, missing)
            mstore(values, missing)
        }
        parameters.set(1, names, values);
        _done.push("parameters set");
    }

    function _register(IRouter router, Gmp gmp, string memory name, address adapter) private {
        vm.serializeAddress(RESULT, name, adapter);
        address registered = router.adapterOf(gmp);
        if (registered == adapter) return;
        // Replacing keeps receipts and revoking voids them: nobody but the owner can say which is meant.
        if (registered != address(0)) revert AnotherAdapterRegistered(gmp, registered, adapter);
        router.addAdapter(gmp, adapter);
        _done.push(string.concat(name, " registered"));
    }

    function _connect(ChainPlan memory here, ChainPlan memory there, IRouter router) private {
        bytes32 peer = _addressOf(_routerCode()).toBytes32();
        if (router.peerOf(there.id) != peer) {
            router.setPeer(there.id, peer, _floor);
            _done.push(string.concat("peer ", there.name));
        } else if (router.floorOf(there.id) < _floor) {
            router.setFloor(there.id, _floor);
            _done.push(string.concat("floor to ", there.name));
        }
        _connectHyperlane(here, there, peer);
        _connectAxelar(here, there, peer);
        _connectWormhole(here, there, peer);
        _connectLayerZero(here, there, peer);
        _connectCcip(here, there, peer);
    }

    function _connectHyperlane(ChainPlan memory here, ChainPlan memory there, bytes32 peer) private {
        if (here.mailbox == address(0) || there.mailbox == address(0)) return;
        HyperlaneAdapter adapter = HyperlaneAdapter(_addressOf(_hyperlaneCode(here)));
        bytes32 remote = _addressOf(_hyperlaneCode(there)).toBytes32();
        if (_isConnected(adapter, there, peer, remote) && adapter.domainOf(there.id) == there.hyperlaneDomain) return;
        adapter.connect(there.id, peer, remote, there.hyperlaneDomain);
        _done.push(string.concat("hyperlane to ", there.name));
    }

    function _connectAxelar(ChainPlan memory here, ChainPlan memory there, bytes32 peer) private {
        if (here.gateway == address(0) || there.gateway == address(0)) return;
        AxelarAdapter adapter = AxelarAdapter(_addressOf(_axelarCode(here)));
        bytes32 remote = _addressOf(_axelarCode(there)).toBytes32();
        bool named = keccak256(bytes(adapter.nameOf(there.id))) == keccak256(bytes(there.axelarName));
        if (_isConnected(adapter, there, peer, remote) && named) return;
        adapter.connect(there.id, peer, remote, there.axelarName);
        _done.push(string.concat("axelar to ", there.name));
    }

    function _connectWormhole(ChainPlan memory here, ChainPlan memory there, bytes32 peer) private {
        if (here.core == address(0) || there.core == address(0)) return;
        WormholeAdapter adapter = WormholeAdapter(_addressOf(_wormholeCode(here)));
        bytes32 remote = _addressOf(_wormholeCode(there)).toBytes32();
        if (_isConnected(adapter, there, peer, remote) && adapter.wormholeIdOf(there.id) == there.wormholeId) return;
        adapter.connect(there.id, peer, remote, there.wormholeId);
        _done.push(string.concat("wormhole to ", there.name));
    }

    function _connectLayerZero(ChainPlan memory here, ChainPlan memory there, bytes32 peer) private {
        if (here.endpoint == address(0) || there.endpoint == address(0)) return;
        LayerZeroAdapter adapter = LayerZeroAdapter(_addressOf(_layerzeroCode(here)));
        bytes32 remote = _addressOf(_layerzeroCode(there)).toBytes32();
        if (_isConnected(adapter, there, peer, remote) && adapter.eidOf(there.id) == there.layerzeroEid) return;
        adapter.connect(there.id, peer, remote, there.layerzeroEid);
        _done.push(string.concat("layerzero to ", there.name));
    }

    function _connectCcip(ChainPlan memory here, ChainPlan memory there, bytes32 peer) private {
        if (here.ccipRouter == address(0) || there.ccipRouter == address(0)) return;
        CcipAdapter adapter = CcipAdapter(_addressOf(_ccipCode(here)));
        bytes32 remote = _addressOf(_ccipCode(there)).toBytes32();
        if (_isConnected(adapter, there, peer, remote) && adapter.selectorOf(there.id) == there.ccipSelector) return;
        adapter.connect(there.id, peer, remote, there.ccipSelector);
        _done.push(string.concat("ccip to ", there.name));
    }

    function _isConnected(IAdapter adapter, ChainPlan memory there, bytes32 peer, bytes32 remote)
        private
        view
        returns (bool)
    {
        return adapter.remoteAdapterOf(there.id, peer) == remote;
    }

    /// @dev Creates a contract at the address that its code and arguments determine, unless it is there.
    function _create(string memory name, bytes memory code) private returns (address expected) {
        expected = _addressOf(code);
        if (expected.code.length != 0) return expected;
        (bool success,) = CREATE2_FACTORY.call(bytes.concat(SALT, code));
        if (!success || expected.code.length == 0) revert NotCreated(name, expected);
        _done.push(name);
    }

    function _addressOf(bytes memory code) private pure returns (address) {
        return vm.computeCreate2Address(SALT, keccak256(code));
    }

    /// @dev One owner on all chains makes one address on all chains.
    function _routerCode() private view returns (bytes memory) {
        return abi.encodePacked(type(Router).creationCode, abi.encode(_owner));
    }

    function _hyperlaneCode(ChainPlan memory chain) private view returns (bytes memory) {
        return
            abi.encodePacked(type(HyperlaneAdapter).creationCode, abi.encode(_addressOf(_routerCode()), chain.mailbox));
    }

    function _axelarCode(ChainPlan memory chain) private view returns (bytes memory) {
        return abi.encodePacked(
            type(AxelarAdapter).creationCode, abi.encode(_addressOf(_routerCode()), chain.gateway, chain.gasService)
        );
    }

    function _wormholeCode(ChainPlan memory chain) private view returns (bytes memory) {
        return abi.encodePacked(
            type(WormholeAdapter).creationCode, abi.encode(_addressOf(_routerCode()), chain.core, FINALIZED)
        );
    }

    function _layerzeroCode(ChainPlan memory chain) private view returns (bytes memory) {
        return
            abi.encodePacked(type(LayerZeroAdapter).creationCode, abi.encode(_addressOf(_routerCode()), chain.endpoint));
    }

    function _ccipCode(ChainPlan memory chain) private view returns (bytes memory) {
        return abi.encodePacked(type(CcipAdapter).creationCode, abi.encode(_addressOf(_routerCode()), chain.ccipRouter));
    }

    function _find(ChainPlan[] memory chains) private view returns (ChainPlan memory) {
        for (uint256 index; index < chains.length; ++index) {
            if (chains[index].id == block.chainid) return chains[index];
        }
        revert NotInPlan(block.chainid);
    }

    function _readChains(string memory plan) private view returns (ChainPlan[] memory chains) {
        chains = new ChainPlan[](plan.readUint(".count"));
        for (uint256 index; index < chains.length; ++index) {
            string memory at = string.concat(".chains[", vm.toString(index), "]");
            chains[index].id = uint64(plan.readUint(string.concat(at, ".chainId")));
            chains[index].name = plan.readString(string.concat(at, ".name"));
            _readGmps(plan, string.concat(at, ".gmps"), chains[index]);
        }
    }

    function _readGmps(string memory plan, string memory at, ChainPlan memory chain) private view {
        if (plan.keyExists(string.concat(at, ".hyperlane"))) {
            chain.hyperlaneDomain = uint32(plan.readUint(string.concat(at, ".hyperlane.domain")));
            chain.mailbox = plan.readAddress(string.concat(at, ".hyperlane.mailbox"));
        }
        if (plan.keyExists(string.concat(at, ".axelar"))) {
            chain.axelarName = plan.readString(string.concat(at, ".axelar.chainName"));
            chain.gateway = plan.readAddress(string.concat(at, ".axelar.gateway"));
            chain.gasService = plan.readAddress(string.concat(at, ".axelar.gasService"));
        }
        if (plan.keyExists(string.concat(at, ".wormhole"))) {
            chain.wormholeId = uint16(plan.readUint(string.concat(at, ".wormhole.chainId")));
            chain.core = plan.readAddress(string.concat(at, ".wormhole.core"));
        }
        if (plan.keyExists(string.concat(at, ".layerzero"))) {
            chain.layerzeroEid = uint32(plan.readUint(string.concat(at, ".layerzero.eid")));
            chain.endpoint = plan.readAddress(string.concat(at, ".layerzero.endpoint"));
        }
        if (plan.keyExists(string.concat(at, ".ccip"))) {
            chain.ccipSelector = uint64(plan.readUint(string.concat(at, ".ccip.selector")));
            chain.ccipRouter = plan.readAddress(string.concat(at, ".ccip.router"));
        }
    }
}
