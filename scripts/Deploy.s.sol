// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Script} from "forge-std/Script.sol";
import {stdJson} from "forge-std/StdJson.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";

import {Router} from "../contracts/Router.sol";
import {IRouter} from "../contracts/interfaces/IRouter.sol";
import {Parameters} from "../contracts/governance/Parameters.sol";
import {Heartbeats} from "../contracts/examples/Heartbeats.sol";
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
    using Address for address;
    using Addresses for address;

    /// @dev One chain of the plan.
    struct ChainPlan {
        uint64 id;
        string name;
        AdapterPlan[] adapters;
    }

    /// @dev A setting of an adapter: how it is read, what it should be, and what sets it. A contract other than the adapter takes
    ///      the adapter as the first argument, which is put in here.
    struct Step {
        Gmp gmp;
        string name;
        address asked; // zero: the adapter
        bytes question;
        bytes answer;
        address called; // zero: the adapter
        bytes call;
    }

    /// @dev Waybill's adapter for one GMP on one chain. What is particular to the GMP is bytes here: its folder makes them.
    struct AdapterPlan {
        Gmp gmp;
        string name;
        string code; // the contract, as `vm.getCode` finds it
        bytes arguments; // of the constructor, behind the router
        bytes4 connect; // selector of connect(uint64,bytes32,bytes32,...)
        bytes number; // its last argument: what the GMP calls this chain
        bytes4 numberOf; // selector of the getter of that number
        bytes answer; // what the getter returns once it is known
    }

    /// @dev Another salt makes a second set of contracts.
    bytes32 private constant SALT = keccak256("waybill 1");

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
            code = abi.encodePacked(type(Heartbeats).creationCode, abi.encode(router));
            vm.serializeAddress(RESULT, "heartbeats", _create("heartbeats", code));
        }
        for (uint256 index; index < chains.length; ++index) {
            if (chains[index].id != here.id) _connect(here, chains[index], router);
        }
        _setVerification(plan, chains, here, router);
        _appoint(plan, router);
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
        for (uint256 index; index < here.adapters.length; ++index) {
            AdapterPlan memory planned = here.adapters[index];
            address adapter = _create(string.concat(planned.name, " adapter"), _adapterCode(planned));
            _register(router, planned.gmp, planned.name, adapter);
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
        for (uint256 index; index < here.adapters.length; ++index) {
            for (uint256 other; other < there.adapters.length; ++other) {
                if (here.adapters[index].gmp != there.adapters[other].gmp) continue;
                _connectAdapter(here.adapters[index], there.adapters[other], there, peer);
            }
        }
    }

    /// @dev What the owner has decided since stays.
    function _appoint(string memory plan, IRouter router) private {
        address guardian = plan.readAddress(".guardian");
        if (guardian != address(0) && router.guardian() == address(0)) {
            router.setGuardian(guardian);
            _done.push("guardian");
        }
        address revoker = plan.readAddress(".revoker");
        if (revoker != address(0) && router.revoker() == address(0)) {
            router.setRevoker(revoker);
            _done.push("revoker");
        }
    }

    function _setVerification(string memory plan, ChainPlan[] memory chains, ChainPlan memory here, IRouter router)
        private
    {
        uint256 place;
        while (chains[place].id != here.id) ++place;
        string memory list = string.concat(_item(".chains", place), ".steps");
        uint256 steps = _count(plan, list);
        for (uint256 index; index < steps; ++index) {
            Step memory step = _readStep(plan, _item(list, index));
            address adapter = router.adapterOf(step.gmp);
            (address asked, bytes memory question) = _addressed(adapter, step.asked, step.question);
            if (keccak256(asked.functionStaticCall(question)) == keccak256(step.answer)) continue;
            (address called, bytes memory call) = _addressed(adapter, step.called, step.call);
            called.functionCall(call);
            _done.push(step.name);
        }
    }

    function _readStep(string memory plan, string memory at) private pure returns (Step memory) {
        return Step({
            gmp: Gmp.wrap(uint8(plan.readUint(string.concat(at, ".gmp")))),
            name: plan.readString(string.concat(at, ".name")),
            asked: plan.readAddress(string.concat(at, ".asked")),
            question: plan.readBytes(string.concat(at, ".question")),
            answer: plan.readBytes(string.concat(at, ".answer")),
            called: plan.readAddress(string.concat(at, ".called")),
            call: plan.readBytes(string.concat(at, ".call"))
        });
    }

    /// @dev Whom a step calls, and with what: a contract other than the adapter takes the adapter as its first argument.
    function _addressed(address adapter, address to, bytes memory data) private pure returns (address, bytes memory) {
        if (to == address(0)) return (adapter, data);
        assembly ("memory-safe") {
            mstore(add(data, 0x24), adapter) // behind the length and the selector
        }
        return (to, data);
    }

    function _connectAdapter(AdapterPlan memory local, AdapterPlan memory remote, ChainPlan memory there, bytes32 peer)
        private
    {
        address adapter = _addressOf(_adapterCode(local));
        bytes32 remoteAdapter = _addressOf(_adapterCode(remote)).toBytes32();
        if (IAdapter(adapter).remoteAdapterOf(there.id, peer) == remoteAdapter) {
            bytes memory known = adapter.functionStaticCall(abi.encodeWithSelector(remote.numberOf, there.id));
            if (keccak256(known) == keccak256(remote.answer)) return;
        }
        bytes memory arguments = abi.encode(there.id, peer, remoteAdapter);
        adapter.functionCall(bytes.concat(remote.connect, arguments, remote.number));
        _done.push(string.concat(local.name, " to ", there.name));
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

    function _adapterCode(AdapterPlan memory planned) private view returns (bytes memory) {
        return bytes.concat(vm.getCode(planned.code), abi.encode(_addressOf(_routerCode())), planned.arguments);
    }

    function _find(ChainPlan[] memory chains) private view returns (ChainPlan memory) {
        for (uint256 index; index < chains.length; ++index) {
            if (chains[index].id == block.chainid) return chains[index];
        }
        revert NotInPlan(block.chainid);
    }

    function _readChains(string memory plan) private view returns (ChainPlan[] memory chains) {
        chains = new ChainPlan[](_count(plan, ".chains"));
        for (uint256 index; index < chains.length; ++index) {
            string memory at = _item(".chains", index);
            chains[index].id = uint64(plan.readUint(string.concat(at, ".chainId")));
            chains[index].name = plan.readString(string.concat(at, ".name"));
            chains[index].adapters = _readAdapters(plan, string.concat(at, ".adapters"));
        }
    }

    function _readAdapters(string memory plan, string memory list)
        private
        view
        returns (AdapterPlan[] memory adapters)
    {
        adapters = new AdapterPlan[](_count(plan, list));
        for (uint256 index; index < adapters.length; ++index) {
            string memory at = _item(list, index);
            adapters[index] = AdapterPlan({
                gmp: Gmp.wrap(uint8(plan.readUint(string.concat(at, ".gmp")))),
                name: plan.readString(string.concat(at, ".name")),
                code: plan.readString(string.concat(at, ".contract")),
                arguments: plan.readBytes(string.concat(at, ".arguments")),
                connect: bytes4(plan.readBytes(string.concat(at, ".connect"))),
                number: plan.readBytes(string.concat(at, ".number")),
                numberOf: bytes4(plan.readBytes(string.concat(at, ".numberOf"))),
                answer: plan.readBytes(string.concat(at, ".answer"))
            });
        }
    }

    function _count(string memory plan, string memory list) private view returns (uint256 count) {
        while (plan.keyExists(_item(list, count))) ++count;
    }

    function _item(string memory list, uint256 index) private pure returns (string memory) {
        return string.concat(list, "[", vm.toString(index), "]");
    }
}
