// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {Vm} from "forge-std/Vm.sol";

import {ILayerZeroEndpoint, LayerZeroAdapter} from "../../../../contracts/adapters/LayerZeroAdapter.sol";
import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../../contracts/types/Gmp.sol";
import {GmpNetwork, Parcel} from "./GmpNetwork.sol";

interface IEndpointV2 is ILayerZeroEndpoint {
    event PacketSent(bytes encodedPayload, bytes options, address sendLibrary);
    event LzReceiveAlert(
        address indexed receiver,
        address indexed executor,
        Origin origin,
        bytes32 guid,
        uint256 gas,
        uint256 value,
        bytes message,
        bytes extraData,
        bytes reason
    );

    function registerLibrary(address library_) external;
    function setDefaultSendLibrary(uint32 eid, address library_) external;
    function setDefaultReceiveLibrary(uint32 eid, address library_, uint256 gracePeriod) external;
    function inboundPayloadHash(address receiver, uint32 eid, bytes32 sender, uint64 nonce)
        external
        view
        returns (bytes32);
    function lzReceive(
        Origin calldata origin,
        address receiver,
        bytes32 guid,
        bytes calldata message,
        bytes calldata extraData
    ) external payable;
    function delegates(address adapter) external view returns (address);
}

interface IUln302 {
    struct UlnConfig {
        uint64 confirmations;
        uint8 requiredDVNCount;
        uint8 optionalDVNCount;
        uint8 optionalDVNThreshold;
        address[] requiredDVNs;
        address[] optionalDVNs;
    }

    struct DefaultUlnConfig {
        uint32 eid;
        UlnConfig config;
    }

    struct ExecutorConfig {
        uint32 maxMessageSize;
        address executor;
    }

    struct DefaultExecutorConfig {
        uint32 eid;
        ExecutorConfig config;
    }

    function setTreasury(address treasury) external;
    function setDefaultUlnConfigs(DefaultUlnConfig[] calldata configs) external;
    function setDefaultExecutorConfigs(DefaultExecutorConfig[] calldata configs) external;
    function verify(bytes calldata header, bytes32 payloadHash, uint64 confirmations) external;
    function commitVerification(bytes calldata header, bytes32 payloadHash) external;
}

interface IPriceFeed {
    struct Price {
        uint128 priceRatio;
        uint64 gasPriceInUnit;
        uint32 gasPerByte;
    }

    struct UpdatePrice {
        uint32 eid;
        Price price;
    }

    function initialize(address updater) external;
    function setPrice(UpdatePrice[] calldata prices) external;
    function setNativeTokenPriceUSD(uint128 price) external;
}

interface IDvn {
    struct DstConfig {
        uint32 dstEid;
        uint64 gas;
        uint16 multiplierBps;
        uint128 floorMarginUSD;
    }

    struct ExecuteParam {
        uint32 vid;
        address target;
        bytes callData;
        uint256 expiration;
        bytes signatures;
    }

    event VerifySignaturesFailed(uint256 idx);

    function setWorkerFeeLib(address library_) external;
    function setDstConfig(DstConfig[] calldata configs) external;
    function execute(ExecuteParam[] calldata params) external;
}

interface IExecutor {
    struct DstConfig {
        uint32 dstEid;
        uint64 lzReceiveBaseGas;
        uint64 lzComposeBaseGas;
        uint16 multiplierBps;
        uint128 floorMarginUSD;
        uint128 nativeCap;
    }

    struct ExecutionParams {
        address receiver;
        ILayerZeroEndpoint.Origin origin;
        bytes32 guid;
        bytes message;
        bytes extraData;
        uint256 gasLimit;
    }

    function initialize(
        address endpoint,
        address receiveUln301,
        address[] calldata libraries,
        address priceFeed,
        address roleAdmin,
        address[] calldata admins
    ) external;
    function setWorkerFeeLib(address library_) external;
    function setDstConfig(DstConfig[] calldata configs) external;
    function execute302(ExecutionParams calldata params) external payable;
}

/// @notice LayerZero V2: endpoints with ULN 302, one DVN whose signers are two of four, and the executor.
contract LayerZeroNetwork is GmpNetwork {
    struct Place {
        IEndpointV2 endpoint;
        IUln302 sendLibrary;
        IUln302 receiveLibrary;
        IPriceFeed priceFeed;
        IDvn dvn;
        IExecutor executor;
    }

    struct Packet {
        bytes header;
        ILayerZeroEndpoint.Origin origin;
        bytes32 guid;
        bytes message;
    }

    uint64 private constant QUORUM = 2;
    uint64 private constant CONFIRMATIONS = 1;
    uint256 private constant LONGEST = 10_000;
    uint256 private constant NATIVE_DECIMALS = 1e18;

    mapping(uint64 chain => Place) private _places;

    function gmp() external pure override returns (Gmp) {
        return Gmp.wrap(4);
    }

    /// @dev Price feeds know a chain by its number modulo 30,000.
    function numberOf(uint64 chain) public pure override returns (uint256) {
        return chain - 400;
    }

    function longestEnvelope() external pure override returns (uint256) {
        return LONGEST;
    }

    function endpointOn(uint64 chain) external view returns (IEndpointV2) {
        return _places[chain].endpoint;
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
        LayerZeroAdapter(payable(address(adapter))).connect(chain, remoteRouter, remoteAdapter, uint32(number));
    }

    function sendAs(address account, uint64 from, uint64 to, address receiver, bytes calldata body) external override {
        vm.chainId(from);
        bytes memory options = abi.encodePacked(uint16(3), uint8(1), uint16(17), uint8(1), uint128(500_000));
        ILayerZeroEndpoint.MessagingParams memory params = ILayerZeroEndpoint.MessagingParams(
            uint32(numberOf(to)), bytes32(uint256(uint160(receiver))), body, options, false
        );
        IEndpointV2 endpoint = _places[from].endpoint;
        uint256 fee = endpoint.quote(params, account).nativeFee;
        vm.deal(account, account.balance + fee);
        vm.prank(account);
        endpoint.send{value: fee}(params, account);
    }

    function knock(address caller, IAdapter adapter, uint64 from, bytes32 sender, bytes calldata envelope)
        external
        override
    {
        ILayerZeroEndpoint.Origin memory origin = ILayerZeroEndpoint.Origin(uint32(numberOf(from)), sender, 1);
        vm.prank(caller);
        LayerZeroAdapter(payable(address(adapter))).lzReceive(origin, "guid", envelope, caller, "");
    }

    /// @dev What anyone may call once the payload is verified.
    function receiveByAnyone(Parcel calldata parcel) external payable {
        vm.chainId(parcel.to);
        Packet memory packet = abi.decode(parcel.content, (Packet));
        _places[parcel.to].endpoint.lzReceive{value: msg.value}(
            packet.origin, parcel.adapter, packet.guid, packet.message, ""
        );
    }

    function isVerified(Parcel calldata parcel) external view returns (bool) {
        return _isVerified(parcel.to, parcel.adapter, abi.decode(parcel.content, (Packet)).origin);
    }

    function _deploy(uint64 chain) internal override {
        uint32 eid = uint32(numberOf(chain));
        Place storage place = _places[chain];
        place.endpoint = IEndpointV2(_deployGmp("layerzero/EndpointV2", abi.encode(eid, address(this))));
        place.sendLibrary =
            IUln302(_deployGmp("layerzero/SendUln302", abi.encode(place.endpoint, uint256(200_000), uint256(1e18))));
        place.receiveLibrary = IUln302(_deployGmp("layerzero/ReceiveUln302", abi.encode(place.endpoint)));
        place.sendLibrary.setTreasury(_deployGmp("layerzero/Treasury", ""));
        place.endpoint.registerLibrary(address(place.sendLibrary));
        place.endpoint.registerLibrary(address(place.receiveLibrary));
        place.priceFeed = IPriceFeed(_deployGmp("layerzero/PriceFeed", ""));
        place.priceFeed.initialize(address(this));
        place.priceFeed.setNativeTokenPriceUSD(2000e20);
        _deployWorkers(place, eid);
    }

    function _deployWorkers(Place storage place, uint32 eid) private {
        address[] memory libraries = _one(address(place.sendLibrary));
        address[] memory admins = _one(address(this));
        bytes memory arguments = abi.encode(eid, eid % 30_000, libraries, place.priceFeed, _accounts(), QUORUM, admins);
        place.dvn = IDvn(_deployGmp("layerzero/DVN", arguments));
        place.dvn.setWorkerFeeLib(_deployGmp("layerzero/DVNFeeLib", abi.encode(eid, NATIVE_DECIMALS)));
        place.executor = IExecutor(_deployGmp("layerzero/Executor", ""));
        place.executor
            .initialize(address(place.endpoint), address(0), libraries, address(place.priceFeed), address(this), admins);
        place.executor.setWorkerFeeLib(_deployGmp("layerzero/ExecutorFeeLib", abi.encode(eid, NATIVE_DECIMALS)));
    }

    /// @dev The libraries must know a chain before the endpoint takes them as its defaults for it.
    function _openLane(uint64 from, uint64 to) internal override {
        uint32 eid = uint32(numberOf(to));
        Place storage place = _places[from];
        _openWorkers(place, eid);
        IUln302.DefaultUlnConfig[] memory configs = new IUln302.DefaultUlnConfig[](1);
        configs[0] = IUln302.DefaultUlnConfig(
            eid, IUln302.UlnConfig(CONFIRMATIONS, 1, 0, 0, _one(address(place.dvn)), new address[](0))
        );
        place.sendLibrary.setDefaultUlnConfigs(configs);
        place.receiveLibrary.setDefaultUlnConfigs(configs);
        IUln302.DefaultExecutorConfig[] memory executors = new IUln302.DefaultExecutorConfig[](1);
        executors[0] =
            IUln302.DefaultExecutorConfig(eid, IUln302.ExecutorConfig(uint32(LONGEST), address(place.executor)));
        place.sendLibrary.setDefaultExecutorConfigs(executors);
        place.endpoint.setDefaultSendLibrary(eid, address(place.sendLibrary));
        place.endpoint.setDefaultReceiveLibrary(eid, address(place.receiveLibrary), 0);
    }

    function _openWorkers(Place storage place, uint32 eid) private {
        IPriceFeed.UpdatePrice[] memory prices = new IPriceFeed.UpdatePrice[](1);
        prices[0] = IPriceFeed.UpdatePrice(eid % 30_000, IPriceFeed.Price(1e20, 1 gwei, 16));
        place.priceFeed.setPrice(prices);
        IDvn.DstConfig[] memory dvnConfigs = new IDvn.DstConfig[](1);
        dvnConfigs[0] = IDvn.DstConfig(eid, 80_000, 12_000, 0);
        place.dvn.setDstConfig(dvnConfigs);
        IExecutor.DstConfig[] memory executorConfigs = new IExecutor.DstConfig[](1);
        executorConfigs[0] = IExecutor.DstConfig(eid, 60_000, 30_000, 12_000, 0, 1 ether);
        place.executor.setDstConfig(executorConfigs);
    }

    function _deployAdapter(uint64 chain, IRouter router) internal override returns (IAdapter) {
        return new LayerZeroAdapter(router, _places[chain].endpoint);
    }

    function _read(Vm.Log[] calldata logs, uint256 index, uint64 from)
        internal
        view
        override
        returns (bool accepted, bytes memory content)
    {
        Vm.Log calldata log = logs[index];
        if (log.emitter != address(_places[from].endpoint) || log.topics[0] != IEndpointV2.PacketSent.selector) {
            return (false, "");
        }
        (bytes memory encoded,,) = abi.decode(log.data, (bytes, bytes, address));
        return (true, abi.encode(this.parse(encoded)));
    }

    /// @dev A packet: version (1 byte), nonce (8), source eid (4), sender (32), destination eid (4), receiver (32), which is the
    ///      header of 81 bytes; then guid (32) and message, which the payload hash covers.
    function parse(bytes calldata encoded) external pure returns (Packet memory packet) {
        packet.header = encoded[:81];
        packet.origin = ILayerZeroEndpoint.Origin({
            srcEid: uint32(bytes4(encoded[9:13])), sender: bytes32(encoded[13:45]), nonce: uint64(bytes8(encoded[1:9]))
        });
        packet.guid = bytes32(encoded[81:113]);
        packet.message = encoded[113:];
    }

    /// @dev Verify, commit, execute. What is verified already only needs to be executed.
    function _deliver(Parcel calldata parcel, Signer[] storage attesters, uint256 gasLimit)
        internal
        override
        returns (bool consumed)
    {
        Packet memory packet = abi.decode(parcel.content, (Packet));
        Place storage place = _places[parcel.to];
        if (!_isVerified(parcel.to, parcel.adapter, packet.origin)) {
            bytes32 payloadHash = keccak256(bytes.concat(packet.guid, packet.message));
            _verify(place, parcel.to, packet.header, payloadHash, attesters);
            try place.receiveLibrary.commitVerification(packet.header, payloadHash) {}
            catch {
                return false;
            }
        }
        place.executor
            .execute302(
                IExecutor.ExecutionParams(parcel.adapter, packet.origin, packet.guid, packet.message, "", gasLimit)
            );
        return !_isVerified(parcel.to, parcel.adapter, packet.origin);
    }

    function _verify(
        Place storage place,
        uint64 chain,
        bytes memory header,
        bytes32 payloadHash,
        Signer[] storage attesters
    ) private {
        IDvn.ExecuteParam[] memory params = new IDvn.ExecuteParam[](1);
        params[0].vid = uint32(numberOf(chain) % 30_000);
        params[0].target = address(place.receiveLibrary);
        params[0].callData = abi.encodeCall(IUln302.verify, (header, payloadHash, CONFIRMATIONS));
        params[0].expiration = block.timestamp + 1 hours;
        bytes32 digest = MessageHashUtils.toEthSignedMessageHash(
            keccak256(abi.encodePacked(params[0].vid, params[0].target, params[0].expiration, params[0].callData))
        );
        for (uint256 index; index < QUORUM; ++index) {
            params[0].signatures = bytes.concat(params[0].signatures, _sign(attesters[index], digest));
        }
        place.dvn.execute(params);
    }

    function _isVerified(uint64 chain, address adapter, ILayerZeroEndpoint.Origin memory origin)
        private
        view
        returns (bool)
    {
        return _places[chain].endpoint.inboundPayloadHash(adapter, origin.srcEid, origin.sender, origin.nonce) != 0;
    }

    function _one(address account) private pure returns (address[] memory accounts) {
        accounts = new address[](1);
        accounts[0] = account;
    }
}
