import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { Flow } from "../../../objects/semantics/policies/flow.ts";

/** A connection from a node's table of connections. */
export interface Connection {
  readonly protocol: Protocol | "ICMP";
  readonly source: Address;
  /** The client's port; undefined for ICMP. */
  readonly sourcePort: number | undefined;
  /** The address and port that the client used: a Service's, if the connection passed one. */
  readonly asked: Address;
  readonly askedPort: number | undefined;
  /** The address and port that answer. */
  readonly destination: Address;
  readonly port: number | undefined;
  /** Whether the connection has ended and only its entry remains, as for TCP after both ends have closed. */
  readonly hasEnded?: boolean;
  /** A range of outside addresses, which the end outside represents. */
  readonly outside?: Cidr;
  /** The domain name by which the source knows the destination. */
  readonly name?: string;
}

/** Returns the connection as policies see it: the client's own address, and the endpoint after a Service (POL-27). */
export function flowOf({ protocol, source, asked, destination, port, name }: Connection): Flow {
  return {
    source: { type: "address", address: source },
    destination: { type: "address", address: destination, ...(name === undefined ? {} : { asked: name }) },
    family: familyOf(destination),
    isThroughService: asked !== destination,
    ...(protocol === "ICMP" || port === undefined ? { protocol: "ICMP" } : { protocol, port }),
  };
}

/** Returns a text that is equal for the entries of one connection in the tables of both its nodes. */
export function connectionKey({ protocol, source, sourcePort, destination, port }: Connection): string {
  return `${protocol} ${source} ${sourcePort ?? ""} ${destination} ${port ?? ""}`;
}

/** Remembers the answers for connections between two addresses at one port, since policies see nothing else of them. */
export function remembered<T>(ask: (connection: Connection) => T): (connection: Connection) => T {
  const answers = new Map<string, { readonly answer: T }>();
  return (connection) => {
    const { protocol, source, asked, destination, port, name = "" } = connection;
    const key = `${protocol} ${source} ${destination} ${port ?? ""} ${asked === destination} ${name}`;
    const known = answers.get(key) ?? { answer: ask(connection) };
    answers.set(key, known);
    return known.answer;
  };
}
