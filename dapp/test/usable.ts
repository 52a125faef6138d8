/** Whether people can use a page. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** No finding of axe that keeps somebody from using the page, and nothing that runs off its side. */
export async function assertUsable(page: Page): Promise<void> {
  await page.evaluate(AXE);
  const violations = await page.evaluate<Violation[]>("axe.run().then(({ violations }) => violations)");
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  assert.deepEqual(grave.map(({ id, nodes }) => ({ id, html: nodes.map(({ html }) => html) })), []);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(overflow, 0);
}
