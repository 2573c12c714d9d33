import * as v from "valibot";
import { ExitCode } from "../../exit_code.ts";
import type { Io } from "../../io.ts";
import { conntrackLine } from "./conntrack_line.ts";

const optionsSchema = v.object({ networkNamespace: v.optional(v.string()) });
/** The lines that are written at once: a table has up to hundreds of thousands. */
const LINES = 1000;

/** Prints the table. @throws SyscallError, NetlinkError where the kernel refuses, as without root */
export async function runConnections(io: Io, options: unknown): Promise<ExitCode> {
  const { networkNamespace } = v.parse(optionsSchema, options);
  const machine = await io.node.open(networkNamespace);
  let lines: string[] = [];
  machine.visitConnections((entry) => {
    lines.push(conntrackLine(entry));
    if (lines.length < LINES) return;
    io.out.write(lines.join(""));
    lines = [];
  });
  io.out.write(lines.join(""));
  return ExitCode.YES;
}
