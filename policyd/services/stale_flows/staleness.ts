import type { ConntrackFilter, TupleFilter } from "../../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { type Address, FAMILIES } from "../../../kernel/ip/address.ts";
import { type FrontendId, frontendId } from "../elements/arbitration.ts";
import { socketText } from "../elements/socket_address.ts";
import type { FrontendTargets } from "./former_frontends.ts";
import type { Suspicion } from "./frontend_index.ts";

/** The facts by which flows are checked. */
export interface Judgement {
  readonly suspicions: ReadonlyMap<FrontendId, Suspicion>;
  /** Whether any Service has a frontend at present. */
  readonly isFrontend: (id: FrontendId) => boolean;
  /** Whether the Service that has a frontend has an endpoint (`socketText`) at present. */
  readonly isTarget: (id: FrontendId, target: string) => boolean;
  /** Whether an address serves NodePorts: it is the node's own, and one of `nodePortAddresses`. */
  readonly servesNodePorts: (address: Address) => boolean;
}

/**
 * Returns whether a UDP flow was decided by a state that no longer exists, and has to be deleted so that the client's
 * next packet is decided again (SVC-27). A flow's frontend is found as by the rules: by address first, then by port
 * (SVC-18).
 *
 * - If the Service has the flow's endpoint, or had it when the round began, the flow is valid, even while the endpoint
 *   terminates (TERM-04). The next round checks endpoints lost since then.
 * - A flow to no endpoint was created when the frontend had none or did not exist: it is stale once the frontend has
 *   one.
 * - A flow that was translated to anything else is stale. If the frontend is gone, it is stale only if it went to one
 *   of the frontend's endpoints: another program's translations are not ours.
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

/** Returns the frontend by which a flow to an address and port is checked; undefined if it is not a suspect. */
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
 * Returns the filters for the kernel: at most one per family, narrowed by what all frontends have in common, since the
 * kernel walks its whole table for each.
 */
export function questionsFor(
  frontends: Iterable<Pick<FrontendTargets, "family" | "frontend">>,
  wanted: Pick<ConntrackFilter, "protocol" | "status"> = { protocol: "udp" },
): readonly ConntrackFilter[] {
  const all = [...frontends];
  return FAMILIES.flatMap((family): readonly ConntrackFilter[] => {
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
