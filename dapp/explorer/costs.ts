/** What each transaction of a message cost, as its chain says. */

import { ether, roughly } from "../example/format.ts";
import { ask } from "./network.ts";

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
export function showCosts(table: HTMLElement): void {
  for (const row of table.querySelectorAll<HTMLElement>("tr[data-hash]")) void fill(row);
}

async function fill(row: HTMLElement): Promise<void> {
  const [chain, hash] = [Number(row.dataset.chain), row.dataset.hash!];
  const say = (name: string, text: string, title = ""): void => {
    Object.assign(row.querySelector<HTMLElement>(`.${name}`)!, { textContent: text, title });
  };
  const asked = known.get(hash) ?? cost(chain, hash);
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

/** Two plain requests: viem would be half of what a page loads. */
async function cost(chain: number, hash: string): Promise<Cost> {
  const [receipt, transaction] = (await Promise.all([
    ask(chain, "eth_getTransactionReceipt", hash),
    ask(chain, "eth_getTransactionByHash", hash),
  ])) as [{ readonly gasUsed: string; readonly effectiveGasPrice: string }, { readonly value: string }];
  const gas = BigInt(receipt.gasUsed);
  return { gas, paid: gas * BigInt(receipt.effectiveGasPrice), value: BigInt(transaction.value) };
}
