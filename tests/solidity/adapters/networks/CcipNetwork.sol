// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {Vm} from "forge-std/Vm.sol";

import {CcipAdapter, ICcipReceiver, ICcipRouter} from "../../../../contracts/adapters/CcipAdapter.sol";
import {IAdapter} from "../../../../contracts/interfaces/IAdapter.sol";
import {IRouter} from "../../../../contracts/interfaces/IRouter.sol";
import {Gmp} from "../../../../contracts/types/Gmp.sol";
import {WrappedEther} from "../doubles/WrappedEther.sol";
import {
    ICcipExecutor,
    ICcipRouterAdmin,
    ICommitteeVerifier,
    IFeeQuoter,
    IOffRamp,
    IOnRamp,
    IVerifierResolver
} from "./CcipContracts.sol";
import {GmpNetwork, Parcel} from "./GmpNetwork.sol";

/// @notice CCIP 2.0: router, ramps and fee quoter, with messages signed by two of a committee of four oracles.
contract CcipNetwork is GmpNetwork {
    struct Place {
        ICcipRouterAdmin router;
        IFeeQuoter feeQuoter;
        IOnRamp onRamp;
        IOffRamp offRamp;
        ICommitteeVerifier verifier;
        IVerifierResolver resolver;
        ICcipExecutor executor;
    }

    bytes4 private constant EVM_FAMILY = 0x2812d52c;
    bytes4 private constant VERIFIER_VERSION = bytes4(keccak256("verifier version"));
    uint256 private constant LONGEST = 30_000;
    uint32 private constant MOST_GAS = 3_000_000;
    uint8 private constant THRESHOLD = 2;
    uint32 private constant VERIFICATION_GAS = 100_000;
    uint32 private constant EXECUTION_GAS = 300_000;

    /// @dev Bytes of a verifier's result, and of a message beside its data. CCIP counts both as data.
    uint16 private constant RESULT_LENGTH = 6 + 64 * uint16(THRESHOLD);
    uint32 private constant HEADER_LENGTH = 183;

    /// @dev Order of secp256k1.
    uint256 private constant CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;

    uint8 public constant SUCCESS = 2;
    uint8 public constant FAILURE = 3;

    mapping(uint64 chain => Place) private _places;

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

    /// @dev The gas that the message was sent with. It follows version, selectors, number and execution gas.
    function gasLimitOf(Parcel calldata parcel) public pure returns (uint256) {
        return uint32(bytes4(parcel.content[29:33]));
    }

    function stateOf(Parcel calldata parcel) public view returns (uint8) {
        return _places[parcel.to].offRamp.getExecutionState(keccak256(parcel.content));
    }

    /// @dev Executes a message with the committee's signatures, as anyone may. A `gasLimit` of 0 is the message's own.
    function execute(Parcel calldata parcel, uint256 gasLimit) external {
        vm.chainId(parcel.to);
        _execute(parcel, signers, gasLimit);
    }

    function _deploy(uint64 chain) internal override {
        uint64 selector = uint64(numberOf(chain));
        Place storage place = _places[chain];
        address wrappedEther = address(new WrappedEther());
        address rmn = _deployGmp("ccip/RMNRemote", abi.encode(selector, address(0)));
        address registry = _deployGmp("ccip/TokenAdminRegistry", "");
        place.router = ICcipRouterAdmin(_deployGmp("ccip/Router", abi.encode(wrappedEther, rmn)));
        place.feeQuoter = _deployFeeQuoter(wrappedEther);
        place.onRamp = IOnRamp(
            _deployGmp(
                "ccip/CcipOnRamp",
                abi.encode(
                    IOnRamp.StaticConfig(selector, rmn, 100_000, registry),
                    IOnRamp.DynamicConfig(address(place.feeQuoter), false, address(this))
                )
            )
        );
        place.offRamp = IOffRamp(
            _deployGmp("ccip/CcipOffRamp", abi.encode(IOffRamp.StaticConfig(selector, 5_000, rmn, registry, 12_000)))
        );
        place.verifier = ICommitteeVerifier(
            _deployGmp(
                "ccip/CommitteeVerifier",
                abi.encode(
                    ICommitteeVerifier.DynamicConfig(address(this), address(this)),
                    _one("storage location"),
                    rmn,
                    VERIFIER_VERSION
                )
            )
        );
        place.resolver = IVerifierResolver(_deployGmp("ccip/VersionedVerifierResolver", ""));
        IVerifierResolver.Inbound[] memory inbound = new IVerifierResolver.Inbound[](1);
        inbound[0] = IVerifierResolver.Inbound(VERIFIER_VERSION, address(place.verifier));
        place.resolver.applyInboundImplementationUpdates(inbound);
        place.executor = ICcipExecutor(
            _deployGmp(
                "ccip/CcipExecutor", abi.encode(uint8(10), ICcipExecutor.DynamicConfig(address(this), bytes4(0), false))
            )
        );
    }

    function _deployFeeQuoter(address wrappedEther) private returns (IFeeQuoter quoter) {
        address link = address(new WrappedEther());
        quoter = IFeeQuoter(
            _deployGmp(
                "ccip/CcipFeeQuoter",
                abi.encode(
                    IFeeQuoter.StaticConfig(200e18, link),
                    _one(address(this)),
                    new IFeeQuoter.TransferFees[](0),
                    new IFeeQuoter.DestChain[](0)
                )
            )
        );
        IFeeQuoter.Prices memory prices;
        prices.tokens = new IFeeQuoter.TokenPrice[](2);
        prices.tokens[0] = IFeeQuoter.TokenPrice(wrappedEther, 2000e18);
        prices.tokens[1] = IFeeQuoter.TokenPrice(link, 15e18);
        quoter.updatePrices(prices);
    }

    function _openLane(uint64 from, uint64 to) internal override {
        _openSending(_places[from], uint64(numberOf(to)), address(_places[to].offRamp));
        Place storage place = _places[to];
        uint64 selector = uint64(numberOf(from));
        bytes[] memory onRamps = new bytes[](1);
        onRamps[0] = abi.encode(address(_places[from].onRamp));
        IOffRamp.SourceChain[] memory sources = new IOffRamp.SourceChain[](1);
        sources[0] = IOffRamp.SourceChain(
            address(place.router), selector, true, onRamps, _one(address(place.resolver)), new address[](0)
        );
        place.offRamp.applySourceChainConfigUpdates(sources);
        ICommitteeVerifier.SignatureConfig[] memory committees = new ICommitteeVerifier.SignatureConfig[](1);
        committees[0] = ICommitteeVerifier.SignatureConfig(selector, THRESHOLD, _accounts());
        place.verifier.applySignatureConfigs(new uint64[](0), committees);
        ICcipRouterAdmin.OffRampUpdate[] memory offRamps = new ICcipRouterAdmin.OffRampUpdate[](1);
        offRamps[0] = ICcipRouterAdmin.OffRampUpdate(selector, address(place.offRamp));
        place.router
            .applyRampUpdates(new ICcipRouterAdmin.OnRampUpdate[](0), new ICcipRouterAdmin.OffRampUpdate[](0), offRamps);
    }

    function _openSending(Place storage place, uint64 selector, address offRamp) private {
        IFeeQuoter.DestChain[] memory chains_ = new IFeeQuoter.DestChain[](1);
        chains_[0] = IFeeQuoter.DestChain(selector, _destination());
        place.feeQuoter.applyDestChainConfigUpdates(chains_);
        IFeeQuoter.Prices memory prices;
        prices.gas = new IFeeQuoter.GasPrice[](1);
        prices.gas[0] = IFeeQuoter.GasPrice(selector, 2000e9);
        place.feeQuoter.updatePrices(prices);
        ICommitteeVerifier.RemoteChain[] memory remotes = new ICommitteeVerifier.RemoteChain[](1);
        remotes[0] =
            ICommitteeVerifier.RemoteChain(address(place.router), selector, false, 1, VERIFICATION_GAS, RESULT_LENGTH);
        place.verifier.applyRemoteChainConfigUpdates(remotes);
        IVerifierResolver.Outbound[] memory outbound = new IVerifierResolver.Outbound[](1);
        outbound[0] = IVerifierResolver.Outbound(selector, address(place.verifier));
        place.resolver.applyOutboundImplementationUpdates(outbound);
        ICcipExecutor.DestChain[] memory executed = new ICcipExecutor.DestChain[](1);
        executed[0] = ICcipExecutor.DestChain(selector, ICcipExecutor.DestChainConfig(1, true));
        place.executor.applyDestChainUpdates(new uint64[](0), executed);
        IOnRamp.DestChain[] memory destinations = new IOnRamp.DestChain[](1);
        destinations[0] = IOnRamp.DestChain({
            destChainSelector: selector,
            router: address(place.router),
            addressBytesLength: 20,
            tokenReceiverAllowed: false,
            messageNetworkFeeUSDCents: 10,
            tokenNetworkFeeUSDCents: 10,
            baseExecutionGasCost: EXECUTION_GAS,
            defaultCCVs: _one(address(place.resolver)),
            laneMandatedCCVs: new address[](0),
            defaultExecutor: address(place.executor),
            offRamp: abi.encodePacked(offRamp)
        });
        place.onRamp.applyDestChainConfigUpdates(destinations);
        ICcipRouterAdmin.OnRampUpdate[] memory onRamps = new ICcipRouterAdmin.OnRampUpdate[](1);
        onRamps[0] = ICcipRouterAdmin.OnRampUpdate(selector, address(place.onRamp));
        place.router
            .applyRampUpdates(onRamps, new ICcipRouterAdmin.OffRampUpdate[](0), new ICcipRouterAdmin.OffRampUpdate[](0));
    }

    function _destination() private pure returns (IFeeQuoter.DestChainConfig memory) {
        return IFeeQuoter.DestChainConfig({
            isEnabled: true,
            maxDataBytes: uint32(LONGEST) + HEADER_LENGTH + RESULT_LENGTH,
            maxPerMsgGasLimit: 2 * MOST_GAS, // CCIP adds its own gas to the message's
            destGasOverhead: 300_000,
            destGasPerPayloadByteBase: 16,
            chainFamilySelector: EVM_FAMILY,
            defaultTokenFeeUSDCents: 25,
            defaultTokenDestGasOverhead: 90_000,
            defaultTxGasLimit: 200_000,
            networkFeeUSDCents: 10,
            linkFeeMultiplierPercent: 90
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
        (,, content,,) = abi.decode(log.data, (address, uint256, bytes, IOnRamp.Receipt[], bytes[]));
        return (true, content);
    }

    /// @dev Attests and executes. A failed message is executed in the same way.
    function _deliver(Parcel calldata parcel, Signer[] storage attesters, uint256 gasLimit)
        internal
        override
        returns (bool consumed)
    {
        // CCIP gives exactly what the message was sent with, so nothing else can be tried.
        require(gasLimit == PLENTY || gasLimit == gasLimitOf(parcel), "not the gas that the message was sent with");
        try this.executeBy(parcel, attesters[0].account == signers[0].account) {} catch {}
        return stateOf(parcel) == SUCCESS;
    }

    function executeBy(Parcel calldata parcel, bool genuine) external {
        _execute(parcel, genuine ? signers : outsiders, 0);
    }

    function _execute(Parcel calldata parcel, Signer[] storage attesters, uint256 gasLimit) private {
        bytes memory signatures;
        bytes32 digest = keccak256(abi.encodePacked(VERIFIER_VERSION, keccak256(parcel.content)));
        for (uint256 index; index < THRESHOLD; ++index) {
            (uint8 v, bytes32 r, bytes32 s) = vm.sign(attesters[index].key, digest);
            // The verifier assumes v = 27; negating s flips v.
            signatures = abi.encodePacked(signatures, r, v == 27 ? uint256(s) : CURVE_ORDER - uint256(s));
        }
        Place storage place = _places[parcel.to];
        bytes[] memory results = new bytes[](1);
        results[0] = abi.encodePacked(VERIFIER_VERSION, uint16(signatures.length), signatures);
        place.offRamp.execute(parcel.content, _one(address(place.resolver)), results, uint32(gasLimit));
    }

    function _one(address account) private pure returns (address[] memory accounts) {
        accounts = new address[](1);
        accounts[0] = account;
    }

    function _one(string memory text) private pure returns (string[] memory texts) {
        texts = new string[](1);
        texts[0] = text;
    }
}
