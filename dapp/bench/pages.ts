/** How long pages take in Chromium until something is painted: `node … bench/pages.ts URL PATH…`, as JSON by path. */

import { launchChromium } from "../test/browser.ts";

const TRIES = 5;

const [url, ...paths] = process.argv.slice(2);
const browser = await launchChromium();
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const painted: Record<string, number[]> = {};
  for (const path of paths) {
    painted[path] = [];
    for (let time = 0; time < TRIES; time += 1) {
      await page.goto(`${url}${path}`);
      const entry = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
      painted[path].push((await entry.jsonValue()) as number);
    }
  }
  console.log(JSON.stringify(painted));
} finally {
  await browser.close();
}
