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
    }

    struct TokenTransferFee {
        address token;
        uint32[4] config;
    }

    struct TransferFees {
        uint64 destChainSelector;
        TokenTransferFee[] fees;
    }

    struct DestChainConfig {
        bool isEnabled;
        uint32 maxDataBytes;
        uint32 maxPerMsgGasLimit;
        uint32 destGasOverhead;
        uint8 destGasPerPayloadByteBase;
        bytes4 chainFamilySelector;
        uint16 defaultTokenFeeUSDCents;
        uint32 defaultTokenDestGasOverhead;
        uint32 defaultTxGasLimit;
        uint16 networkFeeUSDCents;
        uint8 linkFeeMultiplierPercent;
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

interface ICommitteeVerifier {
    struct RemoteChain {
        address router;
        uint64 remoteChainSelector;
        bool allowlistEnabled;
        uint16 feeUSDCents;
        uint32 gasForVerification;
        uint16 payloadSizeBytes;
    }

    struct SignatureConfig {
        uint64 sourceChainSelector;
        uint8 threshold;
        address[] signers;
    }

    struct DynamicConfig {
        address feeAggregator;
        address allowlistAdmin;
    }

    function applyRemoteChainConfigUpdates(RemoteChain[] calldata configs) external;
    function applySignatureConfigs(uint64[] calldata removed, SignatureConfig[] calldata configs) external;
}

interface IVerifierResolver {
    struct Inbound {
        bytes4 version;
        address verifier;
    }

    struct Outbound {
        uint64 destChainSelector;
        address verifier;
    }

    function applyInboundImplementationUpdates(Inbound[] calldata implementations) external;
    function applyOutboundImplementationUpdates(Outbound[] calldata implementations) external;
}

interface ICcipExecutor {
    struct DynamicConfig {
        address feeAggregator;
        bytes4 allowedFinalityConfig;
        bool ccvAllowlistEnabled;
    }

    struct DestChainConfig {
        uint16 usdCentsFee;
        bool enabled;
    }

    struct DestChain {
        uint64 destChainSelector;
        DestChainConfig config;
    }

    function applyDestChainUpdates(uint64[] calldata removed, DestChain[] calldata added) external;
}

interface IOnRamp {
    struct StaticConfig {
        uint64 chainSelector;
        address rmnRemote;
        uint32 maxUSDCentsPerMessage;
        address tokenAdminRegistry;
    }

    struct DynamicConfig {
        address feeQuoter;
        bool reentrancyGuardEntered;
        address feeAggregator;
    }

    struct DestChain {
        uint64 destChainSelector;
        address router;
        uint8 addressBytesLength;
        bool tokenReceiverAllowed;
        uint16 messageNetworkFeeUSDCents;
        uint16 tokenNetworkFeeUSDCents;
        uint32 baseExecutionGasCost;
        address[] defaultCCVs;
        address[] laneMandatedCCVs;
        address defaultExecutor;
        bytes offRamp;
    }

    struct Receipt {
        address issuer;
        uint32 destGasLimit;
        uint32 destBytesOverhead;
        uint256 feeTokenAmount;
        bytes extraArgs;
    }

    event CCIPMessageSent(
        uint64 indexed destChainSelector,
        address indexed sender,
        bytes32 indexed messageId,
        address feeToken,
        uint256 tokenAmountBeforeTokenPoolFees,
        bytes encodedMessage,
        Receipt[] receipts,
        bytes[] verifierBlobs
    );

    function applyDestChainConfigUpdates(DestChain[] calldata configs) external;
}

interface IOffRamp {
    struct StaticConfig {
        uint64 chainSelector;
        uint16 gasForCallExactCheck;
        address rmnRemote;
        address tokenAdminRegistry;
        uint32 maxGasBufferToUpdateState;
    }

    struct SourceChain {
        address router;
        uint64 sourceChainSelector;
        bool isEnabled;
        bytes[] onRamps;
        address[] defaultCCVs;
        address[] laneMandatedCCVs;
    }

    function applySourceChainConfigUpdates(SourceChain[] calldata configs) external;
    function execute(
        bytes calldata encodedMessage,
        address[] calldata ccvs,
        bytes[] calldata verifierResults,
        uint32 gasLimitOverride
    ) external;
    function getExecutionState(bytes32 messageId) external view returns (uint8);
}
