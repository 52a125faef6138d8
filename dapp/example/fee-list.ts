/** Check boxes for GMPs, each with its current fee. */

import { type Gmp, type Quote, reasonOf } from "@waybill/dapp";
import { element, gmpMark } from "./element.ts";
import { ether } from "./format.ts";

export class FeeList {
  readonly root: HTMLFieldSetElement;
  readonly #list = element("div", { className: "gmps" });
  readonly #total = element("output", { className: "total", "aria-live": "polite" });
  readonly #onChange: () => void;
  #boxes = new Map<Gmp, { box: HTMLInputElement; fee: HTMLElement }>();
  #asked = 0;

  constructor(title: string, onChange: () => void) {
    this.#onChange = onChange;
    const total = element("div", { className: "row total-row" }, element("span", {}, "Fee in total"), this.#total);
    this.root = element("fieldset", {}, element("legend", {}, title), this.#list, total);
  }

  /** Offers these GMPs; all of `checked` are chosen. */
  offer(gmps: readonly Gmp[], checked: readonly Gmp[]): void {
    this.#boxes = new Map(
      gmps.map((gmp) => {
        const box = element("input", { type: "checkbox", checked: checked.includes(gmp), value: gmp, onchange: this.#onChange });
        return [gmp, { box, fee: element("span", { className: "fee" }, "…") }];
      }),
    );
    const rows = [...this.#boxes].map(([gmp, { box, fee }]) => element("label", {}, box, gmpMark(gmp), fee));
    this.#list.replaceChildren(...rows);
  }

  get chosen(): readonly Gmp[] {
    return [...this.#boxes].flatMap(([gmp, { box }]) => (box.checked ? [gmp] : []));
  }

  /** Shows the fees of all GMPs, and the sum of those chosen; an answer that comes too late is dropped. */
  async show(quote: (gmps: readonly Gmp[]) => Promise<Quote>): Promise<void> {
    const asked = (this.#asked += 1);
    this.#total.textContent = "…";
    try {
      const { fees, refused } = await quote([...this.#boxes.keys()]);
      if (asked !== this.#asked) return;
      for (const [gmp, { box, fee }] of this.#boxes) {
        const amount = fees.get(gmp);
        fee.textContent = amount === undefined ? "no quote" : ether(amount);
        fee.title = refused.get(gmp)?.message ?? "";
        box.disabled = amount === undefined;
        if (amount === undefined) box.checked = false;
      }
      const chosen = this.chosen;
      const total = chosen.reduce((sum, gmp) => sum + (fees.get(gmp) ?? 0n), 0n);
      this.#total.textContent = chosen.length === 0 ? "choose at least one GMP" : ether(total);
    } catch (error) {
      if (asked === this.#asked) this.#total.textContent = `no quote: ${reasonOf(error)}`;
    }
  }
}
