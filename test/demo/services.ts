import { type Address, type Family, formatAddress, parseAddress, FAMILIES } from "../../kernel/ip/address.ts";
import { type Cidr, cidrFamily, formatCidr, hostCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { newRoute } from "../../kernel/route/route.ts";
import type { RawObject } from "../apiserver/storage.ts";
import { Prober, type ProbeResult } from "../lab/probe/prober.ts";
import type { ProtocolName } from "../lab/probe/protocol.ts";
import { routeTo } from "../lab/topology.ts";
import { type Cell, type Chart, type Check, differencesOf, exactly } from "./result.ts";
import { namespaceOf, nodeAddresses, nodeOf, NODES, PORT, type World } from "./world.ts";

type Addresses = Readonly<Record<Family, Address>>;
type Transport = Exclude<ProtocolName, "icmp">;

/**
 * The clients of Services: a pod of each node, a node, and the router as one from outside, whose Service traffic enters
 * at node1.
 */
const CLIENTS = ["pod-a", "pod-d", "node1", "router"] as const;

/** One line of the table: the address to which clients connect, and what each client has to see, over either family. */
export interface Frontend {
  readonly name: string;
  readonly protocol: Transport;
  readonly port: number;
  /** One address of each family, or those of all pods where a name stands for them. */
  readonly addresses: readonly Addresses[];
  /** Texts such as "b c e as node1": the pods that answer, and the source address that they see. */
  readonly expected: readonly [string, string, string, string];
  /** Whether each client stays with one of the pods. */
  readonly isSticky: boolean;
}

const SERVICE_PORT = 80;
const NODE_PORT = 30_080;
const LOCAL_NODE_PORT = 30_081;
/** The networks of Services' own addresses, which the router sends to node1. */
const SERVICE_NETWORKS: readonly Cidr[] = ["10.96.0.0/24", "fd00:96::/112", "203.0.113.0/24", "2001:db8:5::/64"].map(
  (text) => parseCidr(text),
);
/** The pods b, c and e, of which e is on node2. */
const BACKENDS = { role: "backend" };
const EVERYWHERE = ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"] as const;
const REFUSED = ["refused", "refused", "refused", "refused"] as const;

/** Answers get enough time for a busy machine. The first SYN's refusal does not end a connect(2) within one machine. */
const TIMEOUTS = { "-": 1500, refused: 8000, "no route": 1500 } as const;
const ANSWER_MILLISECONDS = 3000;
/** The number of connections at once, which is small so that none waits for this process. */
const PARALLEL = 64;
/** The number of further connections to a cell that is as expected so far. */
const BATCH = 8;
/** The largest number of batches, after which one of three pods is still unseen one time in 10^11. */
const MOST_BATCHES = 8;

/**
 * Adds a Service of each kind to the cluster (SVC, NODE, LB, XIP, SA, ETP, ITP, NE, HL, EN, POD-12), and gives the
 * router the routes to their addresses.
 *
 * @returns the lines of the table, when both nodes serve them
 */
export async function publishServices(world: World): Promise<readonly Frontend[]> {
  const { cluster } = world;
  const { router, addresses: outside } = cluster.fabric;
  const { uplink } = nodeAddresses(world, "node1");
  for (const network of SERVICE_NETWORKS) {
    router.route.request(newRoute(routeTo(network, uplink[cidrFamily(network)])));
  }
  // By default the kernel sends a client one refusal a second; here each is counted.
  for (const name of NODES) {
    for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) nodeOf(world, name).writeSysctl(key, "0");
  }
  const manifests: RawObject[] = [];
  const frontends: Frontend[] = [];
  const publish = (name: string, selector: object, spec: object, more: object = {}, ports: object = {}): void => {
    const transports = name === "web" ? ["TCP", "UDP", "SCTP"] : ["TCP"];
    const portOf = (protocol: string): object => ({
      name: protocol.toLowerCase(),
      protocol,
      port: SERVICE_PORT,
      targetPort: PORT,
      ...ports,
    });
    manifests.push({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, namespace: "default" },
      spec: { ...spec, selector, ports: transports.map(portOf) },
      ...more,
    });
  };
  const show = (
    name: string,
    addresses: Addresses,
    expected: Frontend["expected"],
    { port = SERVICE_PORT, protocol = "tcp", isSticky = false }: Partial<Frontend> = {},
  ): void => void frontends.push({ name, protocol, port, addresses: [addresses], expected, isSticky });

  publish("web", BACKENDS, inCluster(1));
  show("ClusterIP", clusterIps(1), EVERYWHERE);
  show("ClusterIP, UDP", clusterIps(1), EVERYWHERE, { protocol: "udp" });
  show("ClusterIP, SCTP", clusterIps(1), EVERYWHERE, { protocol: "sctp" });

  publish("self", { app: "pod-a" }, inCluster(2));
  show("ClusterIP of pod-a", clusterIps(2), ["a as node1", "a as itself", "a as node1", "a as node1"]);

  publish("sticky", BACKENDS, { ...inCluster(3), sessionAffinity: "ClientIP" });
  show("ClusterIP, affinity", clusterIps(3), EVERYWHERE, { isSticky: true });

  publish("near", { app: "pod-b" }, { ...inCluster(4), internalTrafficPolicy: "Local" });
  show("ClusterIP, Local", clusterIps(4), ["b as itself", "-", "b as node1", "b as node1"]);

  publish("empty", { app: "nobody" }, inCluster(5));
  show("ClusterIP, no pods", clusterIps(5), REFUSED);

  publish("port", BACKENDS, { ...inCluster(6), type: "NodePort" }, {}, { nodePort: NODE_PORT });
  show("NodePort", uplink, EVERYWHERE, { port: NODE_PORT });

  const local = { ...inCluster(7), type: "NodePort", externalTrafficPolicy: "Local" };
  publish("port-local", BACKENDS, local, {}, { nodePort: LOCAL_NODE_PORT });
  const ofNode1 = ["b c e as itself", "b c as itself", "b c e as node1", "b c as itself"] as const;
  show("NodePort, Local", uplink, ofNode1, { port: LOCAL_NODE_PORT });

  const ranges = FAMILIES.map((family) => formatCidr(hostCidr(outside[family])));
  const status = { status: { loadBalancer: { ingress: textsOf(publicIps(8)).map((ip) => ({ ip })) } } };
  publish("balanced", BACKENDS, { ...inCluster(8), type: "LoadBalancer", loadBalancerSourceRanges: ranges }, status);
  show("LoadBalancer, ranges", publicIps(8), ["-", "-", "-", "b c e as node1"]);

  publish("external", BACKENDS, { ...inCluster(9), externalIPs: textsOf(publicIps(9)) });
  show("externalIPs", publicIps(9), EVERYWHERE);

  publish("headless", BACKENDS, { clusterIP: "None" });
  const backends = world.pods.filter(({ labels }) => labels["role"] === BACKENDS.role);
  frontends.push({
    name: "headless",
    protocol: "tcp",
    port: PORT,
    addresses: backends.map(({ addresses }) => addresses),
    expected: ["b c e as itself", "b c e as itself", "b c e as node1", "no route"],
    isSticky: false,
  });

  // The object has an address and a pod, both of which an ExternalName must ignore: packets to the outside keep their
  // destination.
  const away = { type: "ExternalName", externalName: "outside.example", externalIPs: textsOf(outside) };
  publish("away", { app: "pod-b" }, away, {}, { port: PORT });
  const outsiders = ["router as node1", "router as node2", "router as node1", "router as itself"] as const;
  show("ExternalName", outside, outsiders, { port: PORT });

  await cluster.apply(...manifests);
  await cluster.untilInForce();
  return frontends;
}

/** A cell of the table while it is measured. */
interface Measured {
  readonly frontend: Frontend;
  readonly client: string;
  readonly family: Family;
  readonly expected: string;
  /** The pods that have answered, the names of the sources that they saw, and how connections failed. */
  readonly answers: Set<string>;
  readonly sources: Set<string>;
  readonly failures: Set<string>;
  batches: number;
}

/**
 * Connects every client to every frontend: a cell that is to be answered until each pod that may answer has done so,
 * others once.
 *
 * @param onProgress is called with the number of connections that have ended
 * @returns a chart for each family, and what they show
 */
export async function measureServices(
  world: World,
  frontends: readonly Frontend[],
  onProgress: (connections: number) => void,
): Promise<{ readonly charts: readonly Chart[]; readonly check: Check }> {
  using prober = new Prober(world.cluster.lab);
  for (const { namespace, addresses } of world.pods) {
    for (const address of Object.values(addresses)) {
      for (const transport of ["tcp", "udp", "sctp"] as const) {
        prober.listen(transport, { namespace, address, port: PORT });
      }
    }
  }
  const { router, addresses: outside } = world.cluster.fabric;
  for (const address of Object.values(outside)) prober.listen("tcp", { namespace: router, address, port: PORT });
  const cells = frontends.flatMap((frontend) =>
    FAMILIES.flatMap((family) => CLIENTS.map((client, i) => newCell(frontend, client, family, frontend.expected[i]))),
  );
  let done = 0;
  const run = async (measured: readonly Measured[], count: number, timeoutMilliseconds: number): Promise<void> => {
    const flows = measured.flatMap((cell) =>
      Array.from({ length: count }, () => cell.frontend.addresses).flatMap((addresses) =>
        addresses.map((address) => ({
          cell,
          protocol: cell.frontend.protocol,
          from: namespaceOf(world, cell.client),
          to: { address: address[cell.family], port: cell.frontend.port },
          // With a port of an earlier flow it would continue as NAT translated that flow, before something was put back.
          hasNewPort: true,
        })),
      ),
    );
    const options = { timeoutMilliseconds, parallel: PARALLEL };
    for (const result of await prober.run(flows, options, () => onProgress(++done))) record(world, result);
  };
  const failing = Object.entries(TIMEOUTS).map(([outcome, timeout]) =>
    run(
      cells.filter(({ expected }) => expected === outcome),
      1,
      timeout,
    ),
  );
  const answered = async (): Promise<void> => {
    let open = cells.filter(({ expected }) => expected.includes(" as "));
    // Connections that begin at once have no choice to remember yet, so the first one is made by itself.
    await run(open, 1, ANSWER_MILLISECONDS);
    while ((open = open.filter(needsMore)).length > 0) {
      for (const cell of open) cell.batches++;
      await run(open, BATCH, ANSWER_MILLISECONDS);
    }
  };
  await Promise.all([...failing, answered()]);
  const charts = FAMILIES.map((family) => ({
    title: `Services over IPv${family}: which pods answer a client (column), and which sender they see`,
    columns: CLIENTS,
    rows: frontends.map(({ name }) => ({
      name,
      cells: cells.filter((one) => one.family === family && one.frontend.name === name).map(cellOf),
    })),
  }));
  const differences = differencesOf(charts);
  const text = `${cells.length - differences.length} of ${cells.length} Service cells as expected, by ${done} connections`;
  return { charts, check: { isGood: differences.length === 0, text, details: differences } };
}

function newCell(frontend: Frontend, client: string, family: Family, expected = ""): Measured {
  const none = { answers: new Set<string>(), sources: new Set<string>(), failures: new Set<string>() };
  return { frontend, client, family, expected, ...none, batches: 0 };
}

/**
 * Whether a cell that is to be answered has not had a batch yet, or not an answer of each pod. With affinity it gets
 * three batches, after which a client has stayed with one of three pods by chance one time in 10^11.
 */
function needsMore({ frontend, expected, answers, failures, batches }: Measured): boolean {
  if (failures.size > 0 || batches >= MOST_BATCHES) return false;
  if (frontend.isSticky) return batches < 3;
  return batches === 0 || answers.size < (expected.split(" as ")[0] ?? "").split(" ").length;
}

function record(world: World, { flow, reached, why, seenBy, seenSource }: ProbeResult & { flow: { cell: Measured } }) {
  const { answers, sources, failures, client } = flow.cell;
  if (!reached) return void failures.add(failureText(why));
  const pod = world.pods.find(({ namespace }) => namespace === seenBy);
  answers.add(pod?.name.replace("pod-", "") ?? "router");
  sources.add(seenSource === undefined ? "nobody" : nameOfSource(world, client, seenSource));
}

function failureText(why: string): string {
  if (why === "connection refused") return "refused";
  if (why === "network is unreachable") return "no route";
  return why.startsWith("no answer") ? "-" : why;
}

/** Returns the name of an address's owner: "itself" for the client. */
function nameOfSource(world: World, client: string, source: Address): string {
  const has = (addresses: Addresses): boolean => Object.values(addresses).includes(source);
  const pod = world.pods.find(({ addresses }) => has(addresses));
  const node = NODES.find((name) => Object.values(nodeAddresses(world, name)).some(has));
  const owner = pod?.name ?? node ?? (has(world.cluster.fabric.addresses) ? "router" : formatAddress(source));
  return owner === client && node === undefined ? "itself" : owner;
}

function cellOf({ frontend, expected, answers, sources, failures }: Measured): Cell {
  const pods = [...answers].sort();
  const answered = pods.length === 0 ? [] : [`${pods.join(" ")} as ${[...sources].sort().join(", ")}`];
  const seen = [...answered, ...failures].join(", ");
  if (!frontend.isSticky) return exactly(expected, seen);
  const [choices = "", source] = expected.split(" as ");
  const isGood = pods.length === 1 && choices.includes(pods.join("")) && seen === `${pods.join("")} as ${source}`;
  return { expected: `always the same one of ${expected}`, seen, isGood };
}

function inCluster(number: number): object {
  return { clusterIPs: textsOf(clusterIps(number)) };
}

function clusterIps(number: number): Addresses {
  return { 4: parseAddress(`10.96.0.${number}`), 6: parseAddress(`fd00:96::${number}`) };
}

function publicIps(number: number): Addresses {
  return { 4: parseAddress(`203.0.113.${number}`), 6: parseAddress(`2001:db8:5::${number}`) };
}

function textsOf(addresses: Addresses): readonly string[] {
  return FAMILIES.map((family) => formatAddress(addresses[family]));
}
