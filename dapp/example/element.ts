/** Building the page: elements with text, never with markup, because payloads and reasons come from strangers. */

import { type Gmp, gmpTitle } from "@waybill/dapp";

type Child = Node | string | undefined | false;

/** An element with properties (`className`, `onclick`, …), `aria-…` attributes and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Readonly<Record<string, unknown>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") made.setAttribute(name, String(value));
    else (made as unknown as Record<string, unknown>)[name] = value;
  }
  made.append(...children.filter((child) => child !== undefined && child !== false));
  return made;
}

/** A GMP's mark and name, as the stylesheet has them. */
export function gmpMark(gmp: Gmp): HTMLElement {
  return element("span", { className: `gmp ${gmp}` }, gmpTitle(gmp));
}

/** The element of the page with that id. */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element #${id}`);
  return found;
}

/** Runs what a button is for: once at a time, with the button busy, and with what went wrong beside it. */
export function whenPressed(button: HTMLButtonElement, problem: HTMLElement, action: () => Promise<void>): void {
  const label = button.textContent;
  button.addEventListener("click", () => {
    if (button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    button.textContent = `${label}…`;
    problem.textContent = "";
    action()
      .catch((error: unknown) => (problem.textContent = error instanceof Error ? error.message : String(error)))
      .finally(() => {
        button.removeAttribute("aria-busy");
        button.textContent = label;
      });
  });
}

/** Where {@link whenPressed} says what went wrong. */
export function problemLine(): HTMLElement {
  return element("p", { className: "problem", role: "alert" });
}
