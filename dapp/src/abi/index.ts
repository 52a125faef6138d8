// Written by scripts/generate_abi.py.

import { routerAbi } from "./Router.ts";
import { profilesAbi } from "./Profiles.ts";
import { adapterAbi } from "./IAdapter.ts";
import { axelarAdapterAbi } from "./AxelarAdapter.ts";
import { ccipAdapterAbi } from "./CcipAdapter.ts";
import { hyperlaneAdapterAbi } from "./HyperlaneAdapter.ts";
import { layerZeroAdapterAbi } from "./LayerZeroAdapter.ts";
import { wormholeAdapterAbi } from "./WormholeAdapter.ts";
import { inboxAbi } from "./Inbox.ts";
import { boundedMulticallAbi } from "./BoundedMulticall.ts";
import { atomicCoordinatorAbi } from "./AtomicCoordinator.ts";
import { atomicParticipantAbi } from "./AtomicParticipant.ts";
import { atomicAssetsAbi } from "./AtomicAssets.ts";
import { lockedRecipientAbi } from "./ILockedRecipient.ts";

export { routerAbi, profilesAbi, adapterAbi, axelarAdapterAbi, ccipAdapterAbi, hyperlaneAdapterAbi, layerZeroAdapterAbi, wormholeAdapterAbi, inboxAbi, boundedMulticallAbi, atomicCoordinatorAbi, atomicParticipantAbi, atomicAssetsAbi, lockedRecipientAbi };

/** All of them, for decoding whatever comes. */
export const ABIS = [routerAbi, profilesAbi, adapterAbi, axelarAdapterAbi, ccipAdapterAbi, hyperlaneAdapterAbi, layerZeroAdapterAbi, wormholeAdapterAbi, inboxAbi, boundedMulticallAbi, atomicCoordinatorAbi, atomicParticipantAbi, atomicAssetsAbi, lockedRecipientAbi] as const;
