import { formatTable } from "../../kernel/nftables/text/text.ts";
import { printable } from "../../objects/printable.ts";
import type { NodeRules } from "./node_rules.ts";

/**
 * Yields the tables as `nft -f` reads them, after comments that say what they do not contain.
 *
 * @param remarks further comments, a line each
 */
export function* rulesText(nodeName: string, rules: NodeRules, remarks: readonly string[]): Generator<string> {
  const { tables, localPods, problems } = rules;
  const head = [
    `The tables that policyd would load on node ${nodeName} from these files.`,
    "Not in it, since files do not show it:",
    "- which interface and MAC address each pod of the node has: the guard's sets pod4, pod6 and podmac are empty, and as",
    "  they stand would let no pod send;",
    "- host ports and masquerade, which pods get when they are attached;",
    "- what rules and connections write into sets themselves: which client stays with which endpoint, which connections are",
    "  cut, which pod has too many of them.",
    `Pods of the node: ${localPods.length === 0 ? "none" : localPods.join(", ")}.`,
    ...remarks,
    ...problems,
  ];
  yield `${head.map((line) => `# ${printable(line)}`).join("\n")}\n\n`;
  for (const { table, elements } of tables) yield `${formatTable(table, elements)}\n`;
}
