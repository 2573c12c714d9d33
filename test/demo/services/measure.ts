import { formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { LabCalls } from "../../lab/libc.ts";
import { type Flow, Prober, type ProbeResult } from "../../lab/probe/prober.ts";
import { nameOf, namespaceOf, type World } from "../world.ts";
import { type Answer, answerKey, type ExpectedCell, letters, type Outcome, OUTCOMES, type SeenCell } from "./cells.ts";
import { nameOfSource, type Plan } from "./expectation.ts";
import { TARGET_PORT } from "./frontends.ts";
import type { PublishedServices } from "./publish.ts";

const TRANSPORTS = ["tcp", "udp", "sctp"] as const;

/** The number of further connections to a cell that is as expected so far. */
const BATCH = 8;
/** The largest number of batches, after which one of three pods is still unseen one time in 10^11. */
const MOST_BATCHES = 8;
/** The number of connections after which a client has stayed with one of two by chance one time in 10^7. */
const STICKY_CONNECTIONS = 24;

/**
 * The longest wait for each outcome. An answer gets enough time for a busy machine. The first SYN's refusal does not
 * end a connect(2) within one machine; the kernel sends further ones after 1, 3 and 7 seconds.
 */
const TIMEOUT_MILLISECONDS = { answered: 3000, "no answer": 1500, refused: 8000, "no route": 1500 } as const;

/**
 * The number of connections at once, which is small so that each gets its answer soon and none waits for this process.
 */
const PARALLEL = 64;

interface CellFlow extends Flow {
  readonly cell: Measured;
}

/** A cell with its results so far. */
interface Measured {
  readonly expected: ExpectedCell;
  readonly flows: readonly Omit<CellFlow, "cell">[];
  readonly answers: Map<string, Answer>;
  readonly failures: Set<string>;
  connections: number;
  batches: number;
}

/**
 * Connects every client to every frontend: a cell that is to be answered until each pod that may answer has done so,
 * others once.
 *
 * @param onProgress is called with the number of connections that have ended
 */
export async function measureServices(
  calls: LabCalls,
  world: World,
  services: PublishedServices,
  onProgress: (connections: number) => void,
): Promise<readonly SeenCell[]> {
  using prober = new Prober(calls);
  listen(prober, world, services);
  const cells = services.expected.map((expected) => newCell(world, services, expected));
  let done = 0;
  const run = async (flows: readonly CellFlow[], outcome: Outcome): Promise<void> => {
    const options = { timeoutMilliseconds: TIMEOUT_MILLISECONDS[outcome], parallel: PARALLEL };
    const results = await prober.run(flows, options, () => onProgress(++done));
    for (const result of results) record(world, services, result);
  };
  await Promise.all(
    OUTCOMES.map(async (outcome) => {
      const own = cells.filter(({ expected }) => expected.outcome === outcome);
      // Connections that begin at once have no choice to remember yet, so the first one is made by itself.
      await run(own.flatMap(first), outcome);
      for (let flows = own.flatMap(further); flows.length > 0; flows = own.flatMap(further)) await run(flows, outcome);
    }),
  );
  return cells.map(({ expected: { frontend, client, family }, connections, answers, failures }) => ({
    frontend,
    client,
    family,
    connections,
    answers: [...answers.values()].toSorted((a, b) => (a.by < b.by ? -1 : 1)),
    failures: [...failures].sort(),
  }));
}

function newCell(world: World, { frontends }: PublishedServices, expected: ExpectedCell): Measured {
  const from = namespaceOf(world, expected.client);
  const frontend = frontends.find(({ name }) => name === expected.frontend);
  const flows = (frontend?.addresses[expected.family] ?? []).flatMap((address) => {
    if (frontend === undefined) return [];
    const { protocol, port } = frontend;
    // With a port of an earlier flow it would continue as NAT translated that flow, before something was put back.
    return [{ protocol, from, to: { address, port }, hasNewPort: true }];
  });
  return { expected, flows, answers: new Map(), failures: new Set(), connections: 0, batches: 0 };
}

function first(cell: Measured): readonly CellFlow[] {
  return cell.flows.map((flow) => ({ ...flow, cell }));
}

/** Returns further flows of a cell; none when it has had enough, or when its connections fail. */
function further(cell: Measured): readonly CellFlow[] {
  const { expected, answers, failures } = cell;
  if (expected.outcome !== "answered" || failures.size > 0) return [];
  const seen = new Set([...answers.values()].map(({ by }) => by));
  const isComplete = expected.isSticky || expected.answers.every(({ by }) => seen.has(by));
  if (cell.batches >= (isComplete ? 1 : MOST_BATCHES)) return [];
  cell.batches++;
  const count = expected.isSticky ? STICKY_CONNECTIONS : BATCH;
  return Array.from({ length: count }, () => first(cell)).flat();
}

function record(world: World, { plan }: PublishedServices, result: ProbeResult<CellFlow>): void {
  const { flow, reached, why } = result;
  const { cell } = flow;
  cell.connections++;
  const answer = answerOf(world, plan, result);
  if (reached && answer !== undefined) return void cell.answers.set(answerKey(answer), answer);
  const lost = answer === undefined ? "" : `, though it came to ${letters([answer])} as ${answer.as}`;
  cell.failures.add(reached ? "an answer from nowhere" : `${failureText(why)}${lost}`);
}

/** Returns the receiver of the connection's packets, answered or not. */
function answerOf(world: World, plan: Plan, { flow, seenBy, seenSource }: ProbeResult<CellFlow>): Answer | undefined {
  if (seenBy === undefined || seenSource === undefined) return undefined;
  const as = nameOfSource(plan, flow.cell.expected.client, seenSource);
  return { by: nameOf(world, seenBy), source: formatAddress(seenSource), as };
}

function failureText(why: string): string {
  if (why === "connection refused") return "refused";
  if (why === "network is unreachable") return "no route";
  return why.startsWith("no answer") ? "no answer" : why;
}

function listen(prober: Prober, world: World, { plan }: PublishedServices): void {
  for (const { namespace, addresses } of world.pods) {
    for (const family of FAMILIES) {
      for (const transport of TRANSPORTS) {
        prober.listen(transport, { namespace, address: addresses[family], port: TARGET_PORT });
      }
    }
  }
  for (const address of Object.values(plan.router)) {
    prober.listen("tcp", { namespace: world.cluster.fabric.router, address, port: TARGET_PORT });
  }
}
