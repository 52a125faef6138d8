/** The visitor's wallet, which stays connected while parts of the page are replaced. Its code is loaded on connecting. */

import type { Wallet } from "@waybill/dapp";
import { offerWallets } from "../example/connect.ts";
import type { Acts } from "./acts.ts";
import { networkText } from "./network.ts";

const loadActing = () => import("./acting.ts");

let acts: Acts | undefined;

/** Offers what can be done with a message, once a wallet is connected. */
export function offerActs(section: HTMLElement): void {
  if (acts) {
    section.querySelector<HTMLElement>(".wallet")!.hidden = false;
    acts.offer(section);
    return;
  }
  whenConnected(section, async (wallet) => {
    const { Acts, parseNetwork } = await loadActing();
    acts = new Acts(parseNetwork(await networkText()), wallet);
    acts.offer(section);
  });
}

/** Offers what can be decided about a dead letter, once a wallet is connected. */
export function offerLetter(section: HTMLElement): void {
  whenConnected(section, async (wallet) => {
    const { offerDecisions, parseNetwork } = await loadActing();
    offerDecisions(section, parseNetwork(await networkText()), wallet);
  });
}

function whenConnected(section: HTMLElement, act: (wallet: Wallet) => Promise<void>): void {
  const root = section.querySelector<HTMLElement>(".wallet")!;
  root.hidden = false;
  const connect = async (provider: Parameters<Awaited<ReturnType<typeof loadActing>>["connectWallet"]>[0]) =>
    (await loadActing()).connectWallet(provider);
  offerWallets(root, connect, act);
}
