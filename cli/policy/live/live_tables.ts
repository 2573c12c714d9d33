import { Buffer } from "node:buffer";
import { askDaemons, type KubectlAccess } from "../../input/programs/daemons.ts";
import type { Programs } from "../../input/programs/programs.ts";
import { type ReadConnections, readConntrack } from "./conntrack_text.ts";

const QUESTION = {
  option: "--live",
  args: ["node", "connections"],
  expected: "one table",
  otherwise: "give the flows of a ledger with --ledger",
};

/**
 * Reads the tables of connections of all nodes.
 *
 * @throws DrawbridgeError ERR_INPUT as {@link askDaemons} and {@link readConntrack}
 */
export async function liveTables(programs: Programs, access: KubectlAccess): Promise<readonly ReadConnections[]> {
  const answers = await askDaemons(programs, access, QUESTION);
  return answers.map(({ node, text }) => readConntrack([Buffer.from(text)], `node ${node}`));
}
