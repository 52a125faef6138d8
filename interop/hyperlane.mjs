// Hyperlane's relayer delivers the first message of a transaction. Validators announce storage in S3, which
// AWS_ENDPOINT_URL_S3 moves to a server of the test's.
import { HyperlaneRelayer } from '@hyperlane-xyz/relayer';
import { HyperlaneCore, MultiProvider } from '@hyperlane-xyz/sdk';
import { ethers } from 'ethers';
import { answer, input } from './input.mjs';

const metadata = Object.fromEntries(
  input.chains.map((chain) => [
    chain.name,
    {
      name: chain.name,
      chainId: chain.chainId,
      domainId: chain.domain,
      protocol: 'ethereum',
      rpcUrls: [{ http: chain.rpc }],
      nativeToken: { name: 'Ether', symbol: 'ETH', decimals: 18 },
      blocks: { confirmations: 1, estimateBlockTime: 1 },
    },
  ]),
);
const providers = new MultiProvider(metadata);
providers.setSharedSigner(new ethers.Wallet(input.key));
const core = HyperlaneCore.fromAddressesMap(
  Object.fromEntries(input.chains.map((chain) => [chain.name, chain.contracts])),
  providers,
);
const relayer = new HyperlaneRelayer({ core });
const dispatched = await providers.getProvider(input.source).getTransactionReceipt(input.transaction);
const receipt = await relayer.relayMessage(dispatched);
answer({ transaction: receipt.transactionHash, from: receipt.from });
