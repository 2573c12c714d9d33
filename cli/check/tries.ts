import type { Family } from "../../kernel/ip/address.ts";
import { isIP } from "node:net";
import { at, listAt, textAt } from "../input/raw.ts";
import { PORT } from "./objects.ts";

/** A connection, or a name to resolve, that the client tries. */
export interface Try {
  readonly test: string;
  readonly family: Family;
  /** An address, or a name where {@link port} is undefined. */
  readonly host: string;
  readonly port: number | undefined;
}

/** The parts of a check, in the order of the table. */
const SAME_NODE = "pod on the same node";
const OTHER_NODE = "pod on another node";

/** Returns whether a try is one of pod to pod, which policies decide. */
export function isOfPods({ test }: Try): boolean {
  return test === SAME_NODE || test === OTHER_NODE;
}

/**
 * Returns what the client tries, in the families that it has.
 *
 * @param list what `kubectl get pods,services -o json` printed
 * @param outside addresses with ports
 */
export function triesOf(list: unknown, outside: readonly Try[]): readonly Try[] {
  const items = listAt(list, "items");
  const named = (name: string, kind = "Pod"): unknown =>
    items.find((one) => textAt(one, "kind") === kind && textAt(one, "metadata", "name") === name);
  const addresses = (value: unknown, ...path: readonly string[]): readonly string[] =>
    listAt(value, ...path).flatMap((one) => (typeof one === "string" ? one : (textAt(one, "ip") ?? [])));
  const families = new Set(addresses(named("client"), "status", "podIPs").map(familyOf));
  const service = named("server", "Service");
  const nodePort = Number(at(service, "spec", "ports", 0, "nodePort"));
  const tries = (test: string, hosts: readonly string[], port: number): readonly Try[] =>
    hosts.map((host) => ({ test, family: familyOf(host), host, port }));
  const [own, other] = [named("server-same-node"), named("server-other-node")];
  const name = `server.${textAt(service, "metadata", "namespace") ?? ""}.svc`;
  const clusterAddresses = addresses(service, "spec", "clusterIPs");
  return [
    ...tries(SAME_NODE, addresses(own, "status", "podIPs"), PORT),
    ...tries(OTHER_NODE, addresses(other, "status", "podIPs"), PORT),
    ...tries("Service", clusterAddresses, 80),
    ...clusterAddresses.map((one) => ({ test: "DNS", family: familyOf(one), host: name, port: undefined })),
    ...tries("node port of its own node", addresses(own, "status", "hostIPs"), nodePort),
    ...tries("node port of another node", addresses(other, "status", "hostIPs"), nodePort),
    ...outside,
  ].filter(({ family }) => families.has(family));
}

/** Reads `192.0.2.1:443` or `[2001:db8::1]:443`. @returns undefined for anything else */
export function outsideTry(text: string): Try | undefined {
  const [, six, four, port] = /^(?:\[(.+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = six ?? four ?? "";
  if (isIP(host) !== (six === undefined ? 4 : 6) || Number(port) > 65535) return undefined;
  return { test: "outside", family: familyOf(host), host, port: Number(port) };
}

function familyOf(address: string): Family {
  return address.includes(":") ? 6 : 4;
}

/** The program by which the client tries: it prints a list with null for what works, and else why it does not. */
export const TRYING = `
const { connect } = require("net"), { lookup } = require("dns").promises;
const tried = ({ host, port, family }) => port === undefined
  ? lookup(host, { family }).then(() => null, (error) => error.code)
  : new Promise((resolve) => {
      const socket = connect({ host, port }).on("error", (error) => resolve(error.code)).on("data", () => {});
      socket.on("connect", () => { resolve(null); socket.destroy(); });
      socket.setTimeout(2000, () => { resolve("no answer within 2 s"); socket.destroy(); });
    });
Promise.all(JSON.parse(process.argv[1]).map(tried)).then((all) => console.log(JSON.stringify(all)));
`;
