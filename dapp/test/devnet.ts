/** The real thing: `waybill devnet up` with the real GMPs, and the relayer, in a folder of their own. */

import { type ChildProcess, execFile, spawn, spawnSync } from "node:child_process";
import { createWriteStream, existsSync, readFileSync, rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const COMMAND = fileURLToPath(new URL("../../.venv/bin/waybill", import.meta.url));
const START_SECONDS = 300;
const ENDINGS = ["SIGINT", "SIGTERM"] as const;
const run = promisify(execFile);

export interface Devnet {
  /** The deployments file's content. */
  readonly file: string;
  /** Starts another `waybill` command that runs until the devnet stops, and waits for what it says. */
  start(options: readonly string[], said: RegExp): Promise<RegExpExecArray>;
  /** Runs a `waybill` command to its end; what it prints. */
  run(...options: string[]): Promise<string>;
  stop(): Promise<void>;
}

/** Starts two chains, deploys everything, and relays over all GMPs but one. */
export async function startDevnet(pausedGmp: string): Promise<Devnet> {
  if (!existsSync(COMMAND)) throw new Error(`${COMMAND} is missing; run \`make setup\``);
  const home = await mkdtemp(join(tmpdir(), "waybill-dapp-"));
  const environment = { ...process.env, WAYBILL_HOME: home };
  const waybill = (...options: string[]) => run(COMMAND, options, { env: environment, timeout: START_SECONDS * 1000 });
  const running: ChildProcess[] = [];
  const launch = (options: readonly string[]): ChildProcess => {
    const child = spawn(COMMAND, options, { env: environment, stdio: ["ignore", "pipe", "pipe"] });
    const log = createWriteStream(join(home, `${options[0]}.log`));
    child.stdout!.pipe(log);
    child.stderr!.pipe(log);
    running.push(child);
    return child;
  };
  // Chains outlive whoever starts them, so a test that is interrupted has to end them.
  const interrupted = (): never => {
    for (const child of running) child.kill("SIGKILL");
    spawnSync(COMMAND, ["devnet", "down"], { env: environment });
    rmSync(home, { recursive: true, force: true });
    process.exit(130);
  };
  for (const signal of ENDINGS) process.once(signal, interrupted);
  const stop = async (): Promise<void> => {
    for (const signal of ENDINGS) process.off(signal, interrupted);
    await Promise.all(running.map(ended));
    await waybill("devnet", "down");
    await rm(home, { recursive: true, force: true });
  };
  try {
    await waybill("devnet", "up", "--port", String(await twoFreePorts()), "--block-time", "1");
    launch(["relayer", "run", "--pause-gmp", pausedGmp]);
    return {
      file: readFileSync(join(home, "deployments", "devnet.json"), "utf8"),
      start: (options, said) => hasSaid(launch(options), said),
      run: async (...options) => (await waybill(...options)).stdout,
      stop,
    };
  } catch (error) {
    await stop().catch(() => undefined);
    throw error;
  }
}

/** Waits until a child has written something to its standard error. */
function hasSaid(child: ChildProcess, said: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stderr!.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      const found = said.exec(text);
      if (found) resolve(found);
    });
    child.once("exit", (code) => reject(new Error(`${child.spawnargs.join(" ")} ended with ${code}:\n${text}`)));
  });
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
