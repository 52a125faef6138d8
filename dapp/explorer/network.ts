/** The deployments file as visitors' browsers may have it, with the public RPC URLs only; asked for once, when needed. */

let asked: Promise<string> | undefined;

export function networkText(): Promise<string> {
  asked ??= fetch("/network.json").then((answer) => answer.text());
  return asked;
}
