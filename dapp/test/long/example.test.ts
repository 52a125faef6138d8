import assert from "node:assert/strict";
import { test } from "node:test";

import { stringToHex } from "viem";
import { network, example, page, wallet, observed, connect, send, composed, stateOf, shot, assertAccessible } from "../example-page.ts";

test("a message whose time has run out is marked as expired on the page", async () => {
  await connect();
  await composed().getByLabel("Expires").selectOption("in an hour");
  const { card } = await send("Too late");
  await network.pass(3_700);
  await stateOf(card, "EXPIRED");
  await card.getByText("its time to live of 3600 s has run out").waitFor();
  await card.getByRole("button", { name: "Mark as expired" }).click();
  await card.getByText("beta marked it expired").waitFor();
  assert.equal(await card.getByRole("button", { name: "Mark as expired" }).count(), 0);
  await assertAccessible();
});

test("a message that was sent without its fee is paid for on the page, and executed", async () => {
  await network.setFee("hyperlane", 2_000_000_000_000_000n);
  const { hash, found } = await network.sendUnfunded(stringToHex("On account"), ["hyperlane"]);
  await connect();
  const search = page.getByLabel("Message id, or a transaction on either chain");
  await search.fill(hash);
  await search.press("Enter");
  const card = page.locator("article.message").filter({ hasText: "On account" });
  await stateOf(card, "UNFUNDED");
  await card.getByText("Fees for Hyperlane: 0.002 ETH. Anyone may pay.").waitFor();
  await card.getByRole("button", { name: "Fund it" }).click();
  await stateOf(card, "ROUTED");
  await network.deliver(found.message, "hyperlane");
  await stateOf(card, "EXECUTED");
});

test("a payload full of markup is shown as text and runs nothing", async () => {
  await connect();
  const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const { card } = await send(hostile);
  assert.equal(await card.locator("blockquote").textContent(), hostile);
  assert.equal(await card.locator("img, script").count(), 0);
  assert.notEqual(await page.title(), "owned");
});

test("a person who declines in the wallet is told that nothing was sent, and can try again", async () => {
  await connect();
  wallet.declinesNext = true;
  await composed().getByRole("button", { name: "Send message" }).click();
  await page.getByText("declined in the wallet: route; nothing was sent").waitFor();
  await send("Second thoughts");
});

test("messages stay after a reload, and others are found by id and by transaction", async () => {
  await connect();
  const { message, card } = await send("Remember me", ["axelar"]);
  const id = await card.getAttribute("id");
  const delivery = await network.deliver(message, "axelar");
  await page.reload();
  await stateOf(page.locator(`[id="${id}"]`), "EXECUTED");

  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await page.getByText("Nothing sent yet").waitFor();
  const search = page.getByLabel("Message id, or a transaction on either chain");
  await search.fill("hello");
  await search.press("Enter");
  await page.getByText('"hello" is not 0x and 64 hex digits').waitFor();
  await search.fill(delivery);
  await search.press("Enter");
  await stateOf(page.locator(`[id="${id}"]`), "EXECUTED");
});

test("the page is sent with the keyboard alone", async () => {
  await connect();
  await page.getByLabel("Text").focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.type("No mouse");
  const send = composed().getByRole("button", { name: "Send message" });
  for (let presses = 0; presses < 12 && !(await send.evaluate((button) => button === document.activeElement)); presses += 1) {
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await page.locator("article.message").filter({ hasText: "No mouse" }).waitFor();
});

for (const [what, width, colorScheme] of [
  ["phone-dark", 360, "dark"],
  ["phone-light", 360, "light"],
  ["wide-dark", 1280, "dark"],
] as const) {
  test(`nothing runs off the side and nothing is hard to read: ${what}`, async () => {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await connect();
    const { message, card } = await send(`On a ${what} screen`);
    await network.deliver(message, "axelar");
    await stateOf(card, "RECEIVED");
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(overflow, 0);
    await assertAccessible();
    await shot(what);
  });
}

test("the page speaks to its own server and its chains only, without an error, under a strict policy", async () => {
  await connect();
  await send("Quietly");
  const allowed = [new URL(example.url).origin, network.alpha.anvil.url, network.beta.anvil.url];
  assert.deepEqual([...observed.origins].filter((origin) => !allowed.includes(origin)), []);
  assert.deepEqual(observed.errors, []);
  const policy = (await fetch(example.url)).headers.get("content-security-policy") ?? "";
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.doesNotMatch(policy, /unsafe|\*/);
});
