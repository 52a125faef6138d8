/** Real anvil chains on free ports, ended with the test that started them. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const BINARY = fileURLToPath(new URL("../../build/tools/bin/anvil", import.meta.url));
const START_SECONDS = 300;

export interface Anvil {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts a chain. Blocks come with transactions only: how many there are, and when, is the test's. */
export async function startAnvil(chainId: number): Promise<Anvil> {
  if (!existsSync(BINARY)) throw new Error(`${BINARY} is missing; run \`make setup\``);
  const states = mkdtempSync(join(tmpdir(), "waybill-anvil-")); // else anvil puts them into the user's home, and leaves them there
  const options = ["--port", "0", "--chain-id", String(chainId), "--slots-in-an-epoch", "1", "--accounts", "4", "--cache-path", states];
  const child = spawn(BINARY, options, { stdio: ["ignore", "pipe", "inherit"] });
  const kill = (): void => {
    child.kill("SIGKILL");
    rmSync(states, { recursive: true, force: true });
  };
  process.once("exit", kill);
  try {
    const address = await listeningAddress(child);
    return {
      url: `http://${address}`,
      stop: async () => {
        process.off("exit", kill);
        await ended(child);
        rmSync(states, { recursive: true, force: true });
      },
    };
  } catch (error) {
    kill();
    throw error;
  }
}

async function listeningAddress(child: ChildProcess): Promise<string> {
  const lines = createInterface({ input: child.stdout! });
  const timer = setTimeout(() => child.kill("SIGKILL"), START_SECONDS * 1000);
  try {
    for await (const line of lines) {
      const found = /Listening on (\S+)/.exec(line);
      if (found) {
        child.stdout!.resume(); // a full pipe would stop the chain
        return found[1]!;
      }
    }
  } finally {
    clearTimeout(timer);
  }
  throw new Error(`anvil ended, or was not listening after ${START_SECONDS} s`);
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", () => resolve());
    child.kill("SIGTERM");
  });
}
