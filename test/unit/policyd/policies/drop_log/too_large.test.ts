import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { dropFields } from "../../../../../policyd/policies/drop_log/policy_drop_line.ts";
import { reducedCluster } from "../../../../../policyd/policies/drop_log/cluster_view.ts";
import { MOST_PAIRS, MOST_PROFILE_PAIRS } from "../../../../../policyd/policies/policy_size.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { storeView } from "../../../../support/policy/store_view.ts";
import { addressOf, threeByThree } from "../../../../support/policy/three_by_three.ts";

const [FROM, TO] = [parseAddress(addressOf("x/a")), parseAddress(addressOf("x/c"))];

/** A policy for the destination with this number of equal peers. */
function policy(
  name: string,
  pairs: number,
  { annotations = {}, peer = { podSelector: {} } }: { readonly annotations?: object; readonly peer?: object } = {},
): object {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace: "x", annotations },
    spec: {
      podSelector: { matchLabels: { pod: "c" } },
      ingress: [{ from: Array.from({ length: pairs }, () => peer) }],
    },
  };
}

function line(policies: readonly object[], outcome: "drop" | "would drop" = "drop") {
  const {
    because,
    policies: isolating,
    tooLarge,
    nearest,
  } = dropFields(
    storeView(storeOf([...threeByThree(), ...policies])),
    {
      origin: { direction: "ingress", key: "0123456789abcdef", outcome },
      source: FROM,
      destination: TO,
      protocol: "TCP",
      traffic: { protocol: "TCP", port: 80 },
    },
    { policePodToOwnNode: false, nodeLocalDNS: [] },
  );
  return { because, isolating, tooLarge, nearest };
}

describe("policyd/policies/drop_log: policies that are too large to allow anything", () => {
  it("DROP-01 POL-73: a drop by a policy that is too large names that policy, and does not claim to be allowed by now", () => {
    const said = { because: undefined, isolating: "x/big", tooLarge: "x/big", nearest: "none: they are too large" };
    assert.deepEqual(line([policy("big", MOST_PAIRS + 1)]), said);
    const annotations = { "drawbridge.dev/shadow": "true" };
    assert.deepEqual(line([policy("big", MOST_PAIRS + 1, { annotations })], "would drop"), said);
    assert.equal(line([policy("big", MOST_PAIRS)]).because, "policies allow it by now");
  });

  it("DROP-01 POL-73: a drop by a policy that is omitted after too many others names that policy", () => {
    const peer = { namespaceSelector: { matchLabels: { no: "one" } } };
    const others = ["a", "b"].map((name) => policy(name, MOST_PROFILE_PAIRS / 2, { peer }));
    assert.deepEqual(line([...others, policy("c", 1)]), {
      because: undefined,
      isolating: "x/a, x/b, x/c",
      tooLarge: "x/c",
      nearest: "x/a ingress[0], from[0], but its namespace has not no=one",
    });
  });

  it("DROP-05 POL-73: the rules of a policy that is too large are not searched", () => {
    const view = storeView(storeOf([...threeByThree(), policy("big", 60_000), policy("small", 7)]));
    const { networkPolicies } = reducedCluster(view, TO, FROM);
    const peers = [...networkPolicies.values()].map(
      ({ ingress }) => ingress.flatMap((rule) => rule.peers ?? []).length,
    );
    assert.deepEqual(peers, [0, 7]);
  });
});
