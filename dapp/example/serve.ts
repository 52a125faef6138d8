/** `npm run example -- --deployments ../deployments/devnet.json`: serves the example page for a network. */

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { Deployment } from "@waybill/dapp";
import { serveExample } from "./server.ts";

const USAGE = `usage: npm run example -- --deployments FILE [--port 5173] [--stall-after 60]

  --deployments  the network, as written by \`waybill devnet up\` or \`waybill deploy\`
  --port         where the page is served on this machine; 0 takes a free port
  --stall-after  seconds after which a message that lacks deliveries is called stalled`;

function wholeNumber(text: string, option: string): number {
  if (/^\d+$/.test(text)) return Number(text);
  throw new Error(`--${option} ${text} is not a whole number`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      deployments: { type: "string" },
      port: { type: "string", default: "5173" },
      "stall-after": { type: "string", default: "60" },
    },
  });
  if (!values.deployments) throw new Error("--deployments is missing");
  const file = readFileSync(values.deployments, "utf8");
  const example = await serveExample({
    file,
    deployment: Deployment.parse(file, values.deployments),
    port: wholeNumber(values.port, "port"),
    stallAfter: wholeNumber(values["stall-after"], "stall-after"),
  });
  console.log(`The example dApp is at ${example.url}. Ctrl-C ends it.`);
}

main().catch((error: unknown) => {
  console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
  process.exitCode = 2;
});
