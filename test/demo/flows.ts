import { type Family, FAMILIES } from "../../kernel/ip/address.ts";
import { Prober } from "../lab/probe/prober.ts";
import { type ProtocolName, PROTOCOLS } from "../lab/probe/protocol.ts";
import { type Cell, type Chart, type Check, differencesOf, exactly } from "./result.ts";
import { namespaceOf, nodeAddresses, NODES, PORT, type World } from "./world.ts";

/** The longest wait for an answer, on a busy machine. */
const TIMEOUT_MILLISECONDS = 3000;
/** The time in which a packet without an answer is sent several times (test/lab/probe/prober.ts). */
const DENIED_MILLISECONDS = 1200;
/** The number of flows at once, which is small so that none waits for this process. */
const PARALLEL = 128;

/** The letters of the protocols that a source's flows to a target are answered by, such as "TU--". */
export type Expectation = (source: string, target: string) => string;

export const EVERYTHING = "TUIS";

interface Question {
  readonly source: string;
  readonly target: string;
  readonly family: Family;
  readonly protocol: ProtocolName;
}

/**
 * Sends packets from all pods and nodes to every pod, in both families and every protocol: first those that are to be
 * answered, since the others only wait. A pod has to be seen with its only address, and a node with that of its link
 * towards the pod (POD-03, POD-04, POD-05).
 *
 * @param title of the charts, one for each family
 * @param onProgress is called with the number of flows that have ended
 */
export async function measureFlows(
  world: World,
  title: string,
  expectation: Expectation,
  onProgress: (done: number) => void,
): Promise<readonly Chart[]> {
  const names = world.pods.map(({ name }) => name);
  const sources = [...names, ...NODES];
  const questions = sources.flatMap((source) =>
    names
      .filter((target) => target !== source)
      .flatMap((target) =>
        FAMILIES.flatMap((family) => PROTOCOLS.map((protocol): Question => ({ source, target, family, protocol }))),
      ),
  );
  const seen = new Map<string, string>();
  using prober = new Prober(world.cluster.lab);
  for (const { namespace, addresses } of world.pods) {
    for (const family of FAMILIES) {
      for (const protocol of PROTOCOLS) prober.listen(protocol, { namespace, address: addresses[family], port: PORT });
    }
  }
  const run = async (isExpected: boolean, timeoutMilliseconds: number): Promise<void> => {
    const flows = questions
      .filter(({ source, target, protocol }) => isExpected === expectation(source, target).includes(letterOf(protocol)))
      .map((question) => {
        const address = world.pods.find(({ name }) => name === question.target)?.addresses[question.family];
        if (address === undefined) throw new Error(`the demo has no ${question.target}`);
        const from = namespaceOf(world, question.source);
        return { question, protocol: question.protocol, from, to: { address, port: PORT } };
      });
    await prober.run(flows, { timeoutMilliseconds, parallel: PARALLEL }, ({ flow, reached, seenSource }) => {
      const { question } = flow;
      const letter = letterOf(question.protocol);
      const isOwn = seenSource === ownAddress(world, question);
      seen.set(keyOf(question), reached ? (isOwn ? letter : letter.toLowerCase()) : "-");
      onProgress(seen.size);
    });
  };
  await run(true, TIMEOUT_MILLISECONDS);
  await run(false, DENIED_MILLISECONDS);
  const cell = (source: string, target: string, family: Family): Cell => {
    if (source === target) return exactly("·", "·");
    const letters = PROTOCOLS.map((protocol) => seen.get(keyOf({ source, target, family, protocol })) ?? "?");
    return exactly(expectation(source, target), letters.join(""));
  };
  return FAMILIES.map((family) => ({
    title: `IPv${family}${title}: answers by ${PROTOCOLS.join(", ")} from the row to the column`,
    columns: names,
    rows: sources.map((name) => ({ name, cells: names.map((target) => cell(name, target, family)) })),
  }));
}

/** Returns a statement about charts of flows. @param what is said before the numbers */
export function flowCheck(what: string, charts: readonly Chart[]): Check {
  const cells = charts.flatMap(({ rows }) => rows.flatMap((row) => row.cells)).filter(({ seen }) => seen !== "·");
  const count = (texts: readonly string[]): number => texts.join("").replaceAll("-", "").length;
  const [seen, expected] = [count(cells.map((one) => one.seen)), count(cells.map((one) => one.expected))];
  const differences = differencesOf(charts);
  const sum = cells.length * PROTOCOLS.length;
  return {
    isGood: differences.length === 0,
    text: `${what}${seen} of ${sum} flows answered, ${expected} expected; ${differences.length} cells differ`,
    details: differences,
  };
}

/** Returns the address with which a source has to be seen. */
function ownAddress(world: World, { source, target, family }: Question): unknown {
  const podOf = (wanted: string) => world.pods.find(({ name }) => name === wanted);
  const own = podOf(source);
  if (own !== undefined) return own.addresses[family];
  const node = NODES.find((name) => name === source);
  if (node === undefined) return undefined;
  return nodeAddresses(world, node)[podOf(target)?.node === node ? "bridge" : "uplink"][family];
}

function letterOf(protocol: ProtocolName): string {
  return protocol.slice(0, 1).toUpperCase();
}

function keyOf({ source, target, family, protocol }: Question): string {
  return `${source} ${target} ${family} ${protocol}`;
}
