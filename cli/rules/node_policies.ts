import { hostCidr } from "../../kernel/ip/cidr.ts";
import type { Table } from "../../kernel/nftables/object.ts";
import type { ClusterObject, Pod } from "../../policyd/cluster/model.ts";
import type { Claim } from "../../policyd/dataplane/claim.ts";
import { DesiredObjects } from "../../policyd/dataplane/desired_objects.ts";
import { loggerOf } from "../../policyd/log/logger.ts";
import type { PolicyOptions } from "../../policyd/policy/compile/options.ts";
import { POLICY_TABLE } from "../../policyd/policy/compile/policy_table.ts";
import { LivePolicies } from "../../policyd/policy/live/live_policies.ts";
import { PolicyNotices } from "../../policyd/policy/policy_notices.ts";
import { NO_RETAINED_FILES } from "../../policyd/policy/retained/retained_files.ts";
import { wholeTable } from "./whole_table.ts";

/** What it would log are the problems, which are printed. */
const SILENT = loggerOf("error", () => {});

/** What policies are worked out from, and where the elements they come to go. */
export interface PolicyPlace {
  readonly nodeName: string;
  readonly options: PolicyOptions;
  /** The table without what depends on the cluster. */
  readonly table: Table;
  readonly claim: (owner: string, claims: readonly Claim[]) => void;
}

/** The table with the sets and chains that policies add. */
export interface NodePolicies {
  readonly table: Table;
  /** What of policies is not as it says, and which pods send and receive nothing; for people. */
  readonly problems: readonly string[];
}

/**
 * What the daemon makes of policies, by its own code and in one go.
 *
 * @param pods those that are taken for attached, with the addresses their objects have
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
    retained: NO_RETAINED_FILES,
    areNamespacesTold: false,
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

/** What an attachment of the pod says of it, as far as policies ask. */
function attachmentOf({ key, namespace, name, uid, addresses }: Pod): Parameters<LivePolicies["attach"]>[0] {
  return {
    network: "",
    containerId: key,
    ifname: "eth0",
    pod: { namespace, name, uid },
    addresses: addresses.map((address) => hostCidr(address)),
  };
}
