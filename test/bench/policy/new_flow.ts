import type { Lab } from "../../lab/lab.ts";
import { type ComparedGoal, type Row, compared, interleave } from "../row.ts";
import { median } from "../statistics.ts";
import { attachmentOf, changeTo, namespaceManifests, nodeManifest, podManifest, policyManifest } from "./cluster.ts";
import { type Crowd, crowd, prefixManifests } from "./crowd.ts";
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

/** Measures a flow's first packet from a pod to another's socket, and further ones, by the policies on the other. */
export async function newFlow(lab: Lab, plan: Plan): Promise<readonly Row[]> {
  const many = crowd(plan.policiesOnOnePod);
  const one = crowd(1);
  using none = stand(lab, "no rules at all", one);
  using open = await oursWith(lab, "no policy", crowd(0), []);
  using ofOne = await oursWith(lab, "one policy", one, one.policies.map(policyManifest));
  using ofMany = await oursWith(lab, countText(many), many, many.policies.map(policyManifest));
  using ofPrefixes = await oursWith(lab, `${countText(many)} of a prefix each`, many, prefixManifests(many));
  const first: Measure = { what: "first packet", packets: (wire) => wire.firstPackets(PACKETS) };
  const next: Measure = { what: "further packet", packets: (wire) => wire.furtherPackets(PACKETS) };
  const pair = (ours: Stand, peer: Stand, goal?: ComparedGoal): Row =>
    pairOf(first, plan.packetPairs, [ours, peer], goal);
  return [
    pair(ofMany, ofOne, { ratioAtMost: MOST }),
    pair(ofPrefixes, ofOne, { ratioAtMost: MOST }),
    pair(ofOne, open),
    pair(open, none),
    pair(ofMany, none),
    pairOf(next, plan.packetPairs, [ofMany, none]),
  ];
}

interface Measure {
  readonly what: string;
  readonly packets: (wire: Wire) => readonly number[];
}

function pairOf(
  { what, packets }: Measure,
  rounds: number,
  [ours, peer]: readonly [Stand, Stand],
  goal?: ComparedGoal,
): Row {
  const measure =
    ({ wire }: Stand) =>
    (): number =>
      median(packets(wire));
  return compared(`${what}, ${ours.name}`, "µs", peer.name, interleave(rounds, measure(ours), measure(peer)), goal);
}

let stands = 0;

function stand(lab: Lab, name: string, { client, server }: Crowd): Stand {
  const wire = new Wire(lab, lab.namespace(`stand-${stands++}`), client, server);
  const dispose = (): void => {
    wire[Symbol.dispose]();
  };
  return { name, wire, [Symbol.dispose]: dispose };
}

/**
 * Returns a node with our policies. The last policy, which allows the client, is added when the others are seen to deny
 * it.
 */
async function oursWith(lab: Lab, name: string, many: Crowd, policies: readonly object[]): Promise<Stand> {
  const without = stand(lab, name, many);
  const ours = new Ours(without.wire.node);
  const base = [...namespaceManifests(), nodeManifest(), ...many.pods.map(podManifest)];
  const [others, last] = [policies.slice(0, -1), policies.slice(-1)];
  await ours.load([...base, ...others].map(changeTo), [many.client, many.server].map(attachmentOf));
  if (others.length > 0 && without.wire.passes()) throw new Error(`${name}: a packet passed that no policy allows`);
  if (last.length > 0) await ours.change(last.map(changeTo));
  const dispose = (): void => {
    without[Symbol.dispose]();
    ours[Symbol.dispose]();
  };
  return { ...without, [Symbol.dispose]: dispose };
}

function countText({ policies }: Crowd): string {
  return `${policies.length.toLocaleString("en")} policies`;
}
