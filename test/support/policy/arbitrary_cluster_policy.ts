import * as fc from "fast-check";
import { mostly, NAMES, namespaceSelector, nodeSelector, NUMBERS, podSelector } from "./arbitrary_words.ts";

const NETWORKS = ["0.0.0.0/0", "::/0", "10.244.0.0/22", "10.240.0.1/32", "10.1.0.0/16", "fd00:244::/32"] as const;

const pods: fc.Arbitrary<object> = fc.oneof(
  namespaceSelector.map((namespaces) => ({ namespaces })),
  fc
    .tuple(namespaceSelector, podSelector)
    .map(([namespaces, one]) => ({ pods: { namespaceSelector: namespaces, podSelector: one } })),
  podSelector.map((one) => ({ pods: { podSelector: one } })),
);

const addresses: fc.Arbitrary<object> = fc.oneof(
  nodeSelector.map((nodes) => ({ nodes })),
  nodeSelector.map((nodes) => ({ nodes })),
  fc.subarray([...NETWORKS], { minLength: 1, maxLength: 3 }).map((networks) => ({ networks })),
);

const numbered = fc.record({
  member: mostly("tcp", 4, "udp", "sctp"),
  destinationPort: fc.oneof(
    fc.constantFrom(...NUMBERS).map((number) => ({ number })),
    fc.constantFrom({ start: 53, end: 80 }, { start: 80, end: 8080 }).map((range) => ({ range })),
  ),
});

const number: fc.Arbitrary<object> = numbered.map(({ member, destinationPort }) => ({
  [member]: { destinationPort },
}));

const name: fc.Arbitrary<object> = fc.constantFrom(...NAMES).map((one) => ({ destinationNamedPort: one }));

const protocols = (port: fc.Arbitrary<object>): fc.Arbitrary<readonly object[] | undefined> =>
  fc.option(fc.array(port, { minLength: 1, maxLength: 2 }), { nil: undefined });

const action = fc.constantFrom("Accept", "Deny", "Pass");

interface Rule {
  readonly action: string;
  readonly peers: readonly object[];
  readonly protocols: readonly object[] | undefined;
}

/** Named ports stand only beside pods, as the CRD demands. */
const rule = (isEgress: boolean): fc.Arbitrary<Rule> =>
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        action,
        peers: fc.array(pods, { minLength: 1, maxLength: 2 }),
        protocols: protocols(fc.oneof(number, name, name)),
      }),
    },
    {
      weight: isEgress ? 20 : 0,
      arbitrary: fc.record({
        action,
        peers: fc.array(fc.oneof(addresses, addresses, pods), { minLength: 1, maxLength: 2 }),
        protocols: protocols(number),
      }),
    },
    {
      weight: isEgress ? 4 : 0,
      arbitrary: fc.record({
        action: fc.constantFrom("Accept", "Accept", "Deny"),
        peers: fc.constant([{ domainNames: ["example.org"] }]),
        protocols: protocols(number),
      }),
    },
  );

function rawRule({ action: one, peers, protocols: ports }: Rule, key: "from" | "to"): object {
  return { action: one, [key]: peers, ...(ports === undefined ? {} : { protocols: ports }) };
}

/** Cluster policies, with few priorities, so that some are equal. */
export const arbitraryClusterPolicy: fc.Arbitrary<{ readonly spec: object }> = fc
  .record({
    tier: fc.constantFrom("Admin", "Baseline"),
    priority: fc.constantFrom(0, 10),
    subject: fc.oneof(fc.constant({ namespaces: {} }), pods),
    ingress: fc.array(rule(false), { maxLength: 3 }),
    egress: fc.array(rule(true), { maxLength: 3 }),
  })
  .map(({ ingress, egress, ...spec }) => ({
    spec: {
      ...spec,
      ingress: ingress.map((one) => rawRule(one, "from")),
      egress: egress.map((one) => rawRule(one, "to")),
    },
  }));
