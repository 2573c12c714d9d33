import * as v from "valibot";
import { ExitCode, type Io } from "../../io.ts";
import { type ConntrackEntry, ConntrackStatus } from "../../../kernel/conntrack/entry.ts";
import type { ConntrackTuple } from "../../../kernel/conntrack/tuple.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { protocolNumber } from "../../../kernel/ip/protocol.ts";

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

/** AF_INET and AF_INET6 (include/linux/socket.h); conntrack prints these numbers. */
const FAMILY_NUMBERS = { 4: 2, 6: 10 } as const;

/** Returns an entry of the table as `conntrack -L -o extended` prints it, with its line end. */
export function conntrackLine({ family, original, reply, status, timeout, tcpState, mark }: ConntrackEntry): string {
  const has = (bit: number, word: string): readonly string[] => ((status & bit) === 0 ? [] : [word]);
  const words = [
    `ipv${family}`,
    FAMILY_NUMBERS[family],
    typeof original.protocol === "number" ? "unknown" : original.protocol,
    protocolNumber(original.protocol),
    ...(timeout === undefined ? [] : [timeout]),
    ...(tcpState === undefined ? [] : [String(tcpState).toUpperCase().replaceAll("-", "_")]),
    ...tupleWords(original),
    ...((status & ConntrackStatus.SEEN_REPLY) === 0 ? ["[UNREPLIED]"] : []),
    ...tupleWords(reply),
    ...has(ConntrackStatus.ASSURED, "[ASSURED]"),
    ...has(ConntrackStatus.OFFLOADED, "[OFFLOAD]"),
    `mark=${mark}`,
    "use=1",
  ];
  return `${words.join(" ")}\n`;
}

function tupleWords({ source, destination, sourcePort, destinationPort, icmp }: ConntrackTuple): readonly string[] {
  return [
    `src=${formatAddress(source)}`,
    `dst=${formatAddress(destination)}`,
    ...(sourcePort === undefined ? [] : [`sport=${sourcePort}`]),
    ...(destinationPort === undefined ? [] : [`dport=${destinationPort}`]),
    ...(icmp === undefined ? [] : [`type=${icmp.type}`, `code=${icmp.code}`, `id=${icmp.id}`]),
  ];
}
