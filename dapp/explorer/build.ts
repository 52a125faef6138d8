/**
 * `npm run explorer`: bundles the explorer's scripts into bridge/web/static, where the explorer serves them from. Pages load
 * explorer.js; what a connected wallet needs is in chunks beside it, whose names change with their content.
 */

import { readdir, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { build, type BuildResult } from "esbuild";

const STATIC = fileURLToPath(new URL("../../bridge/web/static/", import.meta.url));

export function bundle(outdir: string): Promise<BuildResult<{ metafile: true }>> {
  return build({
    entryPoints: { explorer: fileURLToPath(new URL("main.ts", import.meta.url)) },
    outdir,
    chunkNames: "explorer-[name]-[hash]",
    bundle: true,
    splitting: true,
    metafile: true,
    minify: true,
    format: "esm",
    target: "es2022",
    conditions: ["source"],
    legalComments: "linked",
    logLevel: "warning",
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const old = (await readdir(STATIC)).filter((name) => /^explorer.*\.js/.test(name));
  await Promise.all(old.map((name) => rm(`${STATIC}${name}`)));
  await bundle(STATIC);
}
