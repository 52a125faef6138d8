/** What each transaction of a message cost, as its chain says. */

import { createPublicClient, type Hex } from "viem";

import type { Deployment } from "@waybill/dapp";
import { ether, roughly } from "../example/format.ts";
import { transportOf } from "../src/chains.ts";

interface Cost {
  readonly gas: bigint;
  /** In wei. */
  readonly paid: bigint;
  /** In wei. */
  readonly value: bigint;
}

/** A part of the page that comes again is filled without asking again. */
const known = new Map<string, Promise<Cost>>();

/** Fills the rows of a table of transactions. */
export function showCosts(table: HTMLElement, deployment: Deployment): void {
  for (const row of table.querySelectorAll<HTMLElement>("tr[data-hash]")) void fill(row, deployment);
}

async function fill(row: HTMLElement, deployment: Deployment): Promise<void> {
  const [chain, hash] = [Number(row.dataset.chain), row.dataset.hash as Hex];
  const say = (name: string, text: string, title = ""): void => {
    Object.assign(row.querySelector<HTMLElement>(`.${name}`)!, { textContent: text, title });
  };
  const asked = known.get(hash) ?? cost(deployment, chain, hash);
  known.set(hash, asked);
  try {
    const { gas, paid, value } = await asked;
    say("gas", gas.toLocaleString("en").replaceAll(",", " "));
    say("paid", roughly(paid), ether(paid));
    say("value", value > 0n ? roughly(value) : "–", ether(value));
  } catch {
    known.delete(hash); // a transaction that a reorg took back, or a node that is away: asked again with the next part
    say("gas", "unknown");
  }
}

async function cost(deployment: Deployment, chain: number, hash: Hex): Promise<Cost> {
  const client = createPublicClient({ transport: transportOf(deployment.chain(chain)) });
  const [receipt, transaction] = await Promise.all([client.getTransactionReceipt({ hash }), client.getTransaction({ hash })]);
  return { gas: receipt.gasUsed, paid: receipt.gasUsed * receipt.effectiveGasPrice, value: transaction.value };
}
