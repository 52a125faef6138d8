/** The form that sends a message. */

import { stringToHex } from "viem";

import { type Gmp, gmpsOf, type RouteRequest, type Sent, type Waybill } from "@waybill/dapp";
import { element, problemLine, whenPressed } from "./element.ts";
import { FeeList } from "./fee-list.ts";

/** Milliseconds after the last key press before fees are quoted again. */
const QUOTE_DELAY = 250;

/** How long a message may take, in seconds; 0 = it never expires. */
const LIVES = [
  ["never", 0],
  ["in an hour", 3_600],
  ["in a day", 86_400],
  ["in a week", 604_800],
] as const;

export class Compose {
  readonly #waybill: () => Waybill;
  readonly #from: HTMLSelectElement;
  readonly #to: HTMLSelectElement;
  readonly #recipient = element("input", { type: "text", spellcheck: false, autocomplete: "off", className: "mono" });
  readonly #payload = element("textarea", { rows: 2, value: "Hello from the other side" });
  readonly #quorum = element("select", {});
  readonly #ttl: HTMLSelectElement;
  readonly #fees: FeeList;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param waybill the kit, with the wallet if one is connected. */
  constructor(root: HTMLElement, waybill: () => Waybill, onSent: (sent: Sent) => void) {
    this.#waybill = waybill;
    const { chains } = waybill().deployment;
    const options = (): HTMLOptionElement[] => chains.map(({ name }) => element("option", { value: name }, name));
    this.#from = element("select", { onchange: () => this.#laneChanged() }, ...options());
    this.#to = element("select", { onchange: () => this.#laneChanged() }, ...options());
    this.#to.selectedIndex = chains.length - 1;
    this.#ttl = element("select", {}, ...LIVES.map(([name, value]) => element("option", { value }, name)));
    this.#fees = new FeeList("GMPs to send over", () => this.#gmpsChanged());
    this.#recipient.addEventListener("input", () => this.#quoteSoon());
    this.#payload.addEventListener("input", () => this.#quoteSoon());

    const send = element("button", { type: "button", className: "primary" }, "Send message");
    const problem = problemLine();
    whenPressed(send, problem, async () => onSent(await this.#waybill().route(this.#request(this.#fees.chosen))));
    root.replaceChildren(
      element("div", { className: "lane" }, labelled("From", this.#from), this.#swapButton(), labelled("To", this.#to)),
      labelled("Recipient", this.#recipient),
      labelled("Text", this.#payload),
      this.#fees.root,
      element(
        "div",
        { className: "pair" },
        labelled("Executed once this many have delivered", this.#quorum),
        labelled("Expires", this.#ttl),
      ),
      send,
      problem,
    );
    this.#laneChanged();
  }

  #swapButton(): HTMLButtonElement {
    const swap = (): void => {
      [this.#from.value, this.#to.value] = [this.#to.value, this.#from.value];
      this.#laneChanged();
    };
    return element("button", { type: "button", className: "swap", title: "Swap", "aria-label": "Swap from and to", onclick: swap }, "⇄");
  }

  #laneChanged(): void {
    const { deployment } = this.#waybill();
    const [source, destination] = [deployment.chain(this.#from.value), deployment.chain(this.#to.value)];
    const gmps = gmpsOf(source).filter((gmp) => gmpsOf(destination).includes(gmp));
    this.#recipient.value = destination.examples.inbox ?? "";
    this.#fees.offer(gmps, gmps.slice(0, 2));
    this.#gmpsChanged();
  }

  #gmpsChanged(): void {
    const most = Math.max(this.#fees.chosen.length, 1);
    const wanted = Math.min(Number(this.#quorum.value) || most, most);
    const options = Array.from({ length: most }, (_, index) => element("option", { value: index + 1 }, `${index + 1} of ${most}`));
    this.#quorum.replaceChildren(...options);
    this.#quorum.value = String(wanted);
    this.#quote();
  }

  #quoteSoon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#quote(), QUOTE_DELAY);
  }

  #quote(): void {
    void this.#fees.show(async (gmps) => this.#waybill().quoteRoute(this.#request(gmps)));
  }

  #request(gmps: readonly Gmp[]): RouteRequest {
    return {
      source: this.#from.value,
      destination: this.#to.value,
      recipient: this.#recipient.value.trim() as `0x${string}`,
      payload: stringToHex(this.#payload.value),
      gmps,
      quorum: Number(this.#quorum.value),
      ttl: Number(this.#ttl.value),
    };
  }
}

function labelled(text: string, control: HTMLElement): HTMLLabelElement {
  return element("label", { className: "field" }, element("span", {}, text), control);
}
