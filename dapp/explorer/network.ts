/** The network's file for visitors, with public RPC URLs only; fetched once, on first use. */

let asked: Promise<string> | undefined;

export function networkText(): Promise<string> {
  asked ??= fetch("/network.json").then((answer) => answer.text());
  return asked;
}
