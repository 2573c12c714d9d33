import type { Lab } from "../../lab/lab.ts";
import { compared, interleave, type Row } from "../row.ts";
import { median } from "../statistics.ts";
import { attachmentOf, changeTo, namespaceManifests, nodeManifest, podManifest, policyManifest } from "./cluster.ts";
import { type Crowd, crowd } from "./crowd.ts";
import { Ours } from "./ours.ts";
import type { Plan } from "./plan.ts";
import { Wire } from "./wire.ts";

const PACKETS = 60;
const MOST = 2;

/** Two pods of a node, with the policies between them. */
interface Stand extends Disposable {
  readonly name: string;
  readonly wire: Wire;
}

/** Measures a flow's first packet from a pod to another's socket, by the number of policies on the other. */
export async function newFlow(lab: Lab, plan: Plan): Promise<readonly Row[]> {
  using ofOne = await oursWith(lab, crowd(1));
  using ofMany = await oursWith(lab, crowd(plan.policiesOnOnePod));
  const measure =
    ({ wire }: Stand) =>
    (): number =>
      median(wire.firstPackets(PACKETS));
  const pairs = interleave(plan.packetPairs, measure(ofMany), measure(ofOne));
  return [compared(`first packet, ${ofMany.name}`, "µs", ofOne.name, pairs, { ratioAtMost: MOST })];
}

let stands = 0;

/**
 * Returns a node with our policies. The last policy, which allows the client, is added when the others are seen to deny
 * it.
 */
async function oursWith(lab: Lab, { client, server, pods, policies }: Crowd): Promise<Stand> {
  const name = policies.length === 1 ? "one policy" : `${policies.length.toLocaleString("en")} policies`;
  const wire = new Wire(lab, lab.namespace(`stand-${stands++}`), client, server);
  const ours = new Ours(wire.node);
  const manifests = policies.map(policyManifest);
  const base = [...namespaceManifests(), nodeManifest(), ...pods.map(podManifest)];
  const [others, last] = [manifests.slice(0, -1), manifests.slice(-1)];
  await ours.load([...base, ...others].map(changeTo), [client, server].map(attachmentOf));
  if (others.length > 0 && wire.passes()) throw new Error(`${name}: a packet passed that no policy allows`);
  await ours.change(last.map(changeTo));
  const dispose = (): void => {
    wire[Symbol.dispose]();
    ours[Symbol.dispose]();
  };
  return { name, wire, [Symbol.dispose]: dispose };
}
