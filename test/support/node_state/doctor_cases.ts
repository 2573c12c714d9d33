import type { NodeFacts } from "../../../cli/node/doctor/facts.ts";
import { desiredBridges } from "../../../cni/node_state/desired.ts";
import { FakeNodeState } from "./fake_node_state.ts";
import { EVERYTHING } from "../../../cni/node_state/observed.ts";
import { RECORDS } from "./records.ts";

/** Returns the facts of a node whose bridge has lost some state. */
function harmed(harm: (kernel: FakeNodeState) => void): Partial<NodeFacts> {
  return {
    nodeState: {
      value: desiredBridges(RECORDS).map((desired) => {
        const kernel = new FakeNodeState(desired);
        harm(kernel);
        return { desired, observed: kernel.observe(desired, EVERYTHING) };
      }),
    },
  };
}

/** Cases of the doctor's tests: the check, the fault, the severity, and the message. */
export const NODE_STATE_CASES: readonly (readonly [string, Partial<NodeFacts>, string, RegExp])[] = [
  ["checksum-filter", { unfilteredBridges: { value: ["drawbridge0"] } }, "info", /drawbridge0 has no filter/],
  [
    "node-state",
    harmed((kernel) => {
      kernel.addresses = kernel.addresses.slice(1);
    }),
    "error",
    /expected to give the bridge the address 10\.244\.1\.1\/24/,
  ],
  [
    "node-state",
    harmed((kernel) => {
      kernel.neighbours.clear();
    }),
    "warning",
    /neighbour entry of 10\.244\.1\.2/,
  ],
];
