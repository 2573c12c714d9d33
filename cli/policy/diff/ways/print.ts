import { shortList } from "../../../../objects/printable.ts";
import { placeText } from "../witness.ts";
import { exampleText, reasonLines, type InWords } from "../witness_text.ts";
import { EFFECTS } from "../pair_change.ts";
import type { WayChange } from "./change.ts";

/** The most names of a list that are shown to people. */
const MOST_NAMES = 8;

/** Returns a way in words: what changes, by which pods, and its witness. */
export function wayInWords(way: WayChange): InWords {
  const { type, name, file, line, requests, through, controllers, witness } = way;
  const by = placeText({ name, file, line });
  const pods = controllers.length === 0 ? "" : ` (${names(controllers)})`;
  const example = witness === undefined ? "" : `, such as ${exampleText(witness)}`;
  const effect = effectText(way);
  // Nothing is opened or closed by a way that lets nothing in.
  const isOpen = way.connections !== "";
  return {
    type,
    word: isOpen ? EFFECTS[type] : type,
    head: `way in by ${by} for ${names(requests)} -> ${names(toText(way))}: ${effect}`,
    lines: [
      `through ${through ?? "its class or Gateway"}${pods} to ${serviceText(way)}${example}`,
      ...(witness === undefined ? [] : reasonLines(witness)),
      ...(witness === undefined && way.why !== undefined ? [way.why] : []),
    ],
    from: [`outside through ${through ?? name}`],
    to: toText(way),
    connections: effect,
    label: isOpen ? `${effect} by ${name}` : undefined,
  };
}

/** Returns what opens or closes: `8080/TCP (some)`; in words where it is nothing. */
export function effectText({ connections, isPartly, why }: WayChange): string {
  if (connections !== "") return `${connections.replaceAll(",", ", ")}${isPartly ? " (some)" : ""}`;
  return why === undefined ? "closed by policies" : "not judged";
}

/** Returns the pods that requests reach, or the Service where they are not known. */
export function toText(way: WayChange): readonly string[] {
  return way.to.length > 0 ? way.to : [serviceText(way)];
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
    ...(way.witness === undefined ? {} : { witness: way.witness }),
  };
}
