import type { Mutable, Mutation } from "./mutations.ts";

/** A mutation with the number by which `switch.ts` knows it. */
export interface Numbered {
  readonly number: number;
  readonly mutation: Mutation;
}

/** Mutations of one node. */
interface Site {
  readonly start: number;
  readonly end: number;
  readonly choices: readonly Numbered[];
}

/**
 * Returns code that has a switch for each mutation, and behaves as before while none is on.
 *
 * @param switchModule the URL of `switch.ts`
 */
export function switched({ code }: Mutable, mutations: readonly Numbered[], switchModule: string): string {
  const groups = Map.groupBy(mutations, ({ mutation: { start, end } }) => `${start} ${end}`);
  const sites = [...groups.values()].map((choices): Site => {
    const [start = 0, end = 0] = choices.flatMap(({ mutation }) => [mutation.start, mutation.end]);
    return { start, end, choices };
  });
  sites.sort((one, other) => one.start - other.start || other.end - one.end);
  return `import { isOn as $isOn } from ${JSON.stringify(switchModule)}; ${render(code, 0, code.length, sites)}`;
}

/** @param sites those between start and end, an outer one before those in it */
function render(code: string, start: number, end: number, sites: readonly Site[]): string {
  let text = "";
  let position = start;
  for (const [index, site] of sites.entries()) {
    if (site.start < position) continue;
    const inner = sites.slice(index + 1).filter((other) => other.end <= site.end);
    text += code.slice(position, site.start) + choose(site, render(code, site.start, site.end, inner));
    position = site.end;
  }
  return text + code.slice(position, end);
}

function choose({ choices }: Site, unchanged: string): string {
  const [first] = choices;
  if (first?.mutation.kind === "statement") return `{if(!$isOn(${first.number})){${unchanged}}}`;
  // The replacement may end in a comment, hence the line break.
  const changed = choices.map(({ number, mutation }) => `$isOn(${number})?(${mutation.replacement}\n):`);
  return `(${changed.join("")}(${unchanged}))`;
}
