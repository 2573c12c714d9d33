import type { ConntrackFilter, TupleFilter } from "../../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { FrontendId } from "../compile/arbitration.ts";
import { frontendId } from "../compile/arbitration.ts";
import { socketText } from "../compile/socket_address.ts";
import type { FrontendTargets } from "./former_frontends.ts";
import type { Suspicion } from "./frontend_index.ts";

/** What flows are judged by. */
export interface Judgement {
  readonly suspicions: ReadonlyMap<FrontendId, Suspicion>;
  /** Whether any Service has a frontend, now. */
  readonly isFrontend: (id: FrontendId) => boolean;
  /** Whether the Service that has a frontend has an endpoint (`socketText`), now. */
  readonly isTarget: (id: FrontendId, target: string) => boolean;
  /** Whether NodePorts are served by an address: it is the node's own, and one of `nodePortAddresses`. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/**
 * Whether a UDP flow was decided by what is no more, so that it has to be forgotten for the client's next packet to be
 * decided anew (SVC-27). A flow's frontend is found as rules find it: by address first, then by port (SVC-18).
 *
 * - Where the Service has the endpoint the flow goes to, or had it when the round began, it is in order, also while that
 *   terminates (TERM-04). What it lost since then is judged by the next round.
 * - A flow to no endpoint was made when the frontend had none, or was none: it is stale as soon as there is one.
 * - A flow that was translated to something else is stale; where the frontend is gone, only if it went to one of its
 *   endpoints: what another program translated is not ours.
 */
export function isStale({ family, original, reply }: FlowTuples, judgement: Judgement): boolean {
  const { destination: address, destinationPort: port } = original;
  if (port === undefined || reply.sourcePort === undefined) return false;
  const id = suspectOf(family, address, port, judgement);
  const suspicion = id === undefined ? undefined : judgement.suspicions.get(id);
  if (id === undefined || suspicion === undefined) return false;
  const { targets, former } = suspicion;
  const target = socketText({ address: reply.source, port: reply.sourcePort });
  if (targets?.has(target) === true || judgement.isTarget(id, target)) return false;
  const isTranslated = reply.source !== address || reply.sourcePort !== port;
  if (!isTranslated) return targets !== undefined && targets.size > 0;
  return targets !== undefined || former.has(target);
}

/** The frontend by which a flow to an address and port is judged; undefined where it is none under suspicion. */
function suspectOf(
  family: 4 | 6,
  address: Address,
  port: number,
  { suspicions, isFrontend, servesNodePorts }: Judgement,
): FrontendId | undefined {
  const byAddress = frontendId({ type: "cluster", address, port }, "UDP", family);
  if (suspicions.has(byAddress)) return byAddress;
  if (isFrontend(byAddress)) return undefined;
  const byPort = frontendId({ type: "node port", port }, "UDP", family);
  return suspicions.has(byPort) && servesNodePorts(address) ? byPort : undefined;
}

/**
 * What the kernel is asked for: one list per family at most, narrowed by what all the frontends have in common, as it
 * goes through its whole table for each.
 */
export function questionsFor(
  frontends: Iterable<Pick<FrontendTargets, "family" | "frontend">>,
  wanted: Pick<ConntrackFilter, "protocol" | "status"> = { protocol: "udp" },
): readonly ConntrackFilter[] {
  const all = [...frontends];
  return ([4, 6] as const).flatMap((family): readonly ConntrackFilter[] => {
    const ofFamily = all.filter((one) => one.family === family).map(({ frontend }) => frontend);
    if (ofFamily.length === 0) return [];
    const destinationPort = common(ofFamily.map(({ port }) => port));
    const destination = common(ofFamily.map((frontend) => ("address" in frontend ? frontend.address : undefined)));
    const original: TupleFilter = {
      ...(destinationPort === undefined ? {} : { destinationPort }),
      ...(destination === undefined ? {} : { destination }),
    };
    return [{ family, ...wanted, original }];
  });
}

function common<T>(values: readonly T[]): T | undefined {
  const [first] = values;
  return values.every((value) => value === first) ? first : undefined;
}
