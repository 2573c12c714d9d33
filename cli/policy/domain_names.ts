import type {
  ClusterNetworkPolicy,
  ClusterPolicyPeer,
  ClusterPolicyRule,
  NetworkPolicy,
  PolicyPeer,
  PolicyRule,
} from "../../objects/model.ts";
import { printable, shortList } from "../../objects/printable.ts";
import type { PolicyIndex } from "../../objects/semantics/policies/policy_index.ts";
import { ExitCode, type Io } from "../io.ts";

const MOST_NAMED = 5;

/** Returns the domain names that rules of some clusters have. */
export function domainNamesIn(indexes: readonly PolicyIndex[]): readonly string[] {
  const policies = indexes.flatMap(({ networkPolicies, clusterPolicies }) => [...networkPolicies, ...clusterPolicies]);
  return namesIn(policies.map(({ policy }) => policy));
}

/** Returns the domain names that rules of some policies have, each once and sorted. */
export function namesIn(policies: readonly Pick<NetworkPolicy | ClusterNetworkPolicy, "egress">[]): readonly string[] {
  const rules = policies.flatMap(({ egress }): readonly (PolicyRule | ClusterPolicyRule)[] => egress);
  const peers = rules.flatMap((rule): readonly (PolicyPeer | ClusterPolicyPeer)[] => rule.peers ?? []);
  return [...new Set(peers.flatMap((peer) => (peer.type === "names" ? peer.names : [])))].sort();
}

/**
 * Returns the exit code of an answer about addresses, which leaves out those that pods reach by domain names, and says
 * so on stderr: such an answer must not seem whole.
 *
 * @param code that of the answer itself; a difference stays one
 */
export function exitCodeBeside({ err }: Pick<Io, "err">, indexes: readonly PolicyIndex[], code: ExitCode): ExitCode {
  const names = domainNamesIn(indexes);
  if (names.length === 0) return code;
  const list = printable(shortList(names, MOST_NAMED));
  err.write(
    `left out: addresses that pods reach by the domain names ${list}; policy explain --to NAME answers for one\n`,
  );
  return code === ExitCode.NO ? code : ExitCode.ERROR;
}
