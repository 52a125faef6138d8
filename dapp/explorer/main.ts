/** What the explorer's pages do beyond being read: live updates (htmx), ages, copying, and acting through the visitor's wallet. */

import "htmx.org";

import { showAges } from "./ages.ts";
import { offerCopies } from "./copy.ts";
import { replaceChangedOnly } from "./live.ts";
import { offerActs, offerLetter } from "./visitor.ts";

/** Brings what the server has just sent to life; called again for every part that is replaced. */
function enliven(root: ParentNode): void {
  showAges(root);
  offerCopies(root);
  for (const section of root.querySelectorAll<HTMLElement>("section[data-letter]")) offerLetter(section);
  for (const section of root.querySelectorAll<HTMLElement>("section[data-message]")) offerActs(section);
}

replaceChangedOnly();
document.addEventListener("htmx:load", ({ target }) => enliven(target as HTMLElement));
setInterval(() => showAges(document), 5_000);
