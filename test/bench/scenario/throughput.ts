import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import { addressOfNewPod, type Contestant, wiredSide } from "../contestant.ts";
import { IPERF_ADVICE, isIperfThere, LOADS, type Receiver } from "../iperf.ts";
import { compared, interleave, type Row } from "../row.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

const GOAL = { ratioAtLeast: 0.95 };

/**
 * Measures the throughput between pods.
 *
 * Each contestant has two nodes and a router of its own, with nothing else on them; they take turns. Sender, receiver
 * and the kernel between them share the machine's processors.
 */
export const throughput: Scenario = (context: Context): readonly Row[] => {
  if (!isIperfThere()) {
    context.progress(IPERF_ADVICE);
    return [];
  }
  using ourLab = createLab("bench-ours");
  using peerLab = createLab("bench-peer");
  const ours = wirePods(ourLab, context.runDirectory, context.ours);
  const peer = wirePods(peerLab, context.runDirectory, context.peer);
  return ROUTES.flatMap((route) =>
    LOADS.map(({ name, unit, stretches, measure }): Row => {
      const title = `${name}, ${route.title}`;
      const count = context.pairs * stretches;
      const pairs = interleave(
        count,
        () => measure({ ...ours, receiver: ours[route.receiver] }),
        () => measure({ ...peer, receiver: peer[route.receiver] }),
        (done) => context.progress(`${title} ${done}/${count}`),
      );
      return compared(title, unit, PEER, pairs, GOAL);
    }),
  );
};

/** Three pods on two nodes. */
interface Pods {
  /** The directory for iperf3's output. */
  readonly directory: string;
  readonly sender: LabPod;
  readonly neighbour: Receiver;
  readonly remote: Receiver;
}

/** The receivers of the sender's packets. */
const ROUTES = [
  { title: "same node", receiver: "neighbour" },
  { title: "across nodes", receiver: "remote" },
] as const;

/** Attaches the pods to fresh nodes. */
function wirePods(lab: Lab, runDirectory: string, contestant: Contestant): Pods {
  const { node1, node2 } = twoNodes(lab);
  const side1 = wiredSide(node1, runDirectory, contestant);
  const side2 = wiredSide(node2, runDirectory, contestant);
  const [sender, neighbour, remote] = [lab.pod("sender"), lab.pod("neighbour"), lab.pod("remote")];
  addressOfNewPod(side1, sender);
  return {
    directory: lab.scratch,
    sender,
    neighbour: { pod: neighbour, address: addressOfNewPod(side1, neighbour) },
    remote: { pod: remote, address: addressOfNewPod(side2, remote) },
  };
}
