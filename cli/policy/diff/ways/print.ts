import { printable, shortList } from "../../../../objects/printable.ts";
import { foldLine } from "../../../output/fold.ts";
import type { Edge } from "../../../output/graph.ts";
import type { Style } from "../../../style.ts";
import { placeText } from "../witness.ts";
import { exampleText, reasonLines, witnessObject } from "../witness_text.ts";
import { EFFECTS } from "../pair_change.ts";
import type { WayChange } from "./change.ts";

/** The most names of a list that are shown to people. */
const MOST_NAMES = 8;

/** Yields the ways for people, each with its witness. */
export function* waysText(ways: readonly WayChange[], style: Style, columns: number): Generator<string> {
  for (const way of ways) {
    const { word, head, lines } = wayLines(way);
    const [first = "", ...more] = lines.map(printable);
    const coloured = (way.type === "added" ? style.good : style.bad)(word);
    yield foldLine(`${coloured} ${printable(head)}`, columns, 0, 2);
    yield foldLine(first, columns, 2, 4);
    for (const line of more) yield foldLine(line, columns, 4, 6);
  }
}

/** Returns a way in words, without colour and unfolded: what changes, by which pods, and its witness. */
export function wayLines(way: WayChange): {
  readonly word: string;
  readonly head: string;
  readonly lines: readonly string[];
} {
  const { name, file, line, requests, through, controllers, witness } = way;
  const by = placeText({ name, file, line });
  const pods = controllers.length === 0 ? "" : ` (${names(controllers)})`;
  const example = witness === undefined ? "" : `, such as ${exampleText(witness)}`;
  return {
    word: wordOf(way),
    head: `way in by ${by} for ${names(requests)} -> ${names(toText(way))}: ${effectText(way)}`,
    lines: [
      `through ${through ?? "its class or Gateway"}${pods} to ${serviceText(way)}${example}`,
      ...(witness === undefined ? [] : reasonLines(witness)),
      ...(witness === undefined && way.why !== undefined ? [way.why] : []),
    ],
  };
}

/** Returns what opens or closes: `8080/TCP (some)`; in words where it is nothing. */
export function effectText({ connections, isPartly, why }: WayChange): string {
  if (connections !== "") return `${connections.replaceAll(",", ", ")}${isPartly ? " (some)" : ""}`;
  return why === undefined ? "closed by policies" : "not judged";
}

/** Returns the word for a change: nothing is opened or closed by a way that lets nothing in. */
function wordOf({ type, connections }: WayChange): string {
  return connections === "" ? type : EFFECTS[type];
}

/** Returns the pods that requests reach, or the Service where they are not known. */
export function toText(way: WayChange): readonly string[] {
  return way.to.length > 0 ? way.to : [serviceText(way)];
}

/** Returns the name of a way as a sender, as in a matrix. */
export function senderText({ through, name }: WayChange): string {
  return `outside through ${through ?? name}`;
}

function serviceText({ service, port }: WayChange): string {
  return `Service ${service}${port === undefined ? "" : ` port ${port}`}`;
}

function names(all: readonly string[]): string {
  return shortList(all, MOST_NAMES);
}

/** Returns the object that docs/cli.md describes. */
export function wayObject(way: WayChange): object {
  const { type, cause, name, file, line, requests, through, controllers, service, port, to, isPartly, why } = way;
  return {
    change: type,
    ...(cause === "difference" ? {} : { way: cause === "appeared" ? "new" : "removed" }),
    name,
    file,
    line,
    requests,
    through: through ?? null,
    controllers,
    service,
    port: port ?? null,
    to,
    connections: way.connections === "" ? [] : way.connections.split(","),
    partly: isPartly,
    ...(why === undefined ? {} : { notJudged: why }),
    ...(way.witness === undefined ? {} : { witness: witnessObject(way.witness) }),
  };
}

/** Returns the arrows of the ways that let something in. */
export function wayEdges(ways: readonly WayChange[]): readonly Edge[] {
  return ways.flatMap((way): readonly Edge[] => {
    if (way.connections === "") return [];
    const sign = way.type === "added" ? "+" : "-";
    const label = `${sign} ${effectText(way)} by ${way.name}`;
    return way.to.map((to) => ({ from: senderText(way), to, label, isPartly: way.type === "removed" }));
  });
}
