import { DrawbridgeError } from "../../../kernel/error.ts";
import { familyOf, tryParseAddress } from "../../../kernel/ip/address.ts";
import { linesOf } from "../../input/line_splitter.ts";
import { type Connection, connectionKey } from "./connection.ts";

/** The connections of some tables, each once, and the number of entries that policies do not apply to. */
export interface ReadConnections {
  readonly connections: readonly Connection[];
  /** Entries of other protocols, such as GRE, for which policies have no ports. */
  readonly others: number;
}

/** More than the largest default table of nodes has, 262,144 entries. */
const MOST_CONNECTIONS = 1_000_000;
/** An entry has about 300 characters. */
const LONGEST_LINE = 16_384;
const PROTOCOLS: ReadonlyMap<string, Connection["protocol"]> = new Map([
  ["tcp", "TCP"],
  ["udp", "UDP"],
  ["udplite", "UDP"],
  ["sctp", "SCTP"],
  ["icmp", "ICMP"],
  ["icmpv6", "ICMP"],
  ["ipv6-icmp", "ICMP"],
]);
const OTHER = "other protocol";

/**
 * Reads the output of `conntrack -L`, also with `-o extended`, and /proc/net/nf_conntrack.
 *
 * @param chunks the text in pieces, so that a file is never in memory as a whole
 * @param name the file's name in messages
 * @param most the largest number of connections that is read
 * @throws DrawbridgeError ERR_INPUT naming the line of a text that cannot be an entry, and for too many entries
 */
export function readConntrack(
  chunks: Iterable<Uint8Array>,
  name: string,
  most: number = MOST_CONNECTIONS,
): ReadConnections {
  const found = new Map<string, Connection>();
  let others = 0;
  let number = 0;
  for (const line of linesOf(chunks, LONGEST_LINE)) {
    number++;
    if (line === undefined) throw refusal(name, number, `a line of more than ${LONGEST_LINE} characters`);
    if (line.trim() === "" || line.startsWith("conntrack v")) continue;
    const read = readEntry(line);
    if (read === undefined) throw refusal(name, number, "expected an entry as conntrack -L prints it");
    if (read === OTHER) others++;
    else found.set(connectionKey(read), read);
    if (found.size > most) throw refusal(name, number, `expected at most ${most} connections`);
  }
  return { connections: [...found.values()], others };
}

/** `ipv4 2 tcp 6 431999 ESTABLISHED src=… dst=… sport=… dport=… src=… [ASSURED] …`; the first two may be missing. */
function readEntry(line: string): Connection | typeof OTHER | undefined {
  const words = line.trim().split(/\s+/);
  const [protocol, protocolNumber] = /^ipv[46]$/.test(words[0] ?? "") ? words.slice(2) : words;
  if (protocol === undefined || !/^\d+$/.test(protocolNumber ?? "")) return undefined;
  const values = { src: [] as string[], dst: [] as string[], sport: [] as string[], dport: [] as string[] };
  for (const word of words) {
    const end = word.indexOf("=");
    const key = word.slice(0, Math.max(0, end));
    if (key === "src" || key === "dst" || key === "sport" || key === "dport") values[key].push(word.slice(end + 1));
  }
  const read = connectionOf(protocol, values);
  return typeof read === "object" && words.some(isEndState) ? { ...read, hasEnded: true } : read;
}

/** Returns whether a state of TCP says that both ends have closed, or that one has reset the connection. */
function isEndState(word: string): boolean {
  return word === "TIME_WAIT" || word === "CLOSE";
}

/** Each has the value of the original direction, followed by that of the reply. */
type Values = Readonly<Record<"src" | "dst" | "sport" | "dport", readonly string[]>>;

function connectionOf(word: string, { src, dst, sport, dport }: Values): Connection | typeof OTHER | undefined {
  const [source, answering] = src.map((text) => tryParseAddress(text));
  const asked = tryParseAddress(dst[0] ?? "");
  if (source === undefined || asked === undefined || answering === undefined) return undefined;
  if (new Set([source, asked, answering].map((address) => familyOf(address))).size > 1) return undefined;
  const protocol = PROTOCOLS.get(word);
  if (protocol === undefined) return OTHER;
  const known = { protocol, source, asked, destination: answering };
  if (protocol === "ICMP") return { ...known, sourcePort: undefined, askedPort: undefined, port: undefined };
  const [sourcePort, port] = sport.map((text) => portOf(text));
  const askedPort = portOf(dport[0] ?? "");
  if (sourcePort === undefined || port === undefined || askedPort === undefined) return undefined;
  return { ...known, sourcePort, askedPort, port };
}

function portOf(text: string): number | undefined {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : undefined;
}

function refusal(name: string, line: number, reason: string): DrawbridgeError {
  return new DrawbridgeError("ERR_INPUT", `${name}:${line}: ${reason}`);
}
