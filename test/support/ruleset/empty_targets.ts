import type { TableReference } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { rulesText } from "../../../policyd/ruleset/observed/known_rules.ts";

/** Returns the kernel's chains of a table whose rules go or jump to a chain without rules, each with that chain. */
export function emptyTargets(kernel: Nftables, table: TableReference): readonly string[] {
  const chains = kernel
    .chains(table)
    .map(({ name = "" }) => ({ name, text: rulesText(kernel.rulesOf(table, name)), attribute: attributeText(name) }));
  const empty = chains.filter(({ text }) => text === "");
  return chains.flatMap(({ name, text }) =>
    empty.filter(({ attribute }) => text.includes(attribute)).map((target) => `${name} -> ${target.name}`),
  );
}

/** Returns a name as it stands in a rule's text: in hexadecimal digits, preceded by its length and followed by 0. */
function attributeText(name: string): string {
  const header = Buffer.alloc(4);
  header.writeUInt16LE(4 + name.length + 1, 0);
  header.writeUInt16LE(2, 2);
  return Buffer.concat([header, Buffer.from(`${name}\0`, "ascii")]).toString("hex");
}
