/** Requeues, abandons or escalates a dead letter: an operator's wallet sends the notice, if any, and signs twice. */

import type { Address, Hex } from "viem";
import { signTypedData } from "viem/actions";

import { type Deployment, type Gmp, type Kind, type Wallet, Waybill } from "@waybill/dapp";
import { asking } from "../src/wallets.ts";
import { element, problemLine, whenPressed } from "../example/element.ts";

/** Maximum number of signatures for the record's place in the log, which another record may take first. */
const SEALS = 3;

interface TypedData {
  readonly domain: Readonly<Record<string, string | number>>;
  readonly types: Readonly<Record<string, readonly { readonly name: string; readonly type: string }[]>>;
  readonly primaryType: string;
  readonly message: Readonly<Record<string, unknown>>;
}

/** A message that the decision's maker sends before it is recorded. */
interface Notice {
  readonly source: number;
  readonly destination: number | string;
  readonly recipient: Address;
  readonly payload: Hex;
  readonly gmps: readonly Gmp[];
  readonly quorum: number;
  readonly gasLimit: string;
  readonly ttl: number;
  readonly kind: Kind;
}

interface Answer {
  readonly at?: number;
  readonly notice?: Notice | null;
  readonly sign?: TypedData;
  readonly seal?: TypedData;
  readonly recorded?: number;
  readonly error?: { readonly message: string };
}

/** Puts a field for the reason and a button beside each decision of a section. */
export function offerDecisions(section: HTMLElement, deployment: Deployment, wallet: Wallet): void {
  for (const act of section.querySelectorAll<HTMLElement>("[data-decision]")) {
    const decision = { eventId: section.dataset.letter!, decision: act.dataset.decision!, maker: wallet.address };
    offer(act, (rationale) => decide(deployment, wallet, { ...decision, rationale }));
  }
}

function offer(act: HTMLElement, run: (rationale: string) => Promise<void>): void {
  const root = act.querySelector<HTMLElement>(".do")!;
  const title = act.querySelector("h3")!.textContent;
  const reason = element("input", { type: "text", maxLength: 4000, required: true, placeholder: "for a future auditor" });
  const problem = problemLine();
  const button = element("button", { type: "button", className: "primary" }, title);
  whenPressed(button, problem, async () => {
    if (!reason.value.trim()) throw new Error("say why: the reason is signed with the decision");
    await run(reason.value.trim());
    location.reload();
  });
  root.replaceChildren(element("label", { className: "why" }, "Why", reason), button, problem);
  root.hidden = false;
}

async function decide(deployment: Deployment, wallet: Wallet, decision: Readonly<Record<string, string>>): Promise<void> {
  const { at, notice, sign } = await post(decision);
  const sent = notice ? await send(deployment, wallet, notice) : undefined;
  const signature = await signed(deployment, wallet, sign!, "sign the decision");
  const form = { ...decision, at, signature, ...(sent && { notice: sent }) };
  let answer = await post(form);
  for (let tries = 0; answer.seal && tries < SEALS; tries += 1) {
    answer = await post({ ...form, seal: await signed(deployment, wallet, answer.seal, "sign its place in the log") });
  }
  if (answer.recorded === undefined) throw new Error("others keep writing into the log; decide again");
}

async function send(deployment: Deployment, wallet: Wallet, notice: Notice): Promise<Hex> {
  const waybill = new Waybill(deployment, { wallet });
  const { id } = await waybill.route({ ...notice, gasLimit: BigInt(notice.gasLimit) });
  return id;
}

async function signed(deployment: Deployment, wallet: Wallet, data: TypedData, what: string): Promise<Hex> {
  // Wallets sign a domain with a chain on that chain only.
  const chain = typeof data.domain.chainId === "number" ? deployment.chain(data.domain.chainId) : deployment.chains[0]!;
  const client = await wallet.on(chain);
  return asking(what, () => signTypedData(client, data as unknown as Parameters<typeof signTypedData>[1]));
}

async function post(form: Readonly<Record<string, unknown>>): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  const response = await fetch("/dead-letters/decisions", { method: "POST", headers, body: JSON.stringify(form) });
  const text = await response.text();
  const answer = (text.startsWith("{") ? JSON.parse(text) : { error: { message: text } }) as Answer;
  if (!response.ok) throw new Error(answer.error?.message ?? `the explorer answers ${response.status}`);
  return answer;
}
