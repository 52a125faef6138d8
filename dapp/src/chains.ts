/** Reads the chains of a network over the RPC URLs of its deployments file. */

import {
  type Address,
  type Chain,
  type Client,
  type ContractFunctionArgs,
  type ContractFunctionName,
  type ContractFunctionReturnType,
  createClient,
  custom,
  decodeFunctionResult,
  defineChain,
  encodeFunctionData,
  fallback,
  type Hex,
  http,
  numberToHex,
  type RpcLog,
  type Transport,
  webSocket,
} from "viem";
import { getBlock } from "viem/actions";
import { getNodeError } from "viem/utils";

import { routerAbi } from "./abi/Router.ts";
import type { ChainDeployment, Deployment } from "./deployment.ts";
import { reasonOf } from "./reverts.ts";

/** Blocks per request for logs; halved if a node refuses the range. */
const MOST_LOG_RANGE = 5_000n;

/** The smallest range that is requested. */
const LEAST_LOG_RANGE = 16n;

export interface Block {
  readonly number: bigint;
  readonly hash: Hex;
  /** Unix seconds. */
  readonly timestamp: bigint;
}

/** A filter of logs. */
export interface LogFilter {
  readonly address: readonly Address[];
  readonly topics: readonly (Hex | readonly Hex[] | null)[];
}

/** A call to estimate or send. */
export interface Call {
  readonly to: Address;
  readonly data: Hex;
  /** In wei. */
  readonly value: bigint;
}

type View = ContractFunctionName<typeof routerAbi, "view">;
type ViewArgs<Name extends View> = ContractFunctionArgs<typeof routerAbi, "view", Name>;

/**
 * One chain of a network, and a client that reads it. Calls and estimates are made here, not by viem's actions: those bring
 * signatures and proofs along, which would double what a browser has to load.
 */
export class ChainReader {
  readonly deployment: ChainDeployment;
  readonly client: Client<Transport, Chain>;
  #logRange = MOST_LOG_RANGE;

  constructor(deployment: ChainDeployment, client: Client<Transport, Chain>) {
    this.deployment = deployment;
    this.client = client;
  }

  /** The same reader, which throws instead of making requests once the signal has aborted. */
  until(signal: AbortSignal | undefined): ChainReader {
    if (!signal) return this;
    const { request }: Requester = this.client;
    const guarded: Requester["request"] = async (asked, options) => {
      signal.throwIfAborted();
      return request(asked, options);
    };
    return new ChainReader(this.deployment, { ...this.client, request: guarded });
  }

  get name(): string {
    return this.deployment.name;
  }

  /** The newest block, never one from a cache. */
  async head(): Promise<Block> {
    return this.block("latest");
  }

  async block(at: bigint | "latest"): Promise<Block> {
    const block = await getBlock(this.client, at === "latest" ? { blockTag: at } : { blockNumber: at });
    return { number: block.number!, hash: block.hash!, timestamp: block.timestamp };
  }

  /** Calls a view of the router, at that block or at the newest. */
  async read<const Name extends View>(
    functionName: Name,
    args: ViewArgs<Name>,
    at?: bigint,
  ): Promise<ContractFunctionReturnType<typeof routerAbi, "view", Name>> {
    // The compiler can't infer types that depend on an unknown name; the types above check the callers.
    const call = { to: this.deployment.router, data: encodeFunctionData({ abi: routerAbi, functionName, args } as never) };
    const block = at === undefined ? "latest" : numberToHex(at);
    const data = await this.client.request({ method: "eth_call", params: [call, block] });
    return decodeFunctionResult({ abi: routerAbi, functionName, data } as never) as ContractFunctionReturnType<typeof routerAbi, "view", Name>;
  }

  /** Estimates the gas of a call. Throws viem's errors. */
  async estimateGas(from: Address, { to, data, value }: Call): Promise<bigint> {
    try {
      return BigInt(await this.client.request({ method: "eth_estimateGas", params: [{ from, to, data, value: numberToHex(value) }] }));
    } catch (error) {
      const known = getNodeError(error as Parameters<typeof getNodeError>[0], {});
      throw known.name === "UnknownNodeError" ? error : known;
    }
  }

  /** The logs of a range, both ends included, oldest first. A range that the node refuses is split. */
  async logs(filter: LogFilter, from: bigint, to: bigint): Promise<RpcLog[]> {
    const logs: RpcLog[] = [];
    for (let first = from; first <= to; ) {
      const end = first + this.#logRange - 1n;
      const last = end < to ? end : to;
      try {
        logs.push(...(await this.#logs(filter, first, last)));
        first = last + 1n;
      } catch (error) {
        if (this.#logRange <= LEAST_LOG_RANGE || !isTooMuch(error)) throw error;
        this.#logRange /= 2n;
      }
    }
    return logs;
  }

  /**
   * The first block that is not older than a time, or the head if all are older; found by bisection, so in about as many
   * requests as the chain's length has bits.
   */
  async firstBlockSince(timestamp: bigint): Promise<bigint> {
    let low = BigInt(this.deployment.startBlock);
    let high = (await this.head()).number;
    while (low < high) {
      const middle = (low + high) / 2n;
      if ((await this.block(middle)).timestamp < timestamp) low = middle + 1n;
      else high = middle;
    }
    return low;
  }

  async #logs(filter: LogFilter, from: bigint, to: bigint): Promise<RpcLog[]> {
    const range = { fromBlock: numberToHex(from), toBlock: numberToHex(to) };
    const topics = filter.topics.map((topic) => (typeof topic === "object" && topic !== null ? [...topic] : topic));
    const query = { ...range, address: [...filter.address], topics };
    // A retry helps against a transient error but not against a limit, and some nodes use one code for both.
    return this.client.request({ method: "eth_getLogs", params: [query] }, { retryCount: 1 });
  }
}

/** viem's description of a chain. */
export function viemChain(deployment: ChainDeployment): Chain {
  return defineChain({
    id: deployment.chainId,
    name: deployment.name,
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [...deployment.rpcUrls] } },
  });
}

/** The transport over a chain's URLs, with failover in their order. */
export function transportOf(deployment: ChainDeployment): Transport {
  const transports = deployment.rpcUrls.map((url) => (/^ws/.test(url) ? webSocket(url) : http(url)));
  return transports.length === 1 ? transports[0]! : fallback(transports);
}

/**
 * Sends requests to a node: a client of viem or wagmi, or an EIP-1193 provider, of any version. Only `request` is used.
 */
export interface Requester {
  // Every version of viem has its own types for this.
  request(arguments_: any, options?: any): Promise<any>;
}

/** The client that a dApp reads a chain with; undefined leaves it to the deployments file's URLs. */
export type ClientOf = (chainId: number) => Requester | undefined;

/** Readers of all chains of a network, in the file's order. */
export function openChains(
  deployment: Deployment,
  pollingInterval: number,
  clientOf: ClientOf = () => undefined,
): readonly ChainReader[] {
  return deployment.chains.map((chain) => {
    const given = clientOf(chain.chainId);
    const transport = given ? custom(given) : transportOf(chain);
    return new ChainReader(chain, createClient({ chain: viemChain(chain), transport, pollingInterval }));
  });
}

/** Whether a node asks for a smaller range of blocks: there is no code for it that all nodes share. */
function isTooMuch(error: unknown): boolean {
  const details = (error as { details?: unknown }).details;
  return /range|limit|too (many|large|big)|more than|exceed/i.test(`${reasonOf(error)} ${String(details ?? "")}`);
}
