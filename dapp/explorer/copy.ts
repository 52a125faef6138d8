/** A button beside each command that copies it. */

import { element } from "../example/element.ts";

const SHOWN_MILLISECONDS = 1_500;

export function offerCopies(root: ParentNode): void {
  for (const line of root.querySelectorAll<HTMLElement>(".command")) {
    if (line.querySelector("button")) continue;
    const button = element("button", { type: "button" }, "Copy");
    button.addEventListener("click", () => {
      const command = line.querySelector("code")?.textContent ?? "";
      void navigator.clipboard.writeText(command).then(
        () => say(button, "Copied"),
        () => say(button, "Select and copy it by hand"),
      );
    });
    line.append(button);
  }
}

function say(button: HTMLButtonElement, words: string): void {
  button.textContent = words;
  setTimeout(() => (button.textContent = "Copy"), SHOWN_MILLISECONDS);
}
