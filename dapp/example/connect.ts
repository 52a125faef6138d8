/** Connecting the visitor's own wallet: EIP-6963 announcements, or else `window.ethereum`. */

import type { EIP1193Provider } from "viem";

import type { Wallet } from "@waybill/dapp";
import { element, problemLine, whenPressed } from "./element.ts";
import { shortened } from "./format.ts";

interface Announced {
  readonly info: { readonly uuid: string; readonly name: string };
  readonly provider: EIP1193Provider;
}

/** Shows a button per wallet, and the account once `connect` has connected one. */
export function offerWallets(
  root: HTMLElement,
  connect: (provider: EIP1193Provider) => Promise<Wallet>,
  onWallet: (wallet: Wallet) => void | Promise<void>,
): void {
  const announced = new Map<string, Announced>();
  const problem = problemLine();
  const offer = (name: string, provider: () => EIP1193Provider): HTMLButtonElement => {
    const button = element("button", { type: "button", className: "primary" }, name);
    whenPressed(button, problem, async () => {
      const wallet = await connect(provider());
      root.replaceChildren(element("span", { className: "account mono", title: wallet.address }, shortened(wallet.address)));
      await onWallet(wallet);
    });
    return button;
  };
  const show = (): void => {
    const wallets = [...announced.values()];
    const buttons = wallets.map(({ info, provider }) => offer(wallets.length > 1 ? info.name : "Connect wallet", () => provider));
    root.replaceChildren(...(buttons.length > 0 ? buttons : [offer("Connect wallet", injected)]), problem);
  };
  window.addEventListener("eip6963:announceProvider", (event) => {
    const { detail } = event as CustomEvent<Announced>;
    announced.set(detail.info.uuid, detail);
    show();
  });
  show();
  window.dispatchEvent(new Event("eip6963:requestProvider"));
}

function injected(): EIP1193Provider {
  const provider = (window as { ethereum?: EIP1193Provider }).ethereum;
  if (provider) return provider;
  throw new Error("this browser has no wallet; install one, such as MetaMask or Rabby, and reload the page");
}
