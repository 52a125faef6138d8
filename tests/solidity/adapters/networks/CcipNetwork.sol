// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {CcipAdapter, ICcipReceiver, ICcipRouter} from "../../../../contracts/adapters/CcipAdapter.sol";
import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../../contracts/types/Gmp.sol";
import {WrappedEther} from "../doubles/WrappedEther.sol";
import {ICcipRouterAdmin, IFeeQuoter, INonceManager, IOffRamp, IOnRamp} from "./CcipContracts.sol";
import {GmpNetwork, Parcel} from "./GmpNetwork.sol";

/// @notice CCIP 1.6: router, on- and off-ramps and fee quoter, with commits signed by two of four oracles.
contract CcipNetwork is GmpNetwork {
    struct Place {
        ICcipRouterAdmin router;
        IFeeQuoter feeQuoter;
        IOnRamp onRamp;
        IOffRamp offRamp;
        address wrappedEther;
        address link;
    }

    bytes4 private constant EVM_FAMILY = 0x2812d52c;
    bytes32 private constant COMMIT_CONFIG = keccak256("commit config");
    bytes32 private constant EXECUTE_CONFIG = keccak256("execute config");
    uint256 private constant LONGEST = 30_000;
    uint32 private constant MOST_GAS = 3_000_000;

    /// @dev How many faulty oracles a commit tolerates; one more must sign.
    uint8 private constant FAULTY = 1;

    uint8 public constant SUCCESS = 2;
    uint8 public constant FAILURE = 3;

    mapping(uint64 chain => Place) private _places;
    uint64 private _reports;

    function gmp() external pure override returns (Gmp) {
        return Gmp.wrap(5);
    }

    function numberOf(uint64 chain) public pure override returns (uint256) {
        return 1e15 + chain;
    }

    function longestEnvelope() external pure override returns (uint256) {
        return LONGEST;
    }

    function mostGas() external pure override returns (uint256) {
        return MOST_GAS;
    }

    function routerOn(uint64 chain) external view returns (ICcipRouter) {
        return _places[chain].router;
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
        CcipAdapter(address(adapter)).connect(chain, remoteRouter, remoteAdapter, uint64(number));
    }

    function sendAs(address account, uint64 from, uint64 to, address receiver, bytes calldata body) external override {
        vm.chainId(from);
        ICcipRouter.OutgoingMessage memory message = ICcipRouter.OutgoingMessage({
            receiver: abi.encode(receiver),
            data: body,
            tokenAmounts: new ICcipRouter.TokenAmount[](0),
            feeToken: address(0),
            extraArgs: abi.encodeWithSelector(0x181dcf10, uint256(500_000), true)
        });
        ICcipRouter router = _places[from].router;
        uint256 fee = router.getFee(uint64(numberOf(to)), message);
        vm.deal(account, account.balance + fee);
        vm.prank(account);
        router.ccipSend{value: fee}(uint64(numberOf(to)), message);
    }

    function knock(address caller, IAdapter adapter, uint64 from, bytes32 sender, bytes calldata envelope)
        external
        override
    {
        vm.prank(caller);
        CcipAdapter(address(adapter))
            .ccipReceive(
                ICcipReceiver.IncomingMessage(
                    "id", uint64(numberOf(from)), abi.encode(sender), envelope, new ICcipRouter.TokenAmount[](0)
                )
            );
    }

    /// @dev What the message was sent with, in gas.
    function gasLimitOf(Parcel calldata parcel) external pure returns (uint256) {
        return abi.decode(parcel.content, (IOffRamp.Message)).gasLimit;
    }

    /// @dev The message's place among its sender's, 0 when it may be delivered in any order.
    function nonceOf(Parcel calldata parcel) external pure returns (uint64) {
        return abi.decode(parcel.content, (IOffRamp.Message)).header.nonce;
    }

    function stateOf(Parcel calldata parcel) external view returns (uint8) {
        return _state(parcel, abi.decode(parcel.content, (IOffRamp.Message)));
    }

    /// @dev What anyone may do with a message that failed. 0 stands for the message's own gas limit.
    function executeManually(Parcel calldata parcel, uint256 gasLimit) external {
        vm.chainId(parcel.to);
        _executeManually(parcel, abi.decode(parcel.content, (IOffRamp.Message)), gasLimit);
    }

    function executeByOracles(Parcel calldata parcel) external {
        vm.chainId(parcel.to);
        bytes32[2] memory context = [EXECUTE_CONFIG, bytes32(uint256(++_reports))];
        bytes memory report = abi.encode(_report(abi.decode(parcel.content, (IOffRamp.Message))));
        _places[parcel.to].offRamp.execute(context, report);
    }

    function _deploy(uint64 chain) internal override {
        uint64 selector = uint64(numberOf(chain));
        Place storage place = _places[chain];
        place.wrappedEther = address(new WrappedEther());
        place.link = address(new WrappedEther());
        address rmn = _deployGmp("ccip/RMNRemote", abi.encode(selector, address(0)));
        address registry = _deployGmp("ccip/TokenAdminRegistry", "");
        address nonces = _deployGmp("ccip/NonceManager", abi.encode(new address[](0)));
        place.router = ICcipRouterAdmin(_deployGmp("ccip/Router", abi.encode(place.wrappedEther, rmn)));
        place.feeQuoter = _deployFeeQuoter(place);
        place.onRamp = IOnRamp(
            _deployGmp(
                "ccip/OnRamp",
                abi.encode(
                    IOnRamp.StaticConfig(selector, rmn, nonces, registry),
                    IOnRamp.DynamicConfig(address(place.feeQuoter), false, address(0), address(this), address(0)),
                    new IOnRamp.DestChain[](0)
                )
            )
        );
        place.offRamp = IOffRamp(
            _deployGmp(
                "ccip/OffRamp",
                abi.encode(
                    IOffRamp.StaticConfig(selector, 5_000, rmn, registry, nonces),
                    IOffRamp.DynamicConfig(address(place.feeQuoter), 1 hours, address(0)),
                    new IOffRamp.SourceChain[](0)
                )
            )
        );
        INonceManager(nonces)
            .applyAuthorizedCallerUpdates(
                INonceManager.CallerUpdates(_two(address(place.onRamp), address(place.offRamp)), new address[](0))
            );
        _configureOracles(place.offRamp);
    }

    function _deployFeeQuoter(Place storage place) private returns (IFeeQuoter quoter) {
        IFeeQuoter.PremiumMultiplier[] memory premiums = new IFeeQuoter.PremiumMultiplier[](2);
        premiums[0] = IFeeQuoter.PremiumMultiplier(place.wrappedEther, 1e18);
        premiums[1] = IFeeQuoter.PremiumMultiplier(place.link, 1e18);
        address[] memory updaters = new address[](1);
        updaters[0] = address(this);
        quoter = IFeeQuoter(
            _deployGmp(
                "ccip/FeeQuoter",
                abi.encode(
                    IFeeQuoter.StaticConfig(200e18, place.link, 1 days),
                    updaters,
                    _two(place.wrappedEther, place.link),
                    new IFeeQuoter.FeedUpdate[](0),
                    new IFeeQuoter.TransferFees[](0),
                    premiums,
                    new IFeeQuoter.DestChain[](0)
                )
            )
        );
        IFeeQuoter.Prices memory prices;
        prices.tokens = new IFeeQuoter.TokenPrice[](2);
        prices.tokens[0] = IFeeQuoter.TokenPrice(place.wrappedEther, 2000e18);
        prices.tokens[1] = IFeeQuoter.TokenPrice(place.link, 15e18);
        quoter.updatePrices(prices);
    }

    function _configureOracles(IOffRamp offRamp) private {
        address[] memory transmitters = new address[](1);
        transmitters[0] = address(this);
        IOffRamp.OcrConfig[] memory configs = new IOffRamp.OcrConfig[](2);
        configs[0] = IOffRamp.OcrConfig(COMMIT_CONFIG, 0, FAULTY, true, _accounts(), transmitters);
        configs[1] = IOffRamp.OcrConfig(EXECUTE_CONFIG, 1, FAULTY, false, new address[](0), transmitters);
        offRamp.setOCR3Configs(configs);
    }

    function _openLane(uint64 from, uint64 to) internal override {
        _openSending(_places[from], uint64(numberOf(to)));
        Place storage place = _places[to];
        uint64 selector = uint64(numberOf(from));
        IOffRamp.SourceChain[] memory sources = new IOffRamp.SourceChain[](1);
        sources[0] = IOffRamp.SourceChain(
            address(place.router), selector, true, true, abi.encode(address(_places[from].onRamp))
        );
        place.offRamp.applySourceChainConfigUpdates(sources);
        ICcipRouterAdmin.OffRampUpdate[] memory offRamps = new ICcipRouterAdmin.OffRampUpdate[](1);
        offRamps[0] = ICcipRouterAdmin.OffRampUpdate(selector, address(place.offRamp));
        place.router
            .applyRampUpdates(new ICcipRouterAdmin.OnRampUpdate[](0), new ICcipRouterAdmin.OffRampUpdate[](0), offRamps);
    }

    function _openSending(Place storage place, uint64 selector) private {
        IFeeQuoter.DestChain[] memory chains_ = new IFeeQuoter.DestChain[](1);
        chains_[0] = IFeeQuoter.DestChain(selector, _destination());
        place.feeQuoter.applyDestChainConfigUpdates(chains_);
        IFeeQuoter.Prices memory prices;
        prices.gas = new IFeeQuoter.GasPrice[](1);
        prices.gas[0] = IFeeQuoter.GasPrice(selector, 2000e9);
        place.feeQuoter.updatePrices(prices);
        IOnRamp.DestChain[] memory destinations = new IOnRamp.DestChain[](1);
        destinations[0] = IOnRamp.DestChain(selector, address(place.router), false);
        place.onRamp.applyDestChainConfigUpdates(destinations);
        ICcipRouterAdmin.OnRampUpdate[] memory onRamps = new ICcipRouterAdmin.OnRampUpdate[](1);
        onRamps[0] = ICcipRouterAdmin.OnRampUpdate(selector, address(place.onRamp));
        place.router
            .applyRampUpdates(onRamps, new ICcipRouterAdmin.OffRampUpdate[](0), new ICcipRouterAdmin.OffRampUpdate[](0));
    }

    function _destination() private pure returns (IFeeQuoter.DestChainConfig memory) {
        return IFeeQuoter.DestChainConfig({
            isEnabled: true,
            maxNumberOfTokensPerMsg: 1,
            maxDataBytes: uint32(LONGEST),
            maxPerMsgGasLimit: MOST_GAS,
            destGasOverhead: 300_000,
            destGasPerPayloadByteBase: 16,
            destGasPerPayloadByteHigh: 40,
            destGasPerPayloadByteThreshold: 3_000,
            destDataAvailabilityOverheadGas: 0,
            destGasPerDataAvailabilityByte: 0,
            destDataAvailabilityMultiplierBps: 0,
            chainFamilySelector: EVM_FAMILY,
            enforceOutOfOrder: false,
            defaultTokenFeeUSDCents: 25,
            defaultTokenDestGasOverhead: 90_000,
            defaultTxGasLimit: 200_000,
            gasMultiplierWeiPerEth: 1.1e18,
            gasPriceStalenessThreshold: 0,
            networkFeeUSDCents: 10
        });
    }

    function _deployAdapter(uint64 chain, IRouter router) internal override returns (IAdapter) {
        return new CcipAdapter(router, _places[chain].router);
    }

    function _read(Vm.Log[] calldata logs, uint256 index, uint64 from)
        internal
        view
        override
        returns (bool accepted, bytes memory content)
    {
        Vm.Log calldata log = logs[index];
        if (log.emitter != address(_places[from].onRamp) || log.topics[0] != IOnRamp.CCIPMessageSent.selector) {
            return (false, "");
        }
        IOnRamp.Message memory sent = abi.decode(log.data, (IOnRamp.Message));
        return (
            true,
            abi.encode(
                IOffRamp.Message({
                    header: sent.header,
                    sender: abi.encode(sent.sender),
                    data: sent.data,
                    receiver: abi.decode(sent.receiver, (address)),
                    gasLimit: this.gasLimitIn(sent.extraArgs),
                    tokenAmounts: new IOffRamp.TokenArrival[](0)
                })
            )
        );
    }

    function gasLimitIn(bytes calldata extraArgs) external pure returns (uint256 gasLimit) {
        (gasLimit,) = abi.decode(extraArgs[4:], (uint256, bool));
    }

    /// @dev Commit, execute; what failed once is executed manually.
    function _deliver(Parcel calldata parcel, Signer[] storage attesters, uint256 gasLimit)
        internal
        override
        returns (bool consumed)
    {
        IOffRamp.Message memory message = abi.decode(parcel.content, (IOffRamp.Message));
        // CCIP gives exactly what the message was sent with, so nothing else can be tried.
        require(gasLimit == PLENTY || gasLimit == message.gasLimit, "not the gas that the message was sent with");
        if (_state(parcel, message) == FAILURE) {
            try this.executeManually(parcel, 0) {} catch {}
        } else {
            try this.commit(parcel, attesters[0].account == signers[0].account) {} catch {}
            try this.executeByOracles(parcel) {} catch {}
        }
        return _state(parcel, message) == SUCCESS;
    }

    /// @dev Brings the root of a tree whose only leaf is the message, signed by the oracles or by outsiders.
    function commit(Parcel calldata parcel, bool genuine) external {
        IOffRamp.Message memory message = abi.decode(parcel.content, (IOffRamp.Message));
        uint64 sequence = message.header.sequenceNumber;
        bytes memory onRamp = abi.encode(address(_places[parcel.from].onRamp));
        IOffRamp.CommitReport memory report;
        report.unblessedRoots = new IOffRamp.MerkleRoot[](1);
        report.unblessedRoots[0] =
            IOffRamp.MerkleRoot(message.header.sourceChainSelector, onRamp, sequence, sequence, _leaf(message, onRamp));
        bytes memory encoded = abi.encode(report);
        bytes32[2] memory context = [COMMIT_CONFIG, bytes32(uint256(++_reports))];
        bytes32 digest = keccak256(abi.encodePacked(keccak256(encoded), context[0], context[1]));
        (bytes32[] memory rs, bytes32[] memory ss) = (new bytes32[](2), new bytes32[](2));
        bytes32 rawVs;
        for (uint256 index; index <= FAULTY; ++index) {
            uint8 v;
            (v, rs[index], ss[index]) = vm.sign(genuine ? signers[index].key : outsiders[index].key, digest);
            rawVs |= bytes32(bytes1(v - 27)) >> (8 * index);
        }
        _places[parcel.to].offRamp.commit(context, encoded, rs, ss, rawVs);
    }

    function _executeManually(Parcel calldata parcel, IOffRamp.Message memory message, uint256 gasLimit) private {
        IOffRamp.GasOverride[][] memory overrides = new IOffRamp.GasOverride[][](1);
        overrides[0] = new IOffRamp.GasOverride[](1);
        overrides[0][0] = IOffRamp.GasOverride(gasLimit, new uint32[](0));
        _places[parcel.to].offRamp.manuallyExecute(_report(message), overrides);
    }

    function _report(IOffRamp.Message memory message) private pure returns (IOffRamp.ExecutionReport[] memory reports) {
        reports = new IOffRamp.ExecutionReport[](1);
        reports[0].sourceChainSelector = message.header.sourceChainSelector;
        reports[0].messages = new IOffRamp.Message[](1);
        reports[0].messages[0] = message;
        reports[0].offchainTokenData = new bytes[][](1);
    }

    function _leaf(IOffRamp.Message memory message, bytes memory onRamp) private pure returns (bytes32) {
        IOnRamp.Header memory header = message.header;
        bytes32 metadata = keccak256(
            abi.encode(
                keccak256("Any2EVMMessageHashV1"),
                header.sourceChainSelector,
                header.destChainSelector,
                keccak256(onRamp)
            )
        );
        bytes32 fixedPart = keccak256(
            abi.encode(header.messageId, message.receiver, header.sequenceNumber, message.gasLimit, header.nonce)
        );
        return keccak256(
            abi.encode(
                bytes32(0),
                metadata,
                fixedPart,
                keccak256(message.sender),
                keccak256(message.data),
                keccak256(abi.encode(message.tokenAmounts))
            )
        );
    }

    function _state(Parcel calldata parcel, IOffRamp.Message memory message) private view returns (uint8) {
        return
            _places[parcel.to].offRamp
                .getExecutionState(message.header.sourceChainSelector, message.header.sequenceNumber);
    }

    function _two(address a, address b) private pure returns (address[] memory accounts) {
        accounts = new address[](2);
        (accounts[0], accounts[1]) = (a, b);
    }
}
