/** Waits for a broadcast transaction: until a block includes it, or another one replaces it. */

import { type Address, type Hex, type Transaction, TransactionNotFoundError, type TransactionReceipt, TransactionReceiptNotFoundError } from "viem";
import { getBlock, getBlockNumber, getTransaction, getTransactionCount, getTransactionReceipt } from "viem/actions";

import type { ChainReader } from "./chains.ts";
import { NotIncludedError, WalletError } from "./errors.ts";
import { sleep } from "./sleep.ts";

/** Seconds that a transaction may wait for a block. */
const INCLUSION_SECONDS = 180;

/** Milliseconds between the first two polls; each interval is twice the one before, up to the kit's polling interval. */
const FIRST_PAUSE = 50;

/** Blocks by which one node behind an RPC URL may be ahead of another, or a reorg go back. */
const MARGIN = 16n;

/**
 * Waits for the receipt of a transaction, or of the same call at another price that its wallet sent in its place. A chain
 * that can't be read is polled again.
 *
 * viem's own wait checks only new blocks, and misses one that arrives while it searches for a replacement. A chain that mines only
 * on transactions, as anvil does, may have no further block.
 *
 * @throws {@link NotIncludedError} if no block has it in time, {@link WalletError} if the wallet sent something else instead.
 */
export async function inclusionOf(chain: ChainReader, hash: Hex): Promise<TransactionReceipt> {
  const search = new Search(chain, hash);
  const end = Date.now() + INCLUSION_SECONDS * 1000;
  let pause = FIRST_PAUSE;
  for (;;) {
    const isLast = Date.now() >= end; // a page that was frozen meanwhile looks once more
    let trouble: unknown;
    try {
      const receipt = await search.look();
      if (receipt) return receipt;
    } catch (error) {
      if (error instanceof WalletError) throw error;
      trouble = error;
    }
    if (isLast) {
      const late = `transaction ${hash} on ${chain.name} was not included within ${INCLUSION_SECONDS} s`;
      throw new NotIncludedError(`${late}; look it up before sending again`, { cause: trouble });
    }
    await sleep(Math.min(pause, chain.client.pollingInterval));
    pause *= 2;
  }
}

/** Searches for a transaction, and remembers it while it is pending, because a node forgets a replaced one. */
class Search {
  readonly #chain: ChainReader;
  readonly #hash: Hex;
  #waiting: Transaction | undefined;
  /** The first block that may include the replacement. */
  #from = 0n;

  constructor(chain: ChainReader, hash: Hex) {
    this.#chain = chain;
    this.#hash = hash;
  }

  async look(): Promise<TransactionReceipt | undefined> {
    const { client } = this.#chain;
    const receipt = await this.#receipt(this.#hash);
    if (receipt) return receipt;
    const head = await getBlockNumber(client, { cacheTime: 0 });
    if (!this.#waiting) {
      this.#waiting = await unless(TransactionNotFoundError, getTransaction(client, { hash: this.#hash }));
    } else if ((await getTransactionCount(client, { address: this.#waiting.from })) > this.#waiting.nonce) {
      // The nonce is used: by this transaction since the check above, or by another one.
      return (await this.#receipt(this.#hash)) ?? this.#replacement(this.#waiting);
    }
    this.#from = head > MARGIN ? head - MARGIN : 0n;
    return undefined;
  }

  async #replacement(waiting: Transaction): Promise<TransactionReceipt | undefined> {
    const { client, name } = this.#chain;
    const head = await getBlockNumber(client, { cacheTime: 0 });
    for (let blockNumber = this.#from; blockNumber <= head; blockNumber += 1n) {
      const { transactions } = await getBlock(client, { blockNumber, includeTransactions: true });
      const other = transactions.find(({ from, nonce }) => isSame(from, waiting.from) && nonce === waiting.nonce);
      if (!other) continue;
      if (!isSame(other.to, waiting.to) || other.value !== waiting.value || other.input !== waiting.input) {
        throw new WalletError(`transaction ${this.#hash} on ${name} was replaced: the wallet sent ${other.hash} instead; try again`);
      }
      return this.#receipt(other.hash);
    }
    return undefined;
  }

  #receipt(hash: Hex): Promise<TransactionReceipt | undefined> {
    return unless(TransactionReceiptNotFoundError, getTransactionReceipt(this.#chain.client, { hash }));
  }
}

/** Whether two addresses are equal: nodes differ in capitals. */
function isSame(one: Address | null, other: Address | null): boolean {
  return one?.toLowerCase() === other?.toLowerCase();
}

/** The result, or undefined if the node does not know it. */
async function unless<T>(absent: new (...options: never[]) => Error, asked: Promise<T>): Promise<T | undefined> {
  return asked.catch((error: unknown) => {
    if (error instanceof absent) return undefined;
    throw error;
  });
}
