import type { NodeFacts } from "../../../cli/node/doctor/facts.ts";

/** Returns requests of a trial, each by what it needs; all but those with `undefined` at their end were refused. */
function trials(...requests: readonly (readonly (string | undefined)[])[]): Partial<NodeFacts> {
  const value = requests.map((request) => ({
    operation: "add it",
    needs: () => request.filter((part) => part !== undefined),
    refusal: request.includes(undefined) ? undefined : "add it: ENOENT",
  }));
  return { trials: { value } };
}

/** Cases of the doctor's tests: the check, the refused requests, the severity, and the message. */
export const TRIAL_CASES: readonly (readonly [string, Partial<NodeFacts>, string, RegExp])[] = [
  [
    "kernel-features",
    trials(["numgen", "ct"], ["ct", undefined]),
    "error",
    /^the kernel has no nftables "numgen" \(CONFIG_NFT_NUMGEN\)$/,
  ],
  ["kernel-features", trials(["chain nat"]), "error", /chains of the type nat \(CONFIG_NFT_NAT\)$/],
  ["kernel-features", trials(["ct"]), "error", /"ct" \(CONFIG_NFT_CT\)$/],
  // Requests that refer to a table that was refused are refused, too.
  [
    "kernel-features",
    trials(["table inet"], ["chain nat"], ["ct", "fib"]),
    "error",
    /^the kernel has no nftables tables of the family inet \(CONFIG_NF_TABLES_INET\)$/,
  ],
  ["kernel-features", trials(["table bridge"]), "error", /CONFIG_NF_TABLES_BRIDGE/],
  ["kernel-features", trials(["ct"], ["ct", undefined]), "error", /refuses the daemon's rules: add it: ENOENT$/],
];
