/** The button of a message: execute, mark as expired, or fund, depending on its state. */

import { type FactOf, type Gmp, gmpTitle, type Message, type Progress, type Waybill } from "@waybill/dapp";
import { element, problemLine, whenPressed } from "./element.ts";
import { ether } from "./format.ts";

type Kind = "execute" | "expire" | "fund";

const LABELS: Readonly<Record<Kind, string>> = { execute: "Execute", expire: "Mark as expired", fund: "Fund it" };

export class ActButton {
  readonly root = element("div", { hidden: true });
  readonly #waybill: () => Waybill;
  readonly #message: Message;
  #shown: Kind | undefined;

  /** @param waybill the kit, with the wallet if one is connected. */
  constructor(message: Message, waybill: () => Waybill) {
    this.#message = message;
    this.#waybill = waybill;
  }

  /** Offers what fits the message's state now, and nothing if nothing does. */
  show(progress: Progress): void {
    const kind = Object.keys(LABELS).includes(progress.action) ? (progress.action as Kind) : undefined;
    if (kind === this.#shown) return;
    this.#shown = kind;
    this.root.hidden = kind === undefined;
    if (kind) this.#offer(kind, chosenAtFirst(progress));
  }

  #offer(kind: Kind, gmps: readonly Gmp[]): void {
    const problem = problemLine();
    const button = element("button", { type: "button", className: "primary" }, LABELS[kind]);
    const price = element("p", { className: "quiet price", hidden: kind !== "fund" });
    whenPressed(button, problem, () => this.#run(kind, gmps));
    this.root.replaceChildren(price, button, problem);
    if (kind === "fund") void this.#showPrice(price, gmps);
  }

  async #run(kind: Kind, gmps: readonly Gmp[]): Promise<void> {
    switch (kind) {
      case "execute":
        return void (await this.#waybill().execute(this.#message));
      case "expire":
        return void (await this.#waybill().expire(this.#message));
      case "fund":
        return void (await this.#waybill().fund(this.#message, gmps));
    }
  }

  async #showPrice(price: HTMLElement, gmps: readonly Gmp[]): Promise<void> {
    const { total, refused } = await this.#waybill().quoteRetry(this.#message, gmps);
    const silent = refused.size > 0 ? `; no quote from ${[...refused.keys()].map(gmpTitle).join(", ")}` : "";
    price.textContent = `Fees for ${gmps.map(gmpTitle).join(" and ")}: ${ether(total)}${silent}. Anyone may pay.`;
  }
}

/** The GMPs that the sender chose for an unfunded message. */
function chosenAtFirst({ timeline }: Progress): readonly Gmp[] {
  const created = timeline.find((fact): fact is FactOf<"unfunded"> => fact.type === "unfunded");
  return created ? [...created.gmps] : [];
}
