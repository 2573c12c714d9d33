import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import type { NotificationListener } from "../../../kernel/notifications/notifications.ts";
import { startNotificationThread } from "../../../kernel/notifications/thread.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../../kernel/netlink/message.ts";
import { MAIN_TABLE, parseRouteOfAnyTable } from "../../../kernel/route/route.ts";
import { ApiServerProcess } from "../../apiserver/process.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import { makeCertificate } from "../../support/certificate.ts";
import { NODE } from "../policy/cluster.ts";
import { measured, type ServicesRow } from "../services/row.ts";
import { MeasuredDaemon } from "./measured_daemon.ts";

const PORT = 6443;
const RTM_NEWROUTE = 24;
const AT_ONCE = 1000;
const LOOP_GOAL = 50;
const PATIENCE_MILLISECONDS = 120_000;
/** A pause for the consequences of a change: the routes are checked once more. */
const REST_MILLISECONDS = 3000;
/** The first number of the changed Nodes' addresses and pods, which no other Node has. */
const FIRST_NEW = 50_000;

/** The number of Nodes beside the daemon's own, and the number of changes of one of them. */
export interface NodesPlan {
  readonly nodes: number;
  readonly changes: number;
}

export const NODES_PLAN: NodesPlan = { nodes: 5000, changes: 10 };

/**
 * Measures what the change of one Node costs a daemon that has the routes, by VXLAN and in both families, to the pods
 * of thousands.
 *
 * @returns the longest turn of its event loop around each change, and the time until the new route
 */
export async function manyNodes(
  lab: Lab,
  { nodes, changes }: NodesPlan,
  progress: (step: string) => void,
): Promise<readonly ServicesRow[]> {
  const { node1, router } = twoNodes(lab);
  const server = new ApiServerProcess(router);
  lab.atEnd(() => void server.stop());
  const address = formatAddress(node1.routerAddresses[0]);
  const own = nodeManifest(NODE, node1.addresses.map(formatAddress), node1.podCidrs.map(formatCidr));
  const all = [own, ...Array.from({ length: nodes }, (_, number) => numbered(number, number, number))];
  progress(`filling the API server with ${all.length} Nodes`);
  for (let next = 0; next < all.length; next += AT_ONCE) await server.apply(...all.slice(next, next + AT_ONCE));
  const authority = makeCertificate("authority");
  const certificate = makeCertificate("server", authority, address);
  await server.tell({ type: "listen", address, port: PORT, certificate });
  const directory = `${lab.scratch}/many-nodes`;
  for (const name of ["state", "account"]) mkdirSync(`${directory}/${name}`, { recursive: true });
  writeFileSync(`${directory}/account/token`, "of nobody");
  writeFileSync(`${directory}/account/ca.crt`, authority.certificate);
  const routes = new NewRoutes();
  const events = startNotificationThread({ calls: lab.calls, namespacePath: node1.node.path });
  await events.subscribe({ kind: "route", groups: ["ipv6-route"] }, routes);
  progress("first sync");
  const current = new MeasuredDaemon(node1.node, directory, `https://${address}:${PORT}`);
  lab.atEnd(() => current.daemon.child.kill("SIGKILL"));
  await routes.until(podCidr6(nodes - 1), current);
  await wait(REST_MILLISECONDS);
  await current.loopDelay();
  const before = current.processorSeconds();
  const turns: { readonly longest: number; readonly latency: number }[] = [];
  for (let change = 0; change < 2 * changes; change++) {
    progress(`change ${change + 1} of ${2 * changes}`);
    const fresh = FIRST_NEW + change;
    // The pods and the addresses of a Node change in turn; a new pod CIDR of the next one shows when the addresses are
    // done.
    const object = change % 2 === 0 ? numbered(change, change, fresh) : numbered(change - 1, fresh, fresh - 1);
    const reported = performance.now();
    await server.apply(object);
    const latency = change % 2 === 0 ? (await routes.until(podCidr6(fresh), current)) - reported : 0;
    await wait(REST_MILLISECONDS);
    turns.push({ longest: (await current.loopDelay()).max, latency });
  }
  const processor = current.processorSeconds() - before;
  await events.stop();
  await current.daemon.kill("SIGTERM");
  await server.stop();
  const size = `${nodes.toLocaleString("en")} nodes`;
  const longest = (isOfPods: boolean): readonly number[] =>
    turns.filter((_, index) => (index % 2 === 0) === isOfPods).map((turn) => turn.longest);
  return [
    measured(`${size}: a Node's pod CIDRs change: longest turn`, "ms", longest(true), LOOP_GOAL),
    measured(`${size}: a Node's addresses change: longest turn`, "ms", longest(false), LOOP_GOAL),
    measured(
      `${size}: a Node's pod CIDRs change: API server to route`,
      "ms",
      turns.filter(({ latency }) => latency > 0).map(({ latency }) => latency),
    ),
    measured(`${size}: a Node changes: time of the processor`, "ms", [(1000 * processor) / turns.length]),
  ];
}

/** The times at which there was a route to a prefix for the first time. */
class NewRoutes implements NotificationListener {
  readonly #seen = new Map<string, number>();

  onMessages(messages: readonly ReceivedMessage[]): void {
    for (const message of messages) {
      const route = message.type === RTM_NEWROUTE ? parseRouteOfAnyTable(message) : undefined;
      if (route?.destination === undefined || route.table !== MAIN_TABLE) continue;
      const text = formatCidr(route.destination);
      if (!this.#seen.has(text)) this.#seen.set(text, performance.now());
    }
  }

  /** Ignores an overrun: the awaited route may be reported late among many, but nothing else waits for it. */
  onOverrun(): void {}

  onFailure({ message }: Error): void {
    throw new Error(`routes are not reported: ${message}`);
  }

  /**
   * Waits for a route. @returns when it was reported, by performance.now(). @throws Error with the daemon's log when it
   * is not
   */
  async until(destination: string, { daemon }: MeasuredDaemon): Promise<number> {
    const begun = performance.now();
    for (;;) {
      const at = this.#seen.get(destination);
      if (at !== undefined) return at;
      if (performance.now() - begun > PATIENCE_MILLISECONDS) {
        throw new Error(`no route to ${destination} in ${PATIENCE_MILLISECONDS} ms; log:\n${daemon.log()}`);
      }
      await wait(1);
    }
  }
}

/** Returns a Node by its number, with the addresses and the pods of other numbers. */
function numbered(number: number, addresses: number, pods: number): RawObject {
  const group = (value: number): string => value.toString(16);
  return nodeManifest(
    `other-${number}`,
    [`172.${16 + (addresses >> 16)}.${(addresses >> 8) & 255}.${addresses & 255}`, `2001:db8:128::${group(addresses)}`],
    [`10.${pods >> 8}.${pods & 255}.0/24`, podCidr6(pods)],
  );
}

function podCidr6(number: number): string {
  return `fd00:128:${number.toString(16)}::/64`;
}

function nodeManifest(name: string, addresses: readonly string[], podCIDRs: readonly string[]): RawObject {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name },
    spec: { podCIDRs },
    status: { addresses: addresses.map((address) => ({ type: "InternalIP", address })) },
  };
}
