import assert from "node:assert/strict";
import { test } from "node:test";

import { createWalletClient, http } from "viem";

import type { Page } from "playwright-core";

import { inboxAbi } from "@waybill/dapp";
import { problems } from "../../browser.ts";
import { assertUsable } from "../../usable.ts";
import { deployment, open, OWNER, PAUSED, PERSON, send, shot, shown, state, url } from "./stage.ts";

async function setClosed(closed: boolean): Promise<void> {
  const beta = deployment.chain("beta");
  const owner = createWalletClient({ account: OWNER, transport: http(beta.rpcUrls[0]) });
  await owner.writeContract({ chain: null, address: beta.examples.inbox!, abi: inboxAbi, functionName: "setClosed", args: [closed] });
}


test("a message appears in the open list by itself, and its page follows it to its execution", async () => {
  const { page, context, observed } = await open("/messages");
  const { id } = await send("Hello, beta", ["hyperlane", "wormhole"]);
  await page.locator(`a[href="/message/${id}"]`).click();
  await state(page, "EXECUTED");
  await page.locator(".timeline").getByText("Executed by the recipient").waitFor();
  await page.getByText("Hello, beta").waitFor();
  await page.locator(".preimage summary").click();
  await page.getByText("keccak256(payload)").waitFor();
  await assertUsable(page);
  await shot(page, "message");
  const allowed = [url, ...deployment.chains.map(({ rpcUrls }) => new URL(rpcUrls[0]!).origin)];
  assert.deepEqual([...observed.origins].filter((origin) => !allowed.includes(origin)), []);
  assert.deepEqual(observed.errors, []);
  await context.close();
  shown.executed = id;
});

test("a search for the transaction of a delivery leads to its message", async () => {
  const { page, context } = await open(`/message/${shown.executed}`);
  const delivery = await page.locator(".timeline li").last().locator("[data-copy]").getAttribute("data-copy");
  await page.getByLabel("Search").fill(delivery!);
  await page.getByLabel("Search").press("Enter");
  await page.waitForURL(`**/message/${shown.executed}`);
  await page.getByLabel("Search").fill(PERSON.address.toLowerCase());
  await page.getByRole("button", { name: "Find" }).click();
  await page.locator(`a[href="/message/${shown.executed}"]`).waitFor();
  await context.close();
});

test("a message whose GMP is silent is retried over another from its page, with the visitor's wallet, and executed", async () => {
  const sent = await send("Patience", [PAUSED]);
  const { page, context, observed } = await open(`/message/${sent.id}`);
  await state(page, "STALLED");
  await page.getByText(`waybill message retry ${sent.id} --gmps hyperlane`).waitFor();
  assert.deepEqual(await chunks(page), [], "what a wallet needs is not loaded for those who only look");
  await page.getByRole("button", { name: "Connect wallet" }).click();
  const retry = page.locator('[data-act="retry"]');
  await retry.getByLabel("hyperlane").uncheck();
  assert.ok((await chunks(page)).some((name) => name.includes("/explorer-acting-")));
  await retry.getByLabel("wormhole").check();
  await page.getByText(`waybill message retry ${sent.id} --gmps wormhole`, { exact: true }).waitFor();
  await retry.locator(".total").getByText(/free|ETH|wei/).waitFor();
  await page.waitForResponse((response) => response.url() === page.url());
  await page.waitForResponse((response) => response.url() === page.url());
  assert.ok(await retry.getByLabel("wormhole").isChecked(), "what a visitor chose stays while the page follows the message");
  await shot(page, "stalled");
  await assertUsable(page);
  await retry.getByRole("button", { name: "Retry over other GMPs" }).click();
  await page.locator(".timeline").getByText("Retry 1 over Wormhole").waitFor();
  await state(page, "EXECUTED");
  assert.equal(await page.locator("[data-act]").count(), 0);
  assert.deepEqual(problems(observed), []);
  const allowed = [url, ...deployment.chains.map(({ rpcUrls }) => new URL(rpcUrls[0]!).origin)];
  assert.deepEqual([...observed.origins].filter((origin) => !allowed.includes(origin)), []);
  await context.close();
});

test("a message that its recipient refused is executed from its page once it accepts", async () => {
  await setClosed(true);
  const { id } = await send("Knock knock", ["wormhole"]);
  const { page, context } = await open(`/message/${id}`);
  await state(page, "EXECUTION_FAILED");
  await page.locator(".reason").getByText("the recipient refused it: Closed").waitFor();
  await setClosed(false);
  await page.getByRole("button", { name: "Connect wallet" }).click();
  await page.locator('[data-act="execute"]').getByRole("button", { name: "Execute" }).click();
  await state(page, "EXECUTED");
  await context.close();
});

test("a payload full of markup is text, runs nothing, and is read with JavaScript off too", async () => {
  const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const { id } = await send(hostile, ["wormhole"]);
  const live = await open(`/message/${id}`);
  await state(live.page, "EXECUTED");
  assert.equal(await live.page.locator("pre.payload").textContent(), hostile);
  assert.equal(await live.page.locator("main img, main script").count(), 0);
  assert.notEqual(await live.page.title(), "owned");
  await live.context.close();
  const plain = await open(`/message/${id}`, { javaScriptEnabled: false });
  assert.equal(await plain.page.locator("pre.payload").textContent(), hostile);
  await plain.page.getByRole("link", { name: "Messages" }).click();
  await plain.page.locator("details.filters summary").click();
  await plain.page.locator('select[name="status"]').selectOption("EXECUTED");
  await plain.page.getByRole("button", { name: "Show" }).click();
  await plain.page.locator(`a[href="/message/${id}"]`).waitFor();
  await plain.context.close();
});

/** The chunks of the explorer's script that a page has loaded because a visitor wants to act. */
async function chunks(page: Page): Promise<string[]> {
  const loaded = await page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => name));
  return loaded.filter((name) => /\/explorer-(?!chunk-)/.test(name));
}
