import { globSync, readFileSync } from "node:fs";
import type { NodeFacts } from "../../../cli/node/doctor/facts.ts";
import { seen } from "../../../policyd/problems/check.ts";
import type { ProblemCode } from "../../../policyd/problems/problem.ts";
import { nodeFacts, pluginFile } from "./node_facts.ts";

const RULESET = seen(nodeFacts().ruleset) ?? { tables: [], chains: [], markWrites: [] };

/** Errors that only the doctor can find while the daemon answers, and why. */
export const DOCTORS: readonly {
  readonly code: ProblemCode;
  readonly why: string;
  readonly facts: Partial<NodeFacts>;
}[] = [
  {
    code: "cni-configuration",
    why: "the daemon writes the file again at once (CHAIN-07)",
    facts: { network: { value: { kind: "broken", reason: "no JSON" } } },
  },
  {
    code: "cni-plugin",
    why: "the daemon, in a container, does not start the node's programs",
    facts: { plugins: { value: [pluginFile("drawbridge", { version: { failure: "exec format error" } })] } },
  },
  {
    code: "tables",
    why: "the daemon replaces the table at once",
    facts: { ruleset: { value: { ...RULESET, tables: RULESET.tables.map((one) => ({ ...one, comment: "mine" })) } } },
  },
  {
    code: "tables",
    why: "the daemon replaces the table at once",
    facts: { ruleset: { value: { ...RULESET, chains: [] } } },
  },
];
/** Packets of a probe are lost in its own tests; no daemon sends any. */
const PROBE = "cli/node/doctor/checks/probe.ts";

/** Returns the errors in the sources of the doctor's checks: the code of a check of the file, and the text as a pattern. */
export function errorsInSources(): readonly {
  readonly at: string;
  readonly ids: readonly string[];
  readonly what: RegExp;
}[] {
  const files = globSync(["cli/node/doctor/checks/*.ts", "policyd/checks/*.ts"]).filter((file) => file !== PROBE);
  return files.flatMap((file) => {
    const source = readFileSync(file, "utf8");
    const ids = [...source.matchAll(/\bid: "([\w-]+)"/g)].map(([, id = ""]) => id);
    return [...source.matchAll(/severity: [^,\n]*"error"[^,\n]*,\s*(?:what: `([^\n]*?)`,)?/g)].map(
      ({ 1: text, index }) => {
        const pieces = (text ?? "").split(/\$\{.*?\}+/).map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
        return { at: `${file}:${source.slice(0, index).split("\n").length}`, ids, what: new RegExp(pieces.join(".*")) };
      },
    );
  });
}
