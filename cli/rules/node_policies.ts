import { hostCidr } from "../../kernel/ip/cidr.ts";
import type { Table } from "../../kernel/nftables/model/object.ts";
import type { ClusterObject, Pod } from "../../objects/model.ts";
import type { DesiredElement } from "../../policyd/ruleset/desired/desired_element.ts";
import { DesiredObjects } from "../../policyd/ruleset/desired/desired_objects.ts";
import { loggerOf } from "../../policyd/log/logger.ts";
import type { PolicyOptions } from "../../policyd/policies/compile/options.ts";
import { POLICY_TABLE } from "../../policyd/policies/compile/policy_table.ts";
import { LivePolicies } from "../../policyd/policies/live/live_policies.ts";
import { PolicyNotices } from "../../policyd/policies/status/policy_notices.ts";
import { wholeTable } from "./whole_table.ts";

/** The daemon's log is discarded: it would repeat the problems, which are printed. */
const SILENT = loggerOf("error", () => {});

/** The inputs for the policies of a node, and where their elements go. */
export interface PolicyPlace {
  readonly nodeName: string;
  readonly options: PolicyOptions;
  /** The table without the parts that depend on the cluster. */
  readonly table: Table;
  readonly claim: (owner: string, claims: readonly DesiredElement[]) => void;
}

/** The table with the sets and chains that policies add. */
export interface NodePolicies {
  readonly table: Table;
  /** Sentences about policies that are not enforced as written, and about pods that send and receive nothing. */
  readonly problems: readonly string[];
}

/**
 * Returns what the daemon makes of policies, computed by its own code in one pass.
 *
 * @param pods those that count as attached, with the addresses of their objects
 */
export function nodePolicies(
  objects: readonly ClusterObject[],
  pods: readonly Pod[],
  place: PolicyPlace,
): NodePolicies {
  const { nodeName, options, table, claim } = place;
  const wanted = new DesiredObjects([table]);
  const live = new LivePolicies({
    nodeName,
    options,
    clock: { now: () => 0, after: () => () => {} },
    isEarlier: undefined,
    rules: {
      claim: (owner, claims) => claim(`policy ${owner}`, claims),
      provide: (owner, provided) => void wanted.replace(owner, { table: POLICY_TABLE, ...provided }),
    },
  });
  const changes = objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object }) as const);
  const notices = new PolicyNotices({ logger: SILENT, events: { tell: () => {} }, isEnforced: true });
  notices.apply(changes);
  live.change(changes);
  for (const pod of pods) live.attach(attachmentOf(pod));
  live.start();
  while (live.step());
  return {
    table: wholeTable(table, wanted),
    problems: [...notices.problems(), ...live.problems()],
  };
}

/** Returns the fields of a pod's attachment that policies need. */
function attachmentOf({ key, namespace, name, uid, addresses }: Pod): Parameters<LivePolicies["attach"]>[0] {
  return {
    network: "",
    containerId: key,
    ifname: "eth0",
    pod: { namespace, name, uid },
    addresses: addresses.map((address) => hostCidr(address)),
  };
}
