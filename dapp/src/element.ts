/** `<waybill-message message-id="0x…" network="network.json">`: shows a message's state in any page. */

import type { Requester } from "./chains.ts";
import { Deployment, DeploymentError } from "./deployment.ts";
import { WaybillError } from "./errors.ts";
import { gmpTitle } from "./gmps.ts";
import type { GmpProgress } from "./progress.ts";
import { reasonOf } from "./reverts.ts";
import { FollowedMessage, LOOKING, type MessageStatus } from "./status.ts";
import { connectWallet, type Wallet } from "./wallets.ts";
import { Waybill } from "./waybill.ts";

/** Colours have contrast on the element's own background, whatever the page's background. There are no animations. */
const STYLE = `
:host {
  color-scheme: light dark;
  --text: var(--waybill-text, light-dark(#1c2024, #e8eaed));
  --quiet: var(--waybill-quiet, light-dark(#54595f, #a8b0b8));
  --background: var(--waybill-background, light-dark(#ffffff, #16191d));
  --border: var(--waybill-border, light-dark(#c5cad0, #454c54));
  --accent: var(--waybill-accent, light-dark(#0b57d0, #a8c7fa));
  --on-accent: var(--waybill-on-accent, light-dark(#ffffff, #10233f));
  --problem: var(--waybill-problem, light-dark(#a8071a, #ffb4ab));
  display: block;
  font: var(--waybill-font, 1rem/1.5 system-ui, sans-serif);
}
:host([hidden]), [hidden] { display: none; }
section {
  box-sizing: border-box;
  padding: 1em;
  border: 1px solid var(--border);
  border-radius: var(--waybill-radius, 0.5em);
  color: var(--text);
  background: var(--background);
  overflow-wrap: anywhere;
}
p, ul { margin: 0.25em 0 0; padding: 0; list-style: none; }
ul, .count { color: var(--quiet); }
.state { display: block; font-weight: 600; }
.state::first-letter { text-transform: uppercase; }
.problem { color: var(--problem); }
button {
  min-height: 2.75em;
  margin-top: 0.75em;
  padding: 0 1em;
  border: 1px solid transparent;
  border-radius: var(--waybill-radius, 0.5em);
  color: var(--on-accent);
  background: var(--accent);
  font: inherit;
  cursor: pointer;
}
button[aria-disabled="true"] { opacity: 0.7; cursor: progress; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
`;

/** The element's events, with what they carry as `detail`. */
export interface WaybillMessageEvents {
  /** The message's progress changed. */
  "waybill-progress": CustomEvent<NonNullable<MessageStatus["progress"]>>;
  /** The message can't be followed, or a retry was not sent. */
  "waybill-error": CustomEvent<Error>;
}

/** A server that renders pages has no HTMLElement; importing this module there does nothing. */
const Base = globalThis.HTMLElement ?? (Object as unknown as typeof HTMLElement);

/**
 * Shows a message's state, its reason, and what each GMP delivered, and offers a retry where one helps.
 *
 * Attributes: `message-id`; `network`, the address of a deployments file or its JSON; `stall-after`, in seconds. Parts for
 * `::part`: `message`, `state` (with the state's own name, such as `STALLED`), `reason`, `count`, `gmps`, `gmp`, `problem`,
 * `retry`. Events: {@link WaybillMessageEvents}.
 */
export class WaybillMessageElement extends Base {
  static readonly observedAttributes = ["message-id", "network", "stall-after"];
  readonly #view = new View(() => void this.#retry());
  #wallet: Wallet | undefined;
  #provider: Requester | undefined;
  #following = new AbortController();
  #followed: FollowedMessage | undefined;
  #deployment: Deployment | undefined;
  #status = LOOKING;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet(); // unlike a style element, no page's policy refuses it
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    root.append(this.#view.root);
    for (const name of ["wallet", "provider"] as const) {
      if (!Object.hasOwn(this, name)) continue; // set by the page before this class was there
      const value = this[name];
      delete this[name];
      this[name] = value as never;
    }
  }

  /** Signs a retry. Without a wallet or `provider`, the element offers no retry. */
  get wallet(): Wallet | undefined {
    return this.#wallet;
  }

  set wallet(wallet: Wallet | undefined) {
    this.#wallet = wallet;
    this.#render();
  }

  /** A wallet in the browser (EIP-1193), such as `window.ethereum`. A press of the retry button requests an account from it. */
  get provider(): Requester | undefined {
    return this.#provider;
  }

  set provider(provider: Requester | undefined) {
    this.#provider = provider;
    this.#render();
  }

  connectedCallback(): void {
    this.#restart();
  }

  disconnectedCallback(): void {
    this.#following.abort();
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.#restart();
  }

  #restart(): void {
    this.#following.abort();
    this.#following = new AbortController();
    this.#followed = undefined;
    this.#change(LOOKING);
    void this.#follow(this.#following.signal);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    await undefined; // attributes that a page sets one after another start one search
    if (signal.aborted) return;
    try {
      const stallAfter = seconds(this.getAttribute("stall-after"));
      this.#deployment = await networkOf(this.getAttribute("network") ?? "", this.baseURI, signal);
      const show = (status: MessageStatus): void => void (signal.aborted || this.#change(status));
      this.#followed = new FollowedMessage(new Waybill(this.#deployment), this.getAttribute("message-id") ?? "", show);
      await this.#followed.follow({ signal, ...(stallAfter !== undefined && { stallAfter }) });
    } catch (error) {
      if (!signal.aborted) this.#change({ ...LOOKING, error: error as Error });
    }
  }

  async #retry(): Promise<void> {
    await this.#followed?.retry(async () => {
      const wallet = this.#wallet ?? (await connectWallet(this.#provider!));
      return new Waybill(this.#deployment!, { wallet });
    });
  }

  #change(status: MessageStatus): void {
    const before = this.#status;
    this.#status = status;
    this.#render();
    if (status.progress && status.progress !== before.progress) this.#tell("waybill-progress", status.progress);
    if (status.error && status.error.message !== before.error?.message) this.#tell("waybill-error", status.error);
  }

  #tell(name: keyof WaybillMessageEvents, detail: unknown): void {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }

  #render(): void {
    this.#view.show(this.getAttribute("message-id") ?? "", this.#status, Boolean(this.#wallet ?? this.#provider));
  }
}

/** Renders the element, with plain text only, because reasons come from untrusted contracts. */
class View {
  readonly #state = made("strong", "state");
  readonly #reason = made("p", "reason");
  readonly #count = made("p", "count");
  readonly #gmps = made("ul", "gmps");
  readonly #problem = made("p", "problem");
  readonly #button = made("button", "retry");
  readonly root = made("section", "message");

  constructor(retry: () => void) {
    const status = made("div", "status");
    status.setAttribute("role", "status");
    status.append(this.#state, this.#reason, this.#count);
    this.#problem.setAttribute("role", "alert");
    this.#gmps.setAttribute("role", "list"); // which it is not to every reader once it has no bullets
    this.#gmps.setAttribute("aria-label", "GMPs");
    this.#button.type = "button";
    this.#button.addEventListener("click", retry);
    this.root.tabIndex = -1;
    this.root.setAttribute("role", "group");
    this.root.append(status, this.#gmps, this.#problem, this.#button);
  }

  show(id: string, { progress, error, retryOver, isRetrying }: MessageStatus, canSign: boolean): void {
    const state = progress?.state ?? (error ? "" : "LOOKING");
    this.root.setAttribute("aria-label", `Message ${id.length > 20 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id}`);
    this.#state.part.value = `state ${state}`;
    say(this.#state, state.replaceAll("_", " ").toLowerCase());
    say(this.#reason, progress?.reason ?? "");
    say(this.#count, progress ? `${progress.receipts} of ${progress.quorum} delivered` : "");
    say(this.#problem, [...(error ? [reasonOf(error)] : []), ...(progress?.problems ?? [])].join("; "));
    this.#gmps.hidden = !progress?.gmps.length;
    this.#gmps.replaceChildren(...(progress?.gmps ?? []).map(gmpItem));
    this.#offer(canSign && retryOver.length > 0, `Retry over ${retryOver.map(gmpTitle).join(" and ")}`, isRetrying);
  }

  #offer(isOffered: boolean, label: string, isBusy: boolean): void {
    const hadFocus = (this.root.getRootNode() as ShadowRoot).activeElement === this.#button;
    this.#button.hidden = !isOffered;
    this.#button.setAttribute("aria-disabled", String(isBusy)); // the attribute disabled would take its focus away
    if (isOffered) say(this.#button, isBusy ? `${label}…` : label);
    if (hadFocus && !isOffered) this.root.focus(); // or a keyboard would start at the page's top again
  }
}

function gmpItem({ gmp, attempts, failure, receipt, counts }: GmpProgress): HTMLLIElement {
  const item = made("li", "gmp");
  const sent = attempts.length > 0 ? "no delivery yet" : `refused: ${failure ?? "not sent"}`;
  say(item, `${gmpTitle(gmp)}: ${counts ? "delivered" : receipt ? "delivered, void since" : sent}`);
  return item;
}

function made<K extends keyof HTMLElementTagNameMap>(tag: K, name: string): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  element.className = name;
  element.part.value = name;
  return element;
}

/** Sets a text only if it has changed, because a screen reader reads out every change of a live region. */
function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
  if (element.localName === "p") element.hidden = text === "";
}

function seconds(text: string | null): number | undefined {
  if (text === null) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  throw new WaybillError(`stall-after ${JSON.stringify(text)} is not a whole number of seconds`);
}

/** The network in the attribute: the JSON itself, or its URL. */
async function networkOf(value: string, base: string, signal: AbortSignal): Promise<Deployment> {
  const text = value.trim();
  if (text.startsWith("{")) return Deployment.parse(text, "the attribute network");
  if (!text) throw new DeploymentError("the attribute network is missing: set it to the URL of a deployments file, or to its JSON");
  if (!URL.canParse(text, base)) throw new DeploymentError(`network ${JSON.stringify(text)} is not the URL of a deployments file`);
  const { href } = new URL(text, base);
  const response = await fetch(href, { signal }).catch((error: unknown) => {
    throw new DeploymentError(`network ${href} can't be read: ${reasonOf(error)}; check the URL, and that the page's content security policy allows it`);
  });
  if (!response.ok) throw new DeploymentError(`network ${href} can't be read: HTTP ${response.status}; check the address`);
  return Deployment.parse(await response.text(), href);
}

globalThis.customElements?.get("waybill-message") ?? globalThis.customElements?.define("waybill-message", WaybillMessageElement);

declare global {
  interface HTMLElementTagNameMap {
    "waybill-message": WaybillMessageElement;
  }
}
