/** Follows a message to its end. */

import type { Hex } from "viem";
import { getTransactionReceipt } from "viem/actions";

import type { Block, ChainReader } from "./chains.ts";
import { type Fact, factsOf, isCreation } from "./facts.ts";
import { type Gmp, gmpsFromBits } from "./gmps.ts";
import { MessageHistory } from "./history.ts";
import { expiresAt, type Message, messageId } from "./message.ts";
import { judge, type Observation, type Progress } from "./progress.ts";
import { reasonOf } from "./reverts.ts";
import { sleep } from "./sleep.ts";

export interface WatchOptions {
  /** Milliseconds between two looks; grows to thirty seconds while a chain can't be read. */
  readonly pollingInterval?: number;
  /** Seconds after its last attempt from which a message without its quorum is stalled. */
  readonly stallAfter?: number;
  /** Ends the watch: nothing more is asked of a chain, and nothing more yielded. */
  readonly signal?: AbortSignal;
}

/** So far may the destination's clock be behind the source's, in seconds. */
const CLOCK_SKEW = 7_200n;

/** A single failure is a hiccup; from this many in a row on, what was read before is too old to go by. */
const FAILURES_TILL_UNKNOWN = 3;

/** A node that is a block behind says the same as an orphaned message, once. */
const ABSENCES_TILL_ORPHANED = 2;

const LONGEST_PAUSE = 30_000;
const DEFAULT_PAUSE = 2_000;
const DEFAULT_STALL = 600;

/**
 * Yields the message's progress now, and again whenever it changes, until it is final or the signal aborts. Chains that
 * can't be read are asked again, without end; meanwhile the state is UNKNOWN, never a guess.
 */
export async function* watch(
  source: ChainReader,
  destination: ChainReader,
  message: Message,
  options: WatchOptions = {},
): AsyncGenerator<Progress, void, void> {
  const observer = new Observer(source.until(options.signal), destination.until(options.signal), message);
  let shown = "";
  while (!options.signal?.aborted) {
    const seen = await observer.look();
    if (options.signal?.aborted) return;
    const progress = seen && judge(seen, options.stallAfter ?? DEFAULT_STALL);
    if (progress && shown !== (shown = fingerprint(progress))) yield progress;
    if (progress?.final) return;
    const pause = (options.pollingInterval ?? DEFAULT_PAUSE) * 2 ** Math.min(observer.failures, 8);
    await sleep(Math.min(pause, LONGEST_PAUSE), options.signal);
  }
}

interface View {
  readonly head: Block;
  readonly valid: ReadonlySet<Gmp>;
  readonly validCount: number;
  readonly execution: number;
  readonly expired: boolean;
}

/** Looks at both chains, and remembers enough to tell a hiccup from news. */
class Observer {
  readonly #source: ChainReader;
  readonly #destination: ChainReader;
  readonly #message: Message;
  readonly #id: Hex;
  readonly #sourceHistory: MessageHistory;
  readonly #destinationHistory: MessageHistory;
  #view: View | undefined;
  #creation: Hex | undefined;
  #replacedBy: Hex | undefined;
  #absences = 0;
  #failures = { source: 0, destination: 0 };

  constructor(source: ChainReader, destination: ChainReader, message: Message) {
    this.#source = source;
    this.#destination = destination;
    this.#message = message;
    this.#id = messageId(message);
    this.#sourceHistory = new MessageHistory(source, this.#id, message.sentAt);
    this.#destinationHistory = new MessageHistory(destination, this.#id, message.sentAt - CLOCK_SKEW);
  }

  /** How many looks in a row have failed on one of the chains. */
  get failures(): number {
    return Math.max(this.#failures.source, this.#failures.destination);
  }

  /** What there is to see, or undefined if that would be no news: a chain did not answer just now. */
  async look(): Promise<Observation | undefined> {
    const [source, destination] = await Promise.allSettled([this.#lookAtSource(), this.#lookAtDestination()]);
    this.#failures = {
      source: source.status === "rejected" ? this.#failures.source + 1 : 0,
      destination: destination.status === "rejected" ? this.#failures.destination + 1 : 0,
    };
    const problems = [
      ...problemOf(this.#source, source, this.#failures.source),
      ...problemOf(this.#destination, destination, this.#failures.destination),
    ];
    const isHiccup = this.failures > 0 && problems.length === 0;
    const isGap = this.#absences > 0 && this.#absences < ABSENCES_TILL_ORPHANED;
    return isHiccup || isGap ? undefined : this.#observation(problems, destination);
  }

  #observation(problems: readonly string[], destination: PromiseSettledResult<void>): Observation {
    const view = this.#view;
    return {
      id: this.#id,
      message: this.#message,
      facts: inOrder([...this.#sourceHistory.facts, ...this.#destinationHistory.facts]),
      valid: view?.valid ?? new Set(),
      validCount: view?.validCount ?? 0,
      execution: view?.execution ?? 0,
      expired: view?.expired ?? false,
      destination: {
        name: this.#destination.name,
        head: view?.head.number ?? 0n,
        time: view?.head.timestamp ?? 0n,
        confirmations: this.#destination.deployment.confirmations,
      },
      sourceName: this.#source.name,
      orphaned: this.#absences >= ABSENCES_TILL_ORPHANED,
      replacedBy: this.#replacedBy,
      unreadable: destination.status === "rejected" ? reasonOf(destination.reason) : undefined,
      problems,
    };
  }

  async #lookAtSource(): Promise<void> {
    const { facts } = await this.#sourceHistory.read();
    const created = facts.find(isCreation);
    this.#absences = created ? 0 : this.#absences + 1;
    this.#creation = created?.transactionHash ?? this.#creation;
    this.#replacedBy = created || !this.#creation ? undefined : await this.#successor(this.#creation);
  }

  async #lookAtDestination(): Promise<void> {
    const { head } = await this.#destinationHistory.read();
    const [bits, execution] = await this.#destination.read("receiptsOf", [this.#id], head.number);
    const expiry = expiresAt(this.#message);
    const expired = expiry !== null && head.timestamp > expiry;
    this.#view = { head, valid: gmpsFromBits(bits), validCount: bitCount(bits), execution, expired };
  }

  /** The id that the same transaction creates now: after a reorg its block's time, and with it the id, may differ. */
  async #successor(transaction: Hex): Promise<Hex | undefined> {
    const receipt = await getTransactionReceipt(this.#source.client, { hash: transaction }).catch(() => undefined);
    const { nonce, destinationChain } = this.#message;
    const created = factsOf(this.#source.deployment, receipt?.logs ?? []).find(
      (fact) => isCreation(fact) && fact.message.nonce === nonce && fact.message.destinationChain === destinationChain,
    );
    return created && created.messageId !== this.#id ? created.messageId : undefined;
  }
}

function problemOf(chain: ChainReader, look: PromiseSettledResult<void>, failures: number): string[] {
  if (look.status === "fulfilled" || failures < FAILURES_TILL_UNKNOWN) return [];
  return [`${chain.name} does not answer (${reasonOf(look.reason)})`];
}

/** By time; what happened at the same second stays in the order of cause and effect, source first. */
function inOrder(facts: Fact[]): Fact[] {
  return facts.sort((a, b) => Number((a.timestamp ?? 0n) - (b.timestamp ?? 0n)));
}

function fingerprint({ state, reason, final, receipts, timeline, problems, replacedBy }: Progress): string {
  const places = timeline.map(({ blockHash, logIndex }) => `${blockHash}/${logIndex}`);
  return JSON.stringify([state, reason, final, receipts, replacedBy, places, problems]);
}

function bitCount(bits: number): number {
  return bits.toString(2).replaceAll("0", "").length;
}
