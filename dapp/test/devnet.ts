/** The real thing: `waybill devnet up` with the real GMPs, and the relayer, in a folder of their own. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createWriteStream, existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const COMMAND = fileURLToPath(new URL("../../.venv/bin/waybill", import.meta.url));
const START_SECONDS = 180;
const run = promisify(execFile);

export interface Devnet {
  /** The deployments file's content. */
  readonly file: string;
  stop(): Promise<void>;
}

/** Starts two chains, deploys everything, and relays over all GMPs but one. */
export async function startDevnet(pausedGmp: string): Promise<Devnet> {
  if (!existsSync(COMMAND)) throw new Error(`${COMMAND} is missing; run \`make setup\``);
  const home = await mkdtemp(join(tmpdir(), "waybill-dapp-"));
  const environment = { ...process.env, WAYBILL_HOME: home };
  const waybill = (...options: string[]) => run(COMMAND, options, { env: environment, timeout: START_SECONDS * 1000 });
  let relayer: ChildProcess | undefined;
  const stop = async (): Promise<void> => {
    if (relayer) await ended(relayer);
    await waybill("devnet", "down");
    await rm(home, { recursive: true, force: true });
  };
  try {
    await waybill("devnet", "up", "--port", String(await twoFreePorts()), "--block-time", "1");
    const log = createWriteStream(join(home, "relayer.log"));
    relayer = spawn(COMMAND, ["relayer", "run", "--pause-gmp", pausedGmp], { env: environment, stdio: ["ignore", "pipe", "pipe"] });
    relayer.stdout!.pipe(log);
    relayer.stderr!.pipe(log);
    return { file: readFileSync(join(home, "deployments", "devnet.json"), "utf8"), stop };
  } catch (error) {
    await stop().catch(() => undefined);
    throw error;
  }
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    const hard = setTimeout(() => child.kill("SIGKILL"), 20_000);
    child.once("exit", () => {
      clearTimeout(hard);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

/** A free port whose successor is free too. */
async function twoFreePorts(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 20_000);
    if ((await isFree(port)) && (await isFree(port + 1))) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
