/** One message on the page: its state, what each GMP did, what happened when, and what can be done. */

import {
  type Fact,
  type Gmp,
  gmpsOf,
  gmpTitle,
  type GmpProgress,
  type Message,
  messageId,
  type Progress,
  reasonOf,
  type Waybill,
} from "@waybill/dapp";
import { ActButton } from "./acts.ts";
import { element, gmpMark, problemLine, whenPressed } from "./element.ts";
import { FeeList } from "./fee-list.ts";
import { clock, payloadText, shortened, since, words } from "./format.ts";

export class Card {
  readonly root: HTMLElement;
  readonly #waybill: () => Waybill;
  readonly #message: Message;
  readonly #state = element("strong", { className: "state" }, "looking");
  readonly #reason = element("p", { className: "reason" });
  readonly #gmps = element("tbody", {});
  readonly #timeline = element("ol", { className: "timeline" });
  readonly #fees = new FeeList("GMPs to retry over", () => this.#quote());
  readonly #retry: HTMLDetailsElement;
  readonly #act: ActButton;

  /** @param waybill the kit, with the wallet if one is connected. */
  constructor(message: Message, waybill: () => Waybill) {
    this.#message = message;
    this.#waybill = waybill;
    const id = messageId(message);
    const problem = problemLine();
    const send = element("button", { type: "button", className: "primary" }, "Retry");
    whenPressed(send, problem, async () => void (await this.#waybill().retryRoute(message, this.#fees.chosen)));
    this.#retry = element("details", { hidden: true }, element("summary", {}, "Retry over other GMPs"), this.#fees.root, send);
    this.#retry.addEventListener("toggle", () => this.#retry.open && this.#quote());
    this.#act = new ActButton(message, waybill);
    this.root = element(
      "article",
      { className: "card message", id, "aria-label": `Message ${shortened(id)}` },
      this.#banner(id),
      element("blockquote", {}, payloadText(message.payload)),
      gmpTable(this.#gmps),
      this.#timeline,
      this.#retry,
      this.#act.root,
      problem,
    );
    const source = waybill().deployment.chain(message.sourceChain);
    this.#fees.offer(gmpsOf(source), []);
  }

  /** Shows the message's progress until it ends or the signal aborts. */
  async follow(stallAfter: number, signal: AbortSignal): Promise<void> {
    try {
      const steps = this.#waybill().watch(this.#message, { stallAfter, signal });
      for await (const progress of steps) this.#show(progress);
    } catch (error) {
      this.#reason.textContent = `can't be watched: ${reasonOf(error)}; reload the page`;
    }
  }

  #banner(id: string): HTMLElement {
    const { deployment } = this.#waybill();
    const [from, to] = [deployment.chain(this.#message.sourceChain), deployment.chain(this.#message.destinationChain)];
    const link = element("a", { href: `#${id}`, className: "mono", title: id }, shortened(id as `0x${string}`));
    const lane = element("span", { className: "quiet" }, `${from.name} → ${to.name}`);
    const status = element("div", { role: "status" }, this.#state, this.#reason);
    return element("header", {}, element("div", { className: "row" }, link, lane), status);
  }

  #show(progress: Progress): void {
    const canBeRetried = ["ROUTED", "RECEIVED", "STALLED"].includes(progress.state) && progress.action !== "execute";
    this.root.dataset.state = progress.state;
    this.#state.textContent = words(progress.state);
    this.#reason.textContent = progress.reason;
    this.#gmps.replaceChildren(...progress.gmps.map(gmpRow));
    this.#timeline.replaceChildren(...timelineRows(progress.timeline));
    this.#act.show(progress);
    if (progress.state === "STALLED" && this.root.dataset.offered !== "true") this.#offerRetry(progress);
    this.#retry.hidden = !canBeRetried;
  }

  /** Chooses the GMPs that the kit would retry over, and opens the choice once; what a person then changes stays. */
  #offerRetry(progress: Progress): void {
    const waybill = this.#waybill();
    this.#fees.offer(gmpsOf(waybill.deployment.chain(this.#message.sourceChain)), waybill.gmpsToRetry(progress));
    this.root.dataset.offered = "true";
    this.#retry.open = true;
    this.#quote();
  }

  #quote(): void {
    void this.#fees.show(async (gmps: readonly Gmp[]) => this.#waybill().quoteRetry(this.#message, gmps));
  }
}

function gmpTable(body: HTMLElement): HTMLElement {
  const heads = ["GMP", "Sent", "Delivered"].map((text) => element("th", { scope: "col" }, text));
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body);
}

function gmpRow({ gmp, attempts, failure, receipt, counts, duplicates }: GmpProgress): HTMLElement {
  const sent = attempts.map((attempt) => (attempt === 0 ? "first" : `retry ${attempt}`)).join(", ");
  const late = duplicates > 0 ? ` (${duplicates} × again, absorbed)` : "";
  const delivered = receipt ? `${counts ? "✓" : "void,"} ${clock(receipt.timestamp!)}${late}` : "waiting";
  return element(
    "tr",
    { className: counts ? "counts" : "" },
    element("th", { scope: "row" }, gmpMark(gmp)),
    element("td", { title: failure ?? "" }, sent || `refused: ${failure ?? "not sent"}`),
    element("td", {}, sent || receipt ? delivered : "–"),
  );
}

function timelineRows(facts: readonly Fact[]): HTMLElement[] {
  const start = facts[0]?.timestamp ?? 0n;
  return facts.map((fact) => {
    const at = fact.timestamp ?? start;
    const time = element("time", { dateTime: new Date(Number(at) * 1000).toISOString(), title: clock(at) }, since(start, at));
    const where = element("span", { className: "quiet", title: fact.transactionHash }, `${fact.chain}, block ${fact.block}`);
    return element("li", { className: fact.type }, time, element("span", {}, described(fact)), where);
  });
}

function counted(receipts: number, quorum: number): string {
  return receipts > quorum ? `${receipts}, more than the ${quorum} needed` : `${receipts} of ${quorum}`;
}

function described(fact: Fact): string {
  switch (fact.type) {
    case "routed":
      return `Sent over ${[...fact.gmps].map(gmpTitle).join(", ")}`;
    case "retried":
      return `Retry ${fact.attempt} over ${[...fact.gmps].map(gmpTitle).join(", ")}`;
    case "dispatchFailed":
      return `${gmpTitle(fact.gmp)} did not take it: ${fact.reason}`;
    case "received":
      return `${gmpTitle(fact.gmp)} delivered: ${counted(fact.receipts, fact.quorum)}`;
    case "unfunded":
      return `Created; nobody has paid for ${[...fact.gmps].map(gmpTitle).join(", ")} yet`;
    case "expired":
      return "Marked as expired";
    case "cancelled":
      return "Cancelled by its sender";
    case "lateReceipt":
      return `${gmpTitle(fact.gmp)} delivered after its end`;
    case "executed":
      return "Executed by the recipient";
    case "executionFailed":
      return `The recipient refused: ${fact.reason}`;
    case "executionDeferred":
      return "Too little gas was left to execute it";
    case "duplicateAbsorbed":
      return `${gmpTitle(fact.gmp)} delivered again: absorbed`;
  }
}
