import { chromium } from "playwright-core";
const browser = await chromium.launch({ executablePath: "/tmp/wt/web/build/tools/chromium/chromium", args: ["--no-sandbox","--disable-gpu","--disable-background-networking"] });
for (const arg of process.argv.slice(2)) {
  const [name, width, height, path, scheme] = arg.split("|");
  const page = await browser.newPage({ viewport: { width: +width, height: +height }, colorScheme: scheme ?? "light" });
  page.on("console", (m) => m.type() === "error" && console.log(name, m.text()));
  await page.goto("http://127.0.0.1:8099" + path, { waitUntil: "load" });
  await page.waitForTimeout(700);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const cut = await page.evaluate(() => [...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.getAttribute("aria-label") + " +" + (e.scrollWidth - e.clientWidth)));
  console.log(name, "overflow", wide, cut.join("; "));
  await page.screenshot({ path: `/tmp/demo/${name}.png`, fullPage: true });
  await page.close();
}
await browser.close();
