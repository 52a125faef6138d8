// Written by scripts/generate_abi.py.

import { routerAbi } from "./Router.ts";
import { profilesAbi } from "./Profiles.ts";
import { adapterAbi } from "./IAdapter.ts";
import { hyperlaneAdapterAbi } from "./HyperlaneAdapter.ts";
import { axelarAdapterAbi } from "./AxelarAdapter.ts";
import { wormholeAdapterAbi } from "./WormholeAdapter.ts";
import { layerZeroAdapterAbi } from "./LayerZeroAdapter.ts";
import { ccipAdapterAbi } from "./CcipAdapter.ts";
import { inboxAbi } from "./Inbox.ts";
import { boundedMulticallAbi } from "./BoundedMulticall.ts";

export { routerAbi, profilesAbi, adapterAbi, hyperlaneAdapterAbi, axelarAdapterAbi, wormholeAdapterAbi, layerZeroAdapterAbi, ccipAdapterAbi, inboxAbi, boundedMulticallAbi };

/** All of them, for decoding whatever comes. */
export const ABIS = [routerAbi, profilesAbi, adapterAbi, hyperlaneAdapterAbi, axelarAdapterAbi, wormholeAdapterAbi, layerZeroAdapterAbi, ccipAdapterAbi, inboxAbi, boundedMulticallAbi] as const;
