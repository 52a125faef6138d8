/** One chain's facts about one message, kept up to date across reorgs. */

import type { Hex } from "viem";

import type { Block, ChainReader } from "./chains.ts";
import { type Fact, FACT_TOPICS, factsOf } from "./facts.ts";

/** Blocks below the head that are read again each time, so that facts of an orphaned block are replaced. */
const REORG_DEPTH = 128n;

export interface Reading {
  readonly head: Block;
  readonly facts: readonly Fact[];
}

export class MessageHistory {
  readonly #chain: ChainReader;
  readonly #id: Hex;
  readonly #since: bigint;
  readonly #timestamps = new Map<Hex, bigint>();
  #first: bigint | undefined;
  #next = 0n;
  #facts: readonly Fact[] = [];

  /** @param since Unix seconds; nothing happened to the message here before. */
  constructor(chain: ChainReader, id: Hex, since: bigint) {
    this.#chain = chain;
    this.#id = id;
    this.#since = since;
  }

  /** The facts of the last read. */
  get facts(): readonly Fact[] {
    return this.#facts;
  }

  /** Reads new blocks. If it throws, the facts are unchanged, and it can be called again. */
  async read(): Promise<Reading> {
    const { deployment } = this.#chain;
    const head = await this.#chain.head();
    this.#first ??= await this.#chain.firstBlockSince(this.#since);
    const from = larger(this.#first, smaller(this.#next, head.number + 1n) - REORG_DEPTH);
    const address = [deployment.router, ...Object.values(deployment.adapters)];
    const logs = await this.#chain.logs({ address, topics: [FACT_TOPICS, this.#id] }, from, head.number);
    const fresh = await this.#dated(factsOf(deployment, logs));
    this.#facts = [...this.#facts.filter(({ block }) => block < from), ...fresh];
    this.#next = head.number + 1n;
    return { head, facts: this.#facts };
  }

  /** Adds the times of blocks where the node did not send them with the logs. */
  async #dated(facts: readonly Fact[]): Promise<Fact[]> {
    const dated: Fact[] = [];
    for (const fact of facts) {
      const timestamp = fact.timestamp ?? this.#timestamps.get(fact.blockHash) ?? (await this.#chain.block(fact.block)).timestamp;
      this.#timestamps.set(fact.blockHash, timestamp);
      dated.push({ ...fact, timestamp });
    }
    return dated;
  }
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
