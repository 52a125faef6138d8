// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {ICcipRouter} from "../../../../contracts/adapters/CcipAdapter.sol";

interface ICcipRouterAdmin is ICcipRouter {
    struct OnRampUpdate {
        uint64 destChainSelector;
        address onRamp;
    }

    struct OffRampUpdate {
        uint64 sourceChainSelector;
        address offRamp;
    }

    function applyRampUpdates(
        OnRampUpdate[] calldata onRamps,
        OffRampUpdate[] calldata removed,
        OffRampUpdate[] calldata added
    ) external;
}

interface IFeeQuoter {
    struct StaticConfig {
        uint96 maxFeeJuelsPerMsg;
        address linkToken;
        uint32 tokenPriceStalenessThreshold;
    }

    struct FeedUpdate {
        address sourceToken;
        address dataFeedAddress;
        uint8 tokenDecimals;
        bool isEnabled;
    }

    struct TokenTransferFee {
        address token;
        uint32[6] config;
    }

    struct TransferFees {
        uint64 destChainSelector;
        TokenTransferFee[] fees;
    }

    struct PremiumMultiplier {
        address token;
        uint64 multiplier;
    }

    struct DestChainConfig {
        bool isEnabled;
        uint16 maxNumberOfTokensPerMsg;
        uint32 maxDataBytes;
        uint32 maxPerMsgGasLimit;
        uint32 destGasOverhead;
        uint8 destGasPerPayloadByteBase;
        uint8 destGasPerPayloadByteHigh;
        uint16 destGasPerPayloadByteThreshold;
        uint32 destDataAvailabilityOverheadGas;
        uint16 destGasPerDataAvailabilityByte;
        uint16 destDataAvailabilityMultiplierBps;
        bytes4 chainFamilySelector;
        bool enforceOutOfOrder;
        uint16 defaultTokenFeeUSDCents;
        uint32 defaultTokenDestGasOverhead;
        uint32 defaultTxGasLimit;
        uint64 gasMultiplierWeiPerEth;
        uint32 gasPriceStalenessThreshold;
        uint32 networkFeeUSDCents;
    }

    struct DestChain {
        uint64 destChainSelector;
        DestChainConfig config;
    }

    struct TokenPrice {
        address sourceToken;
        uint224 usdPerToken;
    }

    struct GasPrice {
        uint64 destChainSelector;
        uint224 usdPerUnitGas;
    }

    struct Prices {
        TokenPrice[] tokens;
        GasPrice[] gas;
    }

    function applyDestChainConfigUpdates(DestChain[] calldata configs) external;
    function updatePrices(Prices calldata prices) external;
}

interface INonceManager {
    struct CallerUpdates {
        address[] added;
        address[] removed;
    }

    function applyAuthorizedCallerUpdates(CallerUpdates calldata updates) external;
}

interface IOnRamp {
    struct StaticConfig {
        uint64 chainSelector;
        address rmnRemote;
        address nonceManager;
        address tokenAdminRegistry;
    }

    struct DynamicConfig {
        address feeQuoter;
        bool reentrancyGuardEntered;
        address messageInterceptor;
        address feeAggregator;
        address allowlistAdmin;
    }

    struct DestChain {
        uint64 destChainSelector;
        address router;
        bool allowlistEnabled;
    }

    struct Header {
        bytes32 messageId;
        uint64 sourceChainSelector;
        uint64 destChainSelector;
        uint64 sequenceNumber;
        uint64 nonce;
    }

    struct TokenTransfer {
        address sourcePoolAddress;
        bytes destTokenAddress;
        bytes extraData;
        uint256 amount;
        bytes destExecData;
    }

    struct Message {
        Header header;
        address sender;
        bytes data;
        bytes receiver;
        bytes extraArgs;
        address feeToken;
        uint256 feeTokenAmount;
        uint256 feeValueJuels;
        TokenTransfer[] tokenAmounts;
    }

    event CCIPMessageSent(uint64 indexed destChainSelector, uint64 indexed sequenceNumber, Message message);

    function applyDestChainConfigUpdates(DestChain[] calldata configs) external;
}

interface IOffRamp {
    struct StaticConfig {
        uint64 chainSelector;
        uint16 gasForCallExactCheck;
        address rmnRemote;
        address tokenAdminRegistry;
        address nonceManager;
    }

    struct DynamicConfig {
        address feeQuoter;
        uint32 permissionLessExecutionThresholdSeconds;
        address messageInterceptor;
    }

    struct SourceChain {
        address router;
        uint64 sourceChainSelector;
        bool isEnabled;
        bool isRMNVerificationDisabled;
        bytes onRamp;
    }

    struct OcrConfig {
        bytes32 configDigest;
        uint8 ocrPluginType;
        uint8 f;
        bool isSignatureVerificationEnabled;
        address[] signers;
        address[] transmitters;
    }

    struct TokenArrival {
        bytes sourcePoolAddress;
        address destTokenAddress;
        uint32 destGasAmount;
        bytes extraData;
        uint256 amount;
    }

    struct Message {
        IOnRamp.Header header;
        bytes sender;
        bytes data;
        address receiver;
        uint256 gasLimit;
        TokenArrival[] tokenAmounts;
    }

    struct MerkleRoot {
        uint64 sourceChainSelector;
        bytes onRampAddress;
        uint64 minSeqNr;
        uint64 maxSeqNr;
        bytes32 merkleRoot;
    }

    struct RmnSignature {
        bytes32 r;
        bytes32 s;
    }

    struct CommitReport {
        IFeeQuoter.Prices prices;
        MerkleRoot[] blessedRoots;
        MerkleRoot[] unblessedRoots;
        RmnSignature[] rmnSignatures;
    }

    struct ExecutionReport {
        uint64 sourceChainSelector;
        Message[] messages;
        bytes[][] offchainTokenData;
        bytes32[] proofs;
        uint256 proofFlagBits;
    }

    struct GasOverride {
        uint256 receiverExecutionGasLimit;
        uint32[] tokenGasOverrides;
    }

    function applySourceChainConfigUpdates(SourceChain[] calldata configs) external;
    function setOCR3Configs(OcrConfig[] calldata configs) external;
    function commit(
        bytes32[2] calldata context,
        bytes calldata report,
        bytes32[] calldata rs,
        bytes32[] calldata ss,
        bytes32 rawVs
    ) external;
    function execute(bytes32[2] calldata context, bytes calldata report) external;
    function manuallyExecute(ExecutionReport[] calldata reports, GasOverride[][] calldata overrides) external;
    function getExecutionState(uint64 sourceChainSelector, uint64 sequenceNumber) external view returns (uint8);
}
