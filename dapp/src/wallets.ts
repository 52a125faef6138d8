/** Who signs: a wallet in the browser, or a key in a script. */

import {
  type Account,
  type Address,
  type Chain,
  type Client,
  createClient,
  custom,
  getAddress,
  type Hex,
  numberToHex,
  type Transport,
  UserRejectedRequestError,
} from "viem";
import { addChain, getChainId, sendTransaction, switchChain } from "viem/actions";

import { type Call, type Requester, transportOf, viemChain } from "./chains.ts";
import type { ChainDeployment } from "./deployment.ts";
import { WalletError } from "./errors.ts";
import { reasonOf } from "./reverts.ts";

/** Signs for one account, on any chain of a network. */
export interface Wallet {
  readonly address: Address;
  /** A client that sends to that chain; a browser's wallet is switched over first. */
  on(chain: ChainDeployment): Promise<SendingClient>;
}

/** A client of viem that sends for its account. */
export type SendingClient = Client<Transport, Chain, Account> & {
  send(transaction: Transaction): Promise<Hex>;
};

type Transaction = Call & { readonly gas: bigint };

/** An account that signs in this process, such as viem's `privateKeyToAccount(key)`; of any version of viem. */
export interface LocalAccount {
  readonly address: Address;
  readonly type: "local";
  // Every version of viem has its own types for this.
  signTransaction(transaction: any, options?: any): Promise<Hex>;
}

/** A wallet client of viem or wagmi, of any version. */
export interface AnyWalletClient extends Requester {
  readonly account?: LocalAccount | { readonly address: Address; readonly type: string } | undefined;
}

/** A wallet around an account that signs in this process. */
export function localWallet(account: LocalAccount): Wallet {
  return {
    address: account.address,
    on: async (chain) => localClient(account, chain, transportOf(chain)),
  };
}

/**
 * A wallet around a wallet client that a dApp has already, such as wagmi's `getWalletClient(config)`.
 *
 * @throws {@link WalletError} if the client has no account.
 */
export function walletOf(client: AnyWalletClient): Wallet {
  const { account } = client;
  if (!account) throw new WalletError("the wallet client has no account; create it with an account, or connect a wallet first");
  if (!isLocal(account)) return remoteWallet(account.address, client);
  return {
    address: account.address,
    on: async (chain) => {
      // A client with a key is bound to the chain of its transport; on others the file's URLs are used.
      const isThere = Number(await client.request({ method: "eth_chainId" })) === chain.chainId;
      return localClient(account, chain, isThere ? custom(client) : transportOf(chain));
    },
  };
}

/**
 * Asks a wallet in the browser (EIP-1193) for an account.
 *
 * @throws {@link WalletError} if the person declines.
 */
export async function connectWallet(provider: Requester): Promise<Wallet> {
  const accounts: readonly string[] = await asking("connect", () => provider.request({ method: "eth_requestAccounts" }));
  const account = accounts[0];
  if (!account) throw new WalletError("the wallet exposes no account; unlock it, allow access to an account, and connect again");
  return remoteWallet(getAddress(account), provider);
}

function remoteWallet(address: Address, provider: Requester): Wallet {
  return {
    address,
    on: async (chain) => {
      const client = createClient({ account: address, chain: viemChain(chain), transport: custom(provider) });
      if ((await getChainId(client)) !== chain.chainId) await switchTo(client, chain);
      return client.extend(() => ({
        send: ({ to, data, value, gas }: Transaction) => {
          const transaction = { from: address, to, data, value: numberToHex(value), gas: numberToHex(gas) };
          // Asked once: a wallet that failed may have sent it all the same.
          return client.request({ method: "eth_sendTransaction", params: [transaction] }, { retryCount: 0 });
        },
      }));
    },
  };
}

function isLocal(account: { readonly type: string }): account is LocalAccount {
  return account.type === "local";
}

function localClient(account: LocalAccount, chain: ChainDeployment, transport: Transport): SendingClient {
  const client = createClient({ account: account as Account, chain: viemChain(chain), transport });
  return client.extend(() => ({ send: (transaction: Transaction) => sendTransaction(client, transaction as never) }));
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

async function switchTo(client: Client<Transport, Chain, Account>, chain: ChainDeployment): Promise<void> {
  const what = `switch to ${chain.name} (${chain.chainId})`;
  await asking(what, async () => {
    try {
      await switchChain(client, { id: chain.chainId });
    } catch (error) {
      if (isRejection(error)) throw error;
      await addChain(client, { chain: viemChain(chain) });
      await switchChain(client, { id: chain.chainId });
    }
  });
  const now = await getChainId(client);
  if (now !== chain.chainId) throw new WalletError(`could not ${what}: the wallet stays on chain ${now}; switch it manually`);
}

function isRejection(error: unknown): boolean {
  for (let at = error as { code?: unknown; cause?: unknown } | undefined; at; at = at.cause as typeof at) {
    if (at.code === UserRejectedRequestError.code) return true;
  }
  return /user (rejected|denied)/i.test(reasonOf(error));
}
