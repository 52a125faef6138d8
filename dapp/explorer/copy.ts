/** Buttons that copy commands, ids, hashes and addresses. */

import { element } from "../example/element.ts";

const SHOWN_MILLISECONDS = 1_500;

export function offerCopies(root: ParentNode): void {
  for (const line of root.querySelectorAll<HTMLElement>(".command")) {
    if (line.querySelector("button")) continue;
    line.append(copyButton("Copy", "Copy the command", () => line.querySelector("code")?.textContent ?? ""));
  }
  for (const value of root.querySelectorAll<HTMLElement>("[data-copy]")) {
    if (value.nextElementSibling?.classList.contains("copy")) continue;
    const text = value.dataset.copy!;
    const button = copyButton("", `Copy ${text.slice(0, 8)}`, () => text);
    button.classList.add("copy");
    // A button can't stand within a link.
    (value.closest("a") ?? value).after(button);
  }
}

function copyButton(label: string, name: string, text: () => string): HTMLButtonElement {
  const button = element("button", { type: "button", title: name, "aria-label": name }, label);
  button.addEventListener("click", () => {
    void navigator.clipboard.writeText(text()).then(
      () => say(button, "✓", label),
      () => say(button, "Select and copy it by hand", label),
    );
  });
  return button;
}

function say(button: HTMLButtonElement, words: string, label: string): void {
  button.textContent = words;
  setTimeout(() => (button.textContent = label), SHOWN_MILLISECONDS);
}
