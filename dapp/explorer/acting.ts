/** All that needs the kit and viem: a chunk of its own, which a page loads when its visitor connects a wallet. */

import { Deployment } from "@waybill/dapp";

export { connectWallet } from "@waybill/dapp";
export { Acts } from "./acts.ts";
export { offerDecisions } from "./decisions.ts";

export function parseNetwork(text: string): Deployment {
  return Deployment.parse(text, "the network's file");
}
