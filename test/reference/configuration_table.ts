import * as v from "valibot";
import { readConfiguration } from "../../policyd/configuration/configuration.ts";
import { entries, membersOf } from "../../policyd/configuration/schema.ts";
import { tableOf } from "./table.ts";

export const CONFIGURATION_COLUMNS = ["field", "default", "meaning"] as const;

/**
 * Returns the table of the configuration's fields in the schema's order. The defaults come from the sources; the meanings,
 * and what holds where a field without a default is absent, are those of the document.
 */
export function configurationTable(document: string): string {
  const described = new Map(
    [...document.matchAll(/^\| `([^`]+)` \| (none[^|]*|[^|]*) \| (.*) \|$/gm)].map(
      ([, field = "", initial = "", meaning = ""]) => [
        field,
        { absent: initial, meaning: meaning.replaceAll("\\|", "|") },
      ],
    ),
  );
  const rows = [...defaults()].map(([field, initial]) => {
    const { absent, meaning } = described.get(field) ?? { absent: "", meaning: "" };
    const none = absent.startsWith("none") ? absent : "none";
    return [`\`${field}\``, initial === "" ? none : `\`${initial}\``, meaning];
  });
  return tableOf(CONFIGURATION_COLUMNS, rows);
}

/** Yields each field and its default, as a user would write it; "" for none. */
function* defaults(): Generator<readonly [string, string]> {
  const { markBits } = readConfiguration(undefined, { nodeName: { value: "n", where: "" } });
  for (const [field, schema] of Object.entries(entries)) {
    if (membersOf(field) !== undefined) {
      for (const [member, bit] of Object.entries(markBits)) yield [`${field}.${member}`, `0x${bit.toString(16)}`];
    } else {
      const value: unknown = schema.type === "optional" ? v.getDefault(schema) : undefined;
      const isPlain = typeof value === "string" || typeof value === "number" || typeof value === "boolean";
      yield [field, Array.isArray(value) ? value.join(", ") : isPlain ? String(value) : ""];
    }
  }
}
