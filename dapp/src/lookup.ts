/** Finds messages on the chains of a network. */

import { type Hex, TransactionReceiptNotFoundError } from "viem";
import { getTransactionReceipt } from "viem/actions";

import type { ChainReader } from "./chains.ts";
import { UnknownMessageError } from "./errors.ts";
import { CREATION_TOPICS, factsOf, type FactOf, isCreation } from "./facts.ts";
import type { Gmp } from "./gmps.ts";
import type { Message } from "./message.ts";

/** A message as its source chain created it. */
export interface Found {
  readonly id: Hex;
  readonly message: Message;
  readonly retriable: boolean;
  /** The GMPs that accepted it when it was routed; the requested ones while it is unfunded. */
  readonly gmps: ReadonlySet<Gmp>;
  readonly transactionHash: Hex;
}

/** The message with that id, searched for on every chain; throws {@link UnknownMessageError} if none created it. */
export async function find(chains: readonly ChainReader[], id: Hex, signal?: AbortSignal): Promise<Found> {
  const found = (await Promise.all(chains.map((chain) => findOn(chain.until(signal), id)))).find((entry) => entry !== undefined);
  if (found) return found;
  throw new UnknownMessageError(`no chain has created a message ${id}; searched: ${namesOf(chains)}`);
}

/**
 * The messages that a transaction created, received or executed, on whichever chain it is; throws
 * {@link UnknownMessageError} if no chain knows the transaction, or it has no events of Waybill.
 */
export async function findByTransaction(chains: readonly ChainReader[], transactionHash: Hex): Promise<readonly Found[]> {
  const onChains = await Promise.all(chains.map((chain) => factsIn(chain, transactionHash)));
  const facts = onChains.find((entry) => entry !== undefined);
  if (!facts) throw new UnknownMessageError(`no chain has a transaction ${transactionHash}; searched: ${namesOf(chains)}`);
  if (facts.length === 0) throw new UnknownMessageError(`transaction ${transactionHash} concerns no message`);
  const created = new Map(facts.filter(isCreation).map((fact) => [fact.messageId, foundIn(fact)]));
  const ids = [...new Set(facts.map(({ messageId }) => messageId))];
  return Promise.all(ids.map((id) => created.get(id) ?? find(chains, id)));
}

async function findOn(chain: ChainReader, id: Hex): Promise<Found | undefined> {
  const { router, startBlock } = chain.deployment;
  const filter = { address: [router], topics: [CREATION_TOPICS, id] };
  const logs = await chain.logs(filter, BigInt(startBlock), (await chain.head()).number);
  const fact = factsOf(chain.deployment, logs).findLast(isCreation);
  return fact && foundIn(fact);
}

async function factsIn(chain: ChainReader, hash: Hex): Promise<ReturnType<typeof factsOf> | undefined> {
  try {
    return factsOf(chain.deployment, (await getTransactionReceipt(chain.client, { hash })).logs);
  } catch (error) {
    if (error instanceof TransactionReceiptNotFoundError) return undefined;
    throw error;
  }
}

function foundIn({ messageId, message, retriable, gmps, transactionHash }: FactOf<"routed" | "unfunded">): Found {
  return { id: messageId, message, retriable, gmps, transactionHash };
}

function namesOf(chains: readonly ChainReader[]): string {
  return chains.map(({ name }) => name).join(", ");
}
