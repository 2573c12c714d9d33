import { DrawbridgeError } from "../../../kernel/error.ts";
import { familyOf, tryParseAddress } from "../../../kernel/ip/address.ts";
import { LineSplitter } from "../../input/line_splitter.ts";
import { type Connection, connectionKey } from "./connection.ts";

/** The connections of some tables, each once, and the number of entries that policies do not apply to. */
export interface ReadConnections {
  readonly connections: readonly Connection[];
  /** Entries of other protocols, such as GRE, for which policies have no ports. */
  readonly others: number;
}

/** More than the largest default table of nodes has, 262,144 entries. */
const MOST_CONNECTIONS = 1_000_000;
/** An entry has about 300 characters, in XML about 900. */
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
 * Reads the output of `conntrack -L`, also with `-o extended` or `-o xml`, and /proc/net/nf_conntrack.
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
  for (const line of linesOf(chunks, name)) {
    number++;
    for (const entry of entriesIn(line)) {
      const read = entry.startsWith("<") ? readXml(entry) : readPlain(entry);
      if (read === undefined) throw refusal(name, number, "expected an entry as conntrack -L prints it");
      if (read === OTHER) others++;
      else found.set(connectionKey(read), read);
      if (found.size > most) throw refusal(name, number, `expected at most ${most} connections`);
    }
  }
  return { connections: [...found.values()], others };
}

/** Returns the entries of a line: one, or the flows of XML; none for the program's remark and other XML. */
function entriesIn(line: string): readonly string[] {
  const text = line.trim();
  if (text === "" || text.startsWith("conntrack v")) return [];
  const flows = text.match(/<flow[ >].*?<\/flow>/g) ?? [];
  const isFrame = text.startsWith("<?xml") || text.startsWith("<conntrack>") || text.startsWith("</conntrack>");
  return flows.length > 0 || isFrame ? flows : [text];
}

function* linesOf(chunks: Iterable<Uint8Array>, name: string): Generator<string> {
  const splitter = new LineSplitter(/\n|(?<=<\/flow>)/);
  let number = 1;
  for (const chunk of chunks) {
    for (const line of splitter.push(chunk)) {
      yield line;
      number++;
    }
    if (splitter.pending > LONGEST_LINE) throw refusal(name, number, `a line of more than ${LONGEST_LINE} characters`);
  }
  yield splitter.end();
}

/** `ipv4 2 tcp 6 431999 ESTABLISHED src=… dst=… sport=… dport=… src=… [ASSURED] …`; the first two may be missing. */
function readPlain(line: string): Connection | typeof OTHER | undefined {
  const words = line.split(/\s+/);
  const [protocol, protocolNumber] = /^ipv[46]$/.test(words[0] ?? "") ? words.slice(2) : words;
  if (protocol === undefined || !/^\d+$/.test(protocolNumber ?? "")) return undefined;
  const values = { src: [] as string[], dst: [] as string[], sport: [] as string[], dport: [] as string[] };
  for (const word of words) {
    const end = word.indexOf("=");
    const key = word.slice(0, Math.max(0, end));
    if (key === "src" || key === "dst" || key === "sport" || key === "dport") values[key].push(word.slice(end + 1));
  }
  return asRead(connectionOf(protocol, values), words.some(isEndState));
}

/** `<flow><meta direction="original"><layer3 …><src>…</src><dst>…</dst></layer3><layer4 … protoname="tcp"><sport>…` */
function readXml(text: string): Connection | typeof OTHER | undefined {
  const [layer = ""] = /<layer4 [^>]*>/.exec(text) ?? [];
  const protocol = /protoname="(?<name>[^"]*)"/.exec(layer)?.groups?.["name"];
  if (protocol === undefined) return undefined;
  const values = (tag: string): readonly string[] =>
    [...text.matchAll(new RegExp(`<${tag}>([^<]*)</${tag}>`, "g"))].map(([, value = ""]) => value);
  const read = connectionOf(protocol, {
    src: values("src"),
    dst: values("dst"),
    sport: values("sport"),
    dport: values("dport"),
  });
  return asRead(read, values("state").some(isEndState));
}

/** Returns whether a state of TCP says that both ends have closed, or that one has reset the connection. */
function isEndState(word: string): boolean {
  return word === "TIME_WAIT" || word === "CLOSE";
}

function asRead<T>(read: Connection | T, hasEnded: boolean): Connection | T {
  return hasEnded && typeof read === "object" && read !== null ? { ...read, hasEnded } : read;
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
