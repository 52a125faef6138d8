import assert from "node:assert/strict";
import { test } from "node:test";

import { problems } from "../../browser.ts";
import { assertUsable } from "../../usable.ts";
import { letters } from "./decisions.ts";
import { open, shot, shown, url } from "./stage.ts";

for (const [what, width, colorScheme] of [
  ["phone-dark", 360, "dark"],
  ["wide-light", 1366, "light"],
  ["wide-dark", 1366, "dark"],
] as const) {
  test(`nothing runs off the side and nothing is hard to read on any page: ${what}`, async () => {
    const { page, context, observed } = await open("/", { viewport: { width, height: 800 }, colorScheme });
    const pages = {
      home: "/",
      messages: "/messages",
      message: `/message/${shown.executed}`,
      lanes: "/lanes",
      gmps: "/gmps",
      status: "/status",
      "dead-letters": "/dead-letters",
      "dead-letter": letters[1]!,
      faults: "/faults",
      search: "/search?q=nothing",
      nowhere: "/nowhere",
    };
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(`${url}${path}`);
      await assertUsable(page);
      await shot(page, `${name}-${what}`);
    }
    assert.deepEqual(problems(observed), []);
    await context.close();
  });
}

test("the first stop of the keyboard skips to the content, and the search is reached without a mouse", async () => {
  const { page, context } = await open("/lanes");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Skip to the content");
  for (let presses = 0; presses < 10; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement?.id === "q")) break;
  }
  await page.keyboard.type(shown.executed);
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/message/${shown.executed}`);
  await context.close();
});
