import type { Address } from "../../../kernel/ip/address.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { Protocol } from "../../../policyd/cluster/model.ts";
import type { Flow } from "../../../policyd/policy/evaluate/flow.ts";

/** A connection as a node's table of connections has it. */
export interface Connection {
  readonly protocol: Protocol | "ICMP";
  readonly source: Address;
  /** Of the client; undefined for ICMP. */
  readonly sourcePort: number | undefined;
  /** The address and port that the client asked for: a Service's, where it went through one. */
  readonly asked: Address;
  readonly askedPort: number | undefined;
  /** The address and port that answer. */
  readonly destination: Address;
  readonly port: number | undefined;
  /** Whether the table only remembers it: a TCP connection that both ends have closed. */
  readonly hasEnded?: boolean;
  /** The range of which the end outside is one address, where all of it is meant. */
  readonly outside?: Cidr;
}

/** The connection as policies see it: with the client's own address, and the endpoint behind a Service (POL-27). */
export function flowOf({ protocol, source, asked, destination, port }: Connection): Flow {
  return {
    source: { type: "address", address: source },
    destination: { type: "address", address: destination },
    family: familyOf(destination),
    isThroughService: asked !== destination,
    ...(protocol === "ICMP" || port === undefined ? { protocol: "ICMP" } : { protocol, port }),
  };
}

/** One text for the entries of one connection, which the tables of both its nodes have. */
export function connectionKey({ protocol, source, sourcePort, destination, port }: Connection): string {
  return `${protocol} ${source} ${sourcePort ?? ""} ${destination} ${port ?? ""}`;
}

/** Asks once about all connections between two addresses at one port: policies see nothing else of them. */
export function remembered<T>(ask: (connection: Connection) => T): (connection: Connection) => T {
  const answers = new Map<string, { readonly answer: T }>();
  return (connection) => {
    const { protocol, source, asked, destination, port } = connection;
    const key = `${protocol} ${source} ${destination} ${port ?? ""} ${asked === destination}`;
    const known = answers.get(key) ?? { answer: ask(connection) };
    answers.set(key, known);
    return known.answer;
  };
}
