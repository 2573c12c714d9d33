import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { dropFields } from "../../../../../policyd/policies/drop_log/policy_drop_line.ts";
import { MOST_PAIRS } from "../../../../../policyd/policies/policy_size.ts";
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
});
