/** Who signs: a wallet in the browser, or a key in a script. */

import {
  type Account,
  type Address,
  type Chain,
  createWalletClient,
  custom,
  type EIP1193Provider,
  getAddress,
  type Transport,
  UserRejectedRequestError,
  type WalletClient,
} from "viem";

import { transportOf, viemChain } from "./chains.ts";
import type { ChainDeployment } from "./deployment.ts";
import { WalletError } from "./errors.ts";
import { reasonOf } from "./reverts.ts";

/** Signs for one account, on any chain of a network. */
export interface Wallet {
  readonly address: Address;
  /** A client that sends to that chain; a browser's wallet is switched over first. */
  on(chain: ChainDeployment): Promise<WalletClient<Transport, Chain, Account>>;
}

/** A wallet around an account of viem's, such as `privateKeyToAccount(key)`. */
export function localWallet(account: Account): Wallet {
  return {
    address: account.address,
    on: async (chain) => createWalletClient({ account, chain: viemChain(chain), transport: transportOf(chain) }),
  };
}

/**
 * Asks a wallet in the browser (EIP-1193) for an account.
 *
 * @throws {@link WalletError} if the person declines.
 */
export async function connectWallet(provider: EIP1193Provider): Promise<Wallet> {
  const accounts = await asking("connect", () => provider.request({ method: "eth_requestAccounts" }));
  const account = accounts[0];
  if (!account) throw new WalletError("the wallet shows no account; unlock it, allow one, and connect again");
  const address = getAddress(account);
  return {
    address,
    on: async (chain) => {
      const client = createWalletClient({ account: address, chain: viemChain(chain), transport: custom(provider) });
      if ((await client.getChainId()) !== chain.chainId) await switchTo(client, chain);
      return client;
    },
  };
}

/** Runs a request to the wallet; throws {@link WalletError} if the person declines. */
export async function asking<T>(what: string, request: () => Promise<T>): Promise<T> {
  try {
    return await request();
  } catch (error) {
    if (isRejection(error)) throw new WalletError(`declined in the wallet: ${what}; nothing was sent`, { cause: error });
    throw error;
  }
}

async function switchTo(client: WalletClient<Transport, Chain, Account>, chain: ChainDeployment): Promise<void> {
  const what = `switch to ${chain.name} (${chain.chainId})`;
  await asking(what, async () => {
    try {
      await client.switchChain({ id: chain.chainId });
    } catch (error) {
      if (isRejection(error)) throw error;
      await client.addChain({ chain: viemChain(chain) });
      await client.switchChain({ id: chain.chainId });
    }
  });
  const now = await client.getChainId();
  if (now !== chain.chainId) throw new WalletError(`could not ${what}: the wallet stays on chain ${now}; switch it by hand`);
}

function isRejection(error: unknown): boolean {
  for (let at = error as { code?: unknown; cause?: unknown } | undefined; at; at = at.cause as typeof at) {
    if (at.code === UserRejectedRequestError.code) return true;
  }
  return /user (rejected|denied)/i.test(reasonOf(error));
}
