/** An example dApp: connect, send over chosen GMPs, watch, retry. */

import { type Hex, isHex, size } from "viem";

import { connectWallet, Deployment, type Message, messageId, UnknownMessageError, type Wallet, Waybill } from "@waybill/dapp";
import { Card } from "./card.ts";
import { Compose } from "./compose.ts";
import { offerWallets } from "./connect.ts";
import { byId, element, problemLine, whenPressed } from "./element.ts";

/** Milliseconds between two looks at a chain. */
const POLLING_INTERVAL = 1_000;

interface Settings {
  readonly deployment: unknown;
  /** Seconds after which a message is called stalled. */
  readonly stallAfter: number;
}

class Page {
  readonly #deployment: Deployment;
  readonly #stallAfter: number;
  readonly #cards = new Map<Hex, Card>();
  #waybill: Waybill;

  constructor(deployment: Deployment, stallAfter: number) {
    this.#deployment = deployment;
    this.#stallAfter = stallAfter;
    this.#waybill = new Waybill(deployment, { pollingInterval: POLLING_INTERVAL });
  }

  show(): void {
    byId("network").textContent = this.#deployment.network;
    offerWallets(byId("wallet"), connectWallet, (wallet) => this.#connected(wallet));
    new Compose(byId("compose"), () => this.#waybill, ({ message }) => this.#add(message));
    this.#showLookup();
    this.#showEmptiness();
    for (const id of this.#remembered()) void this.#follow(id).catch(() => this.#forget(id));
    const linked = location.hash.slice(1);
    if (isHex(linked) && size(linked) === 32) void this.#follow(linked).catch(() => undefined);
  }

  #connected(wallet: Wallet): void {
    this.#waybill = new Waybill(this.#deployment, { wallet, pollingInterval: POLLING_INTERVAL });
  }

  #showLookup(): void {
    const input = element("input", { type: "search", className: "mono", placeholder: "0x…", spellcheck: false, autocomplete: "off" });
    const button = element("button", { type: "button" }, "Find");
    const problem = problemLine();
    whenPressed(button, problem, async () => this.#follow(input.value.trim() as Hex));
    input.addEventListener("keydown", (event) => event.key === "Enter" && button.click());
    const label = element("label", { className: "field" }, element("span", {}, "Message id, or a transaction on either chain"), input);
    byId("lookup").replaceChildren(element("div", { className: "lookup" }, label, button), problem);
  }

  /** Shows the message with that id, or those of that transaction. */
  async #follow(hash: Hex): Promise<void> {
    if (!isHex(hash) || size(hash) !== 32) throw new UnknownMessageError(`"${hash}" is not 0x and 64 hex digits`);
    const found = await this.#waybill.find(hash).catch(async (error: unknown) => {
      if (!(error instanceof UnknownMessageError)) throw error;
      return this.#waybill.findByTransaction(hash);
    });
    for (const { message } of [found].flat()) this.#add(message);
  }

  #add(message: Message): void {
    const id = messageId(message);
    const known = this.#cards.get(id);
    const card = known ?? new Card(message, () => this.#waybill);
    if (!known) {
      this.#cards.set(id, card);
      this.#remember([...this.#remembered().filter((other) => other !== id), id]);
      if (this.#cards.size === 1) byId("list").replaceChildren();
      byId("list").prepend(card.root);
      void card.follow(this.#stallAfter, new AbortController().signal);
    }
    card.root.scrollIntoView({ block: "nearest" });
  }

  #showEmptiness(): void {
    const hint = "Nothing sent yet. What you send appears here, and stays after a reload.";
    byId("list").replaceChildren(element("p", { className: "card quiet" }, hint));
  }

  get #key(): string {
    return `waybill:${this.#deployment.network}`;
  }

  #remembered(): Hex[] {
    const stored: unknown = JSON.parse(localStorage.getItem(this.#key) ?? "[]");
    return Array.isArray(stored) ? stored.filter((id): id is Hex => isHex(id)) : [];
  }

  #remember(ids: readonly Hex[]): void {
    localStorage.setItem(this.#key, JSON.stringify(ids.slice(-20)));
  }

  #forget(id: Hex): void {
    this.#remember(this.#remembered().filter((other) => other !== id));
  }
}

async function start(): Promise<void> {
  const settings = (await (await fetch("settings.json")).json()) as Settings;
  const deployment = Deployment.parse(JSON.stringify(settings.deployment), "the network's deployments file");
  new Page(deployment, settings.stallAfter).show();
}

start().catch((error: unknown) => {
  byId("compose").replaceChildren(element("pre", { className: "problem", role: "alert" }, String(error)));
});
