// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Vm} from "forge-std/Vm.sol";

import {HyperlaneAdapter, IMailbox} from "../../../../contracts/adapters/HyperlaneAdapter.sol";
import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../../contracts/types/Gmp.sol";
import {GmpNetwork, Parcel} from "./GmpNetwork.sol";

interface IMailboxFull is IMailbox {
    event Dispatch(address indexed sender, uint32 indexed destination, bytes32 indexed recipient, bytes message);

    function initialize(address owner, address defaultIsm, address defaultHook, address requiredHook) external;
    function process(bytes calldata metadata, bytes calldata message) external payable;
    function delivered(bytes32 id) external view returns (bool);
}

interface IMerkleTreeHook {
    function root() external view returns (bytes32);
    function count() external view returns (uint32);
}

interface IMultisigIsmFactory {
    function deploy(address[] calldata validators, uint8 threshold) external returns (address);
}

interface IGasPaymaster {
    struct GasConfig {
        address oracle;
        uint96 overhead;
    }

    struct GasParam {
        uint32 remoteDomain;
        GasConfig config;
    }

    event GasPayment(bytes32 indexed messageId, uint32 indexed destinationDomain, uint256 gasAmount, uint256 payment);

    function initialize(address owner, address beneficiary) external;
    function setDestinationGasConfigs(GasParam[] calldata configs) external;
}

interface IGasOracle {
    struct RemoteGasData {
        uint32 remoteDomain;
        uint128 tokenExchangeRate;
        uint128 gasPrice;
    }

    function setRemoteGasData(RemoteGasData calldata data) external;
}

/// @notice Hyperlane: Mailboxes with a merkle tree hook, a gas paymaster, and a two-of-four validators' ISM.
contract HyperlaneNetwork is GmpNetwork {
    uint8 private constant THRESHOLD = 2;

    /// @dev Gas that the paymaster adds to what a message asks for.
    uint96 public constant OVERHEAD = 50_000;

    mapping(uint64 chain => IMailboxFull) public mailboxes;
    mapping(uint64 chain => address) public hooks;
    mapping(uint64 chain => address) public paymasters;
    mapping(uint64 chain => address) private _oracles;

    function gmp() external pure override returns (Gmp) {
        return Gmp.wrap(1);
    }

    function numberOf(uint64 chain) public pure override returns (uint256) {
        return chain + 1_000_000;
    }

    function connect(
        address caller,
        IAdapter adapter,
        uint64 chain,
        bytes32 remoteRouter,
        bytes32 remoteAdapter,
        uint256 number
    ) external override {
        vm.prank(caller);
        HyperlaneAdapter(payable(address(adapter))).connect(chain, remoteRouter, remoteAdapter, uint32(number));
    }

    function sendAs(address account, uint64 from, uint64 to, address receiver, bytes calldata body) external override {
        vm.chainId(from);
        bytes32 recipient = bytes32(uint256(uint160(receiver)));
        uint32 domain = uint32(numberOf(to));
        uint256 fee = mailboxes[from].quoteDispatch(domain, recipient, body, "");
        vm.deal(account, account.balance + fee);
        vm.prank(account);
        mailboxes[from].dispatch{value: fee}(domain, recipient, body, "");
    }

    function knock(address caller, IAdapter adapter, uint64 from, bytes32 sender, bytes calldata envelope)
        external
        override
    {
        vm.prank(caller);
        HyperlaneAdapter(payable(address(adapter))).handle(uint32(numberOf(from)), sender, envelope);
    }

    /// @dev Processes with the value given, which the Mailbox hands on to the recipient.
    function processWithValue(Parcel calldata parcel) external payable {
        vm.chainId(parcel.to);
        (bytes memory message, bytes memory checkpoint) = abi.decode(parcel.content, (bytes, bytes));
        mailboxes[parcel.to].process{value: msg.value}(_metadata(parcel, message, checkpoint, signers), message);
    }

    function _deploy(uint64 chain) internal override {
        IMailboxFull mailbox = IMailboxFull(_deployGmp("hyperlane/Mailbox", abi.encode(uint32(numberOf(chain)))));
        address hook = _deployGmp("hyperlane/MerkleTreeHook", abi.encode(mailbox));
        address paymaster = _deployGmp("hyperlane/InterchainGasPaymaster", "");
        IGasPaymaster(paymaster).initialize(address(this), address(this));
        IMultisigIsmFactory factory = IMultisigIsmFactory(_deployGmp("hyperlane/StaticMessageIdMultisigIsmFactory", ""));
        mailbox.initialize(address(this), factory.deploy(_accounts(), THRESHOLD), paymaster, hook);
        mailboxes[chain] = mailbox;
        hooks[chain] = hook;
        paymasters[chain] = paymaster;
        _oracles[chain] = _deployGmp("hyperlane/StorageGasOracle", "");
    }

    function _openLane(uint64 from, uint64 to) internal override {
        uint32 domain = uint32(numberOf(to));
        IGasOracle(_oracles[from]).setRemoteGasData(IGasOracle.RemoteGasData(domain, 1e10, 1 gwei));
        IGasPaymaster.GasParam[] memory configs = new IGasPaymaster.GasParam[](1);
        configs[0] = IGasPaymaster.GasParam(domain, IGasPaymaster.GasConfig(_oracles[from], OVERHEAD));
        IGasPaymaster(paymasters[from]).setDestinationGasConfigs(configs);
    }

    function _deployAdapter(uint64 chain, IRouter router) internal override returns (IAdapter) {
        return new HyperlaneAdapter(router, mailboxes[chain]);
    }

    function _read(Vm.Log[] calldata logs, uint256 index, uint64 from)
        internal
        view
        override
        returns (bool accepted, bytes memory content)
    {
        Vm.Log calldata log = logs[index];
        if (log.emitter != address(mailboxes[from]) || log.topics[0] != IMailboxFull.Dispatch.selector) {
            return (false, "");
        }
        IMerkleTreeHook hook = IMerkleTreeHook(hooks[from]);
        return (true, abi.encode(abi.decode(log.data, (bytes)), abi.encodePacked(hook.root(), hook.count() - 1)));
    }

    function _deliver(Parcel calldata parcel, Signer[] storage attesters, uint256 gasLimit)
        internal
        override
        returns (bool consumed)
    {
        (bytes memory message, bytes memory checkpoint) = abi.decode(parcel.content, (bytes, bytes));
        IMailboxFull mailbox = mailboxes[parcel.to];
        if (gasLimit == PLENTY) {
            try mailbox.process(_metadata(parcel, message, checkpoint, attesters), message) {} catch {}
        } else {
            // The Mailbox's own gas depends on its ISM and is the relayer's business; here the adapter's share counts.
            (bytes32 sender, bytes memory body) = (_sender(message), _body(message));
            vm.prank(address(mailbox));
            HyperlaneAdapter(payable(parcel.adapter)).handle{gas: gasLimit}(uint32(numberOf(parcel.from)), sender, body);
            return true;
        }
        return mailbox.delivered(keccak256(message));
    }

    function _metadata(
        Parcel calldata parcel,
        bytes memory message,
        bytes memory checkpoint,
        Signer[] storage attesters
    ) private view returns (bytes memory metadata) {
        bytes32 hook = bytes32(uint256(uint160(hooks[parcel.from])));
        bytes32 domain = keccak256(abi.encodePacked(uint32(numberOf(parcel.from)), hook, "HYPERLANE"));
        bytes32 digest = keccak256(abi.encodePacked(domain, checkpoint, keccak256(message)));
        metadata = abi.encodePacked(hook, checkpoint);
        for (uint256 index; index < THRESHOLD; ++index) {
            metadata = bytes.concat(metadata, _sign(attesters[index], MessageHashUtils.toEthSignedMessageHash(digest)));
        }
    }

    /// @dev A Hyperlane message: version, nonce, origin (9 bytes), sender (32), destination (4), recipient (32), body.
    function _sender(bytes memory message) private view returns (bytes32) {
        return bytes32(this.slice(message, 9, 41));
    }

    function _body(bytes memory message) private view returns (bytes memory) {
        return this.slice(message, 77, message.length);
    }

    function slice(bytes calldata data, uint256 start, uint256 end) external pure returns (bytes memory) {
        return data[start:end];
    }
}
