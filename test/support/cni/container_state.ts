import { readdirSync, readFileSync } from "node:fs";
import { formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import { listAddresses } from "../../../kernel/route/interface_address.ts";
import { dumpNeighbours, parseNeighbour } from "../../../kernel/route/neighbour.ts";
import type { LabPod } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";

const SCOPE_UNIVERSE = 0;

/** The state that one container has on the node, all of which one DEL must remove. */
export interface ContainerState {
  /** Names of the links in the pod. */
  readonly links: readonly string[];
  /** The addresses that a reservation file with the container's id names. */
  readonly reservations: readonly string[];
  readonly records: readonly string[];
  /** Which of the given addresses have a permanent neighbour entry on the node. */
  readonly neighbours: readonly string[];
}

/**
 * Reads the state of a container by netlink and files only. It takes a millisecond or two, for tests that may not block
 * while calls run.
 *
 * @param addresses the addresses whose neighbour entries to read, with or without prefix length
 */
export function containerState(
  { node }: WiredNode,
  pod: LabPod,
  addresses: readonly string[],
  network = "drawbridge",
): ContainerState {
  const store = `${node.dataDir}/${network}`;
  const wanted = new Set(addresses.map((text) => parseAddress(text.split("/")[0] ?? "")));
  const neighbours = FAMILIES.flatMap((family) => node.route.dump(dumpNeighbours(family)))
    .map(parseNeighbour)
    .filter((neighbour) => neighbour?.permanent && wanted.has(neighbour.address));
  return {
    links: pod.links().map(({ name }) => name),
    reservations: namesIn(store).filter(
      (name) => /^[0-9a-f.:]+$/.test(name) && contentOf(`${store}/${name}`).startsWith(`${pod.containerId}\r\n`),
    ),
    records: namesIn(`${node.runDir}/attachments/${network}`).filter((name) => name.includes(`${pod.containerId}:`)),
    neighbours: neighbours.flatMap((neighbour) => (neighbour === undefined ? [] : [formatAddress(neighbour.address)])),
  };
}

/** Returns the global addresses that the kernel has in a pod, as "10.244.1.2/32". */
export function podAddresses(pod: LabPod): readonly string[] {
  return listAddresses(pod.route).flatMap(({ scope, address }) =>
    scope === SCOPE_UNIVERSE ? [formatCidr(address)] : [],
  );
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/** Returns the text of a file, empty when the file has gone meanwhile. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
