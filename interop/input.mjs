// A test hands over what it knows as JSON on standard input, and reads a JSON object from standard output.
import { readFileSync } from 'node:fs';

export const input = JSON.parse(readFileSync(0, 'utf8'));

export function answer(value) {
  process.stdout.write(`${JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? one.toString() : one))}\n`);
  process.exit(0); // clients leave timers and connections behind
}

// Standard output is for the answer.
export const quiet = { debug() {}, info() {}, warn: console.error, error: console.error, log: console.error };
