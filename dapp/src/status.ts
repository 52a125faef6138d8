/** A message followed by its id: found, watched, and retried on request. The element and the React hook show this. */

import { isHex, size } from "viem";

import { UnknownMessageError, WaybillError } from "./errors.ts";
import type { Gmp } from "./gmps.ts";
import type { Message } from "./message.ts";
import type { Progress } from "./progress.ts";
import type { RetryOptions, Sent } from "./sending.ts";
import { sleep } from "./sleep.ts";
import type { WatchOptions } from "./watch.ts";
import type { Waybill } from "./waybill.ts";

/** The status of a message that pages show. */
export interface MessageStatus {
  /** The message's progress; undefined until it is found. */
  readonly progress: Progress | undefined;
  /** Why it can't be followed, or why the last retry was not sent; undefined once there is news. */
  readonly error: Error | undefined;
  /** The GMPs that a retry would go over; none unless the message may be retried now. */
  readonly retryOver: readonly Gmp[];
  /** Whether a retry is with the wallet, or on its way into a block. */
  readonly isRetrying: boolean;
}

export const LOOKING: MessageStatus = { progress: undefined, error: undefined, retryOver: [], isRetrying: false };

const DEFAULT_PAUSE = 2_000;

/** Maximum milliseconds between two searches: a search for an unknown id reads each chain's whole history. */
const LONGEST_PAUSE = 300_000;

export class FollowedMessage {
  readonly #waybill: Waybill;
  readonly #id: string;
  readonly #show: (status: MessageStatus) => void;
  #status = LOOKING;
  /** The attempt that the last retry made: until it is seen there is nothing to retry. */
  #awaited = 0;

  /** @param show is given every change, after `follow` was called. */
  constructor(waybill: Waybill, id: string, show: (status: MessageStatus) => void) {
    this.#waybill = waybill;
    this.#id = id;
    this.#show = show;
  }

  /** Finds the message and watches it, until its end or the signal's. Throws nothing: errors are part of the status. */
  async follow(options: WatchOptions & { readonly signal: AbortSignal }): Promise<void> {
    try {
      const message = await this.#find(options);
      if (!message) return;
      for await (const progress of this.#waybill.watch(message, options)) this.#change({ progress, error: undefined });
    } catch (error) {
      if (!options.signal.aborted) this.#change({ error: error as Error });
    }
  }

  /**
   * Retries the message over as many GMPs as it lacks.
   *
   * @param signer the kit with the wallet that signs.
   * @returns undefined if it was not sent; the status has the reason.
   */
  async retry(signer: () => Promise<Waybill>, options?: RetryOptions): Promise<Sent | undefined> {
    if (this.#status.isRetrying) return undefined;
    this.#change({ isRetrying: true, error: undefined });
    try {
      const { progress, retryOver } = this.#status;
      if (!progress || retryOver.length === 0) throw new WaybillError(`message ${this.#id} can't be retried now`);
      const sent = await (await signer()).retryRoute(progress.message, retryOver, options);
      this.#awaited = sent.attempt;
      return sent;
    } catch (error) {
      this.#change({ error: error as Error });
      return undefined;
    } finally {
      this.#change({ isRetrying: false });
    }
  }

  /** The message, searched for until a chain has it; undefined once the signal aborts. */
  async #find({ signal, pollingInterval = DEFAULT_PAUSE }: WatchOptions & { readonly signal: AbortSignal }): Promise<Message | undefined> {
    const id = this.#id;
    if (!isHex(id) || size(id) !== 32) throw new UnknownMessageError(`message id ${JSON.stringify(id)} is not 0x and 64 hex digits`);
    for (let pause = pollingInterval; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        return (await this.#waybill.find(id.toLowerCase() as typeof id, { signal })).message;
      } catch (error) {
        if (signal.aborted) return undefined;
        this.#change({ error: error as Error });
      }
      await sleep(pause, signal);
      if (signal.aborted) return undefined;
    }
  }

  #change(changes: Partial<MessageStatus>): void {
    const status = { ...this.#status, ...changes };
    const { progress } = status;
    const mayRetry = progress?.action === "retry" && progress.attempt >= this.#awaited;
    this.#status = { ...status, retryOver: mayRetry ? this.#waybill.gmpsToRetry(progress) : [] };
    this.#show(this.#status);
  }
}
