/** Live pages ask for themselves again every few seconds; a part is replaced only where the server renders it differently. */

export function replaceChangedOnly(): void {
  const rendered = new Map([...document.querySelectorAll("main [id]")].map(({ id, innerHTML }) => [id, innerHTML]));
  document.addEventListener("htmx:oobBeforeSwap", (event) => {
    const { detail } = event as CustomEvent<{ shouldSwap: boolean; fragment: ParentNode; target: Element }>;
    const { id } = detail.target;
    const html = detail.fragment.querySelector(`#${id}`)?.innerHTML;
    if (html === undefined || html === rendered.get(id)) detail.shouldSwap = false;
    else rendered.set(id, html);
  });
}
