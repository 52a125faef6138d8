// Hyperlane's relayer delivers the first message of a transaction.
import { HyperlaneRelayer } from '@hyperlane-xyz/relayer';
import { coreOf } from './hyperlane-core.mjs';
import { answer, input } from './input.mjs';

const core = coreOf(input.chains, input.key);
const relayer = new HyperlaneRelayer({ core });
const dispatched = await core.multiProvider.getProvider(input.source).getTransactionReceipt(input.transaction);
const receipt = await relayer.relayMessage(dispatched);
answer({ transaction: receipt.transactionHash, from: receipt.from });
