/** Times shown as ages, such as "12 s ago"; the server sends them in UTC. */

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
] as const;

export function showAges(root: ParentNode): void {
  for (const time of root.querySelectorAll<HTMLTimeElement>("time[data-age]")) {
    time.textContent = age(Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1_000));
  }
}

function age(seconds: number): string {
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? UNITS[3];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}
