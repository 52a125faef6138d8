/** Three ways through a real browser: send and deliver, stall and retry, refuse and execute. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { stringToHex } from "viem";
import { inboxAbi } from "@waybill/dapp";
import { STALL_AFTER, network, page, connect, send, composed, stateOf, shot, assertAccessible } from "./example-page.ts";

test("a person connects, sees the fee, sends, watches both GMPs deliver, and the message is executed", async () => {
  await network.setFee("hyperlane", 2_000_000_000_000_000n);
  await network.setFee("axelar", 1_000_000_000_000_000n);
  await page.reload();
  await connect();
  await composed().getByText("0.003 ETH").waitFor();
  await shot("compose");
  const { message, card } = await send("Hello, beta");
  await stateOf(card, "ROUTED");
  await network.deliver(message, "hyperlane");
  await stateOf(card, "RECEIVED");
  await card.getByText("1 of 2 delivered; waiting for Axelar").waitFor();
  await network.deliver(message, "axelar");
  await stateOf(card, "EXECUTED");
  await network.pass(1);
  await card.getByText("the recipient on beta has it", { exact: true }).waitFor();
  assert.equal(await card.locator("tbody tr.counts").count(), 2);
  assert.deepEqual(await card.locator(".timeline li > span:first-of-type").allTextContents(), [
    "Sent over Hyperlane, Axelar",
    "Hyperlane delivered: 1 of 2",
    "Axelar delivered: 2 of 2",
    "Executed by the recipient",
  ]);
  const payload = await network.beta.client.readContract({ address: network.beta.inbox, abi: inboxAbi, functionName: "lastPayload" });
  assert.equal(payload, stringToHex("Hello, beta"));
  await shot("executed");
  await assertAccessible();
});

test("a message that stalls is retried over another GMP and executed, all on the page", async () => {
  await connect();
  const { message, card } = await send("Patience");
  await network.deliver(message, "hyperlane");
  await stateOf(card, "RECEIVED");
  await network.pass(STALL_AFTER + 5);
  await stateOf(card, "STALLED");
  await card.getByText(/no delivery from Axelar/).waitFor();
  assert.equal(await card.getByLabel("wormhole").isChecked(), true);
  assert.equal(await card.getByLabel("axelar").isChecked(), false);
  await card.locator(".total").getByText("free").waitFor();
  await shot("stalled");
  await assertAccessible();
  await card.getByRole("button", { name: "Retry" }).click();
  await card.getByText("Retry 1 over Wormhole").waitFor();
  await network.deliver(message, "wormhole");
  await stateOf(card, "EXECUTED");
  await network.deliver(message, "axelar"); // late
  await card.getByText("Axelar delivered: 3, more than the 2 needed").waitFor();
  await shot("retried");
});

test("a recipient that refuses is shown with its reason, and the page executes the message once it accepts", async () => {
  await connect();
  await network.setClosed(true);
  const { message, card } = await send("Knock knock", ["axelar"]);
  await network.deliver(message, "axelar");
  await stateOf(card, "EXECUTION_FAILED");
  await card.getByText("the recipient refused: Closed()", { exact: true }).waitFor();
  await network.setClosed(false);
  await card.getByRole("button", { name: "Execute" }).click();
  await stateOf(card, "EXECUTED");
});
