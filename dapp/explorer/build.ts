/** `npm run explorer`: bundles the explorer's script into bridge/web/static, where the explorer serves it from. */

import { fileURLToPath } from "node:url";

import { build } from "esbuild";

await build({
  entryPoints: [fileURLToPath(new URL("main.ts", import.meta.url))],
  outfile: fileURLToPath(new URL("../../bridge/web/static/explorer.js", import.meta.url)),
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  conditions: ["source"],
  legalComments: "linked",
  logLevel: "warning",
});
