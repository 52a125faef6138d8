import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { test } from "node:test";

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL("../..", import.meta.url));

test("the built package is imported by plain Node, with types beside it", async () => {
  await run("npm", ["run", "--silent", "build"], { cwd: PACKAGE });
  const script = `
    import { existsSync } from "node:fs";
    import { fileURLToPath } from "node:url";
    import { formatInteroperable, Waybill } from "@waybill/dapp";
    const types = fileURLToPath(import.meta.resolve("@waybill/dapp")).replace(/\\.js$/, ".d.ts");
    console.log(typeof Waybill, formatInteroperable({ chainId: 1n, address: "0x" + "11".repeat(20) }), existsSync(types));`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { cwd: PACKAGE });
  assert.equal(stdout.trim(), `function 0x00010000010114${"11".repeat(20)} true`);
});

test("every TypeScript and React block of the README passes the type checker", async () => {
  const readme = await readFile(`${PACKAGE}README.md`, "utf8");
  const blocks = [...readme.matchAll(/^```(tsx?)\n([\s\S]*?)^```$/gm)].map((match) => [match[1]!, match[2]!] as const);
  assert.ok(blocks.length >= 6);
  // Below the package, so that its own name leads to it.
  const folder = `${PACKAGE}dist-readme/`;
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(`${folder}tsconfig.json`, JSON.stringify({ extends: "../tsconfig.json", compilerOptions: { jsx: "react-jsx" }, include: ["*"] }));
    await Promise.all(blocks.map(([language, block], index) => writeFile(`${folder}block-${index + 1}.${language}`, block)));
    await run(`${PACKAGE}node_modules/.bin/tsc`, ["--project", folder]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
