// Hyperlane's SDK over the chains that a test names. Validators announce storage in S3, which AWS_ENDPOINT_URL_S3 moves to a
// server of the test's.
import { HyperlaneCore, MultiProvider } from '@hyperlane-xyz/sdk';
import { ethers } from 'ethers';

export function coreOf(chains, key) {
  const metadata = Object.fromEntries(
    chains.map((chain) => [
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
  providers.setSharedSigner(new ethers.Wallet(key));
  return HyperlaneCore.fromAddressesMap(
    Object.fromEntries(chains.map((chain) => [chain.name, chain.contracts])),
    providers,
  );
}
