/** Retries, executes, funds, expires and cancels with the visitor's own wallet. */

import { type Hex } from "viem";

import { type Deployment, type Gmp, gmpsOf, type Kind, type Message, parseGmp, type Wallet, Waybill } from "@waybill/dapp";
import { element, problemLine, whenPressed } from "../example/element.ts";
import { FeeList } from "../example/fee-list.ts";

export class Acts {
  readonly #deployment: Deployment;
  readonly #waybill: Waybill;
  readonly #wallet: Wallet;

  constructor(deployment: Deployment, wallet: Wallet) {
    this.#deployment = deployment;
    this.#wallet = wallet;
    this.#waybill = new Waybill(deployment, { wallet });
  }

  /** Puts buttons beside the commands of a section. */
  offer(section: HTMLElement): void {
    const message = messageOf(section.dataset.message!);
    const tried = (section.dataset.tried ?? "").split(",").filter(Boolean).map(parseGmp);
    const root = section.querySelector<HTMLElement>(".wallet")!;
    root.replaceChildren(element("p", { className: "quiet" }, `As ${this.#wallet.address}`));
    this.#offerAll(section, message, tried);
  }

  #offerAll(section: HTMLElement, message: Message, tried: readonly Gmp[]): void {
    const run: Readonly<Record<string, () => Promise<unknown>>> = {
      execute: () => this.#waybill.execute(message),
      expire: () => this.#waybill.expire(message),
    };
    for (const act of section.querySelectorAll<HTMLElement>("[data-act]")) {
      const kind = act.dataset.act!;
      const plain = run[kind];
      if (plain) this.#offerPlain(act, plain);
      else this.#offerPriced(act, kind as Priced, message, tried);
    }
  }

  #offerPlain(act: HTMLElement, run: () => Promise<unknown>): void {
    show(act, [], run);
  }

  /** Offers the GMPs to choose from, with their fees. */
  #offerPriced(act: HTMLElement, kind: Priced, message: Message, tried: readonly Gmp[]): void {
    const quote = (gmps: readonly Gmp[]) =>
      kind === "cancel" ? this.#waybill.quoteCancel(message, gmps) : this.#waybill.quoteRetry(message, gmps);
    const follow = (): void => {
      void fees.show(quote);
      name(act, fees.chosen);
    };
    const fees: FeeList = new FeeList("GMPs to send it over", follow);
    const there = gmpsOf(this.#deployment.chain(message.destinationChain));
    const usable = gmpsOf(this.#deployment.chain(message.sourceChain)).filter((gmp) => there.includes(gmp));
    const untried = usable.filter((gmp) => !tried.includes(gmp));
    fees.offer(usable, kind === "retry" ? untried.slice(0, 1) : tried.length > 0 ? tried : usable.slice(0, message.quorum));
    follow();
    show(act, [fees.root], () => this.#send(kind, message, fees.chosen));
  }

  #send(kind: Priced, message: Message, gmps: readonly Gmp[]): Promise<unknown> {
    switch (kind) {
      case "retry":
        return this.#waybill.retryRoute(message, gmps);
      case "fund":
        return this.#waybill.fund(message, gmps);
      case "cancel":
        return this.#waybill.cancel(message, gmps);
    }
  }
}

type Priced = "retry" | "fund" | "cancel";

/** Makes the command equivalent to the button. */
function name(act: HTMLElement, gmps: readonly Gmp[]): void {
  const command = act.querySelector<HTMLElement>(".command code")!;
  const plain = command.textContent!.replace(/ --gmps \S+/, "");
  command.textContent = gmps.length > 0 ? `${plain} --gmps ${gmps.join(",")}` : plain;
}

function show(act: HTMLElement, above: readonly HTMLElement[], run: () => Promise<unknown>): void {
  const root = act.querySelector<HTMLElement>(".do")!;
  const problem = problemLine();
  const done = element("p", { className: "done-line", role: "status" });
  const button = element("button", { type: "button", className: "primary" }, act.querySelector("h3")!.textContent);
  whenPressed(button, problem, async () => {
    done.textContent = "";
    await run();
    done.textContent = "Done: in a block. The page follows when the index has read it.";
  });
  root.replaceChildren(...above, button, problem, done);
  root.hidden = false;
}

type MessageJson = Readonly<Record<string, string>> & { readonly ttl: number; readonly kind: number; readonly quorum: number };

/** Parses the server's JSON of a message, which has 64-bit numbers as text. */
function messageOf(text: string): Message {
  const data = JSON.parse(text) as MessageJson;
  const hex = (name: string): Hex => data[name] as Hex;
  return {
    sourceChain: BigInt(data.sourceChain!),
    sourceRouter: hex("sourceRouter"),
    sender: hex("sender"),
    nonce: BigInt(data.nonce!),
    destinationChain: BigInt(data.destinationChain!),
    destinationRouter: hex("destinationRouter"),
    recipient: hex("recipient"),
    gasLimit: BigInt(data.gasLimit!),
    sentAt: BigInt(data.sentAt!),
    ttl: data.ttl,
    kind: data.kind as Kind,
    quorum: data.quorum,
    replaces: hex("replaces"),
    payload: hex("payload"),
  };
}
