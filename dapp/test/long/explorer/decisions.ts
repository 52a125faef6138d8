import assert from "node:assert/strict";
import { test } from "node:test";

import type { Page } from "playwright-core";
import { createWalletClient, http } from "viem";

import { type Gmp, GMP_NUMBERS, Kind, routerAbi } from "@waybill/dapp";
import { assertUsable } from "../../usable.ts";
import { deployment, eventually, open, OWNER, PERSON, prologues, send, shot, state, url } from "./stage.ts";

/** The GMP of which beta takes nothing while the tests before these run. */
const REFUSED: Gmp = "layerzero";

/** Paths of the letters of three messages that beta refuses to take from one GMP until their tries are spent. */
export const letters: string[] = [];

prologues.push(async () => {
  await setPaused(REFUSED, true);
  for (const text of ["again", "upwards", "never"]) {
    const { id } = await send(text, [REFUSED], { kind: Kind.GOVERNANCE_VOTE, ttl: 3_600 });
    letters.push(`/dead-letters/${id}/${REFUSED}/0`);
  }
});

/** Has beta refuse what a GMP delivers for an hour, or ends that. */
async function setPaused(gmp: Gmp, paused: boolean): Promise<void> {
  const { router, rpcUrls } = deployment.chain("beta");
  const owner = createWalletClient({ account: OWNER, transport: http(rpcUrls[0]) });
  const call = { chain: null, address: router, abi: routerAbi } as const;
  const until = Math.floor(Date.now() / 1000) + 3_600;
  if (paused) await owner.writeContract({ ...call, functionName: "pauseGmp", args: [GMP_NUMBERS[gmp], until] });
  else await owner.writeContract({ ...call, functionName: "endGmpPause", args: [GMP_NUMBERS[gmp]] });
}

/** Connects the wallet and takes a decision, with its reason; the page then shows both. */
async function decide(page: Page, act: string, button: string): Promise<void> {
  await page.getByRole("button", { name: "Connect wallet" }).click();
  const offered = page.locator(`[data-act="${act}"]`);
  await offered.getByLabel("Why").fill(`because of ${act}`);
  await assertUsable(page);
  await shot(page, "letter");
  await offered.getByRole("button", { name: button }).click();
  await page.locator('section[aria-label="History"]').getByText(`because of ${act}`).waitFor();
}

test("an operator's wallet requeues a dead letter, and its message arrives", async () => {
  for (const letter of letters) await eventually(`a letter at ${letter}`, async () => (await fetch(`${url}${letter}`)).ok);
  await setPaused(REFUSED, false);
  const { page, context, observed } = await open(letters[0]!, { account: OWNER });
  await state(page, "PENDING_REVIEW");
  await decide(page, "requeue", "Requeue");
  await eventually("the letter recovered", async () => {
    await page.reload();
    return (await page.locator('[data-state="RECOVERED"]').count()) > 0;
  });
  assert.equal(await page.locator("[data-act]").count(), 0);
  assert.deepEqual(observed.errors, []);
  await context.close();
});

test("an operator's wallet escalates a dead letter by a message to governance, and it stays open", async () => {
  const { page, context, observed } = await open(letters[1]!, { account: OWNER });
  await decide(page, "escalate", "Escalate");
  await state(page, "PENDING_REVIEW");
  assert.deepEqual(observed.errors, []);
  await context.close();
});

test("an operator's wallet abandons a dead letter for good", async () => {
  const { page, context, observed } = await open("/dead-letters", { account: OWNER });
  await page.locator(`a[href="${letters[2]}"]`).click();
  await decide(page, "abandon", "Abandon");
  await state(page, "ABANDONED");
  assert.equal(await page.locator("[data-act]").count(), 0);
  assert.deepEqual(observed.errors, []);
  await context.close();
});

test("whoever is no operator is refused and told so, and nothing is decided", async () => {
  const { page, context } = await open(letters[1]!);
  await page.getByText(`waybill dlq decide ${letters[1]!.replace("/dead-letters/", "")} abandon`).waitFor();
  await page.getByRole("button", { name: "Connect wallet" }).click();
  const abandon = page.locator('[data-act="abandon"]');
  await abandon.getByRole("button", { name: "Abandon" }).click();
  await abandon.getByText("say why").waitFor();
  await abandon.getByLabel("Why").fill("I would rather not");
  await abandon.getByRole("button", { name: "Abandon" }).click();
  await abandon.getByText(`account ${PERSON.address} is not an operator on chain`).waitFor();
  await page.reload();
  await state(page, "PENDING_REVIEW");
  await context.close();
});
