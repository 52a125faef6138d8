/** What the explorer's pages do beyond being read: live updates (htmx), copying, and acting through the visitor's wallet. */

import "htmx.org";
import "htmx-ext-sse";

import { Deployment } from "@waybill/dapp";
import { Acts } from "./acts.ts";
import { showCosts } from "./costs.ts";
import { offerDecisions } from "./decisions.ts";
import { offerCopies } from "./copy.ts";

const network = fetch("/network.json").then(async (answer) => Deployment.parse(await answer.text(), "the network's file"));
let acts: Acts | undefined;

/** Brings what the server has just sent to life; called again for every part that is replaced. */
function enliven(root: ParentNode): void {
  offerCopies(root);
  for (const table of root.querySelectorAll<HTMLElement>("table.costs")) {
    void network.then((deployment) => showCosts(table, deployment));
  }
  for (const section of root.querySelectorAll<HTMLElement>("section[data-letter]")) {
    void network.then((deployment) => offerDecisions(section, deployment));
  }
  for (const section of root.querySelectorAll<HTMLElement>("section[data-message]")) {
    void network.then((deployment) => {
      acts ??= new Acts(deployment);
      acts.offer(section);
    });
  }
}

document.addEventListener("htmx:load", ({ target }) => enliven((target as HTMLElement).parentElement ?? document));
