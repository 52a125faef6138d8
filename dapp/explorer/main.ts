/** The scripts of the explorer's pages: live updates (htmx), ages, copying, and operations with the visitor's wallet. */

import "htmx.org";

import { showAges } from "./ages.ts";
import { offerCopies } from "./copy.ts";
import { replaceChangedOnly } from "./live.ts";
import { offerActs, offerLetter } from "./visitor.ts";

/** Adds ages, copy buttons and operations to a part of the page; called again for every part that is replaced. */
function enliven(root: ParentNode): void {
  showAges(root);
  offerCopies(root);
  for (const section of root.querySelectorAll<HTMLElement>("section[data-letter]")) offerLetter(section);
  for (const section of root.querySelectorAll<HTMLElement>("section[data-message]")) offerActs(section);
}

replaceChangedOnly();
document.addEventListener("htmx:load", ({ target }) => enliven(target as HTMLElement));
setInterval(() => showAges(document), 5_000);
