import * as fc from "fast-check";
import {
  mostly,
  NAMES,
  NAMESPACES,
  namespaceSelector,
  NUMBERS,
  podSelector,
  subjectSelector,
} from "./arbitrary_words.ts";
import type { RawLabels, RawNetworkPolicy } from "./raw_cluster.ts";

const SHADOW = "drawbridge.dev/shadow";

const BLOCKS = [
  { cidr: "0.0.0.0/0" },
  { cidr: "::/0" },
  { cidr: "10.244.0.0/16", except: ["10.244.1.0/24", "10.244.3.0/24"] },
  { cidr: "10.244.0.7/22", except: ["10.244.2.0/24"] },
  { cidr: "fd00:244::/32", except: ["fd00:244:1::/48"] },
  { cidr: "10.1.0.0/16" },
  { cidr: "10.240.0.0/24", except: ["10.240.0.2/32"] },
  { cidr: "192.0.2.0/24", except: ["192.0.2.64/26"] },
  { cidr: "fd00::/16" },
] as const;

const peer: fc.Arbitrary<object> = fc.oneof(
  { weight: 3, arbitrary: podSelector.map((one) => ({ podSelector: one })) },
  { weight: 3, arbitrary: namespaceSelector.map((one) => ({ namespaceSelector: one })) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(podSelector, namespaceSelector)
      .map(([pods, namespaces]) => ({ podSelector: pods, namespaceSelector: namespaces })),
  },
  { weight: 3, arbitrary: fc.constantFrom(...BLOCKS).map((ipBlock) => ({ ipBlock })) },
);

const protocol = mostly<string | undefined>(undefined, 5, "TCP", "UDP", "SCTP");

const port: fc.Arbitrary<object> = fc
  .record({
    protocol,
    rest: fc.oneof(
      { weight: 2, arbitrary: fc.constant({}) },
      { weight: 4, arbitrary: fc.constantFrom(...NUMBERS).map((number) => ({ port: number })) },
      { weight: 3, arbitrary: fc.constantFrom(...NAMES).map((name) => ({ port: name })) },
      {
        weight: 2,
        arbitrary: fc.constantFrom({ port: 53, endPort: 80 }, { port: 80, endPort: 8080 }, { port: 81, endPort: 81 }),
      },
    ),
  })
  .map(({ protocol: one, rest }) => (one === undefined ? rest : { protocol: one, ...rest }));

const orNothing = <T>(list: fc.Arbitrary<readonly T[]>): fc.Arbitrary<readonly T[] | null | undefined> =>
  fc.oneof({ weight: 4, arbitrary: list }, { weight: 1, arbitrary: fc.constantFrom(undefined, null, []) });

const lists = fc.record({
  peers: orNothing(fc.array(peer, { minLength: 1, maxLength: 2 })),
  ports: fc.oneof(
    { weight: 2, arbitrary: fc.constantFrom(undefined, null, []) },
    { weight: 3, arbitrary: fc.array(port, { minLength: 1, maxLength: 2 }) },
  ),
  isRenamed: fc.boolean(),
});

/** An ingress rule. Typed objects of client-node have `_from`; a rule without fields allows everyone. */
const ingressRule = lists.map(({ peers, ports, isRenamed }) =>
  isRenamed ? { _from: peers, ports } : { from: peers, ports },
);
const egressRule = lists.map(({ peers, ports }) => ({ to: peers, ports }));

const rules = (rule: fc.Arbitrary<object>): fc.Arbitrary<readonly object[] | null | undefined> =>
  fc.oneof(
    { weight: 2, arbitrary: fc.constantFrom(undefined, null, []) },
    { weight: 6, arbitrary: fc.array(rule, { minLength: 1, maxLength: 3 }) },
  );

const spec: fc.Arbitrary<RawNetworkPolicy["spec"]> = fc.record({
  podSelector: subjectSelector,
  policyTypes: fc.constantFrom(undefined, undefined, [], ["Ingress"], ["Egress"], ["Ingress", "Egress"]),
  ingress: rules(ingressRule),
  egress: rules(egressRule),
});

/** Annotations, mostly none; a value that is not "true" leaves the policy in force. */
const annotations = mostly<RawLabels | undefined>(undefined, 7, { [SHADOW]: "true" }, { [SHADOW]: "yes" });

/** Two to six policies with names of their own. */
export const networkPolicies: fc.Arbitrary<readonly RawNetworkPolicy[]> = fc
  .array(fc.record({ namespace: fc.constantFrom(...NAMESPACES, "n1", "n2"), annotations, spec }), {
    minLength: 2,
    maxLength: 6,
  })
  .map((all) =>
    all.map(({ namespace, annotations: some, spec: one }, index) => ({
      metadata: { name: `v${index}`, namespace, ...(some === undefined ? {} : { annotations: some }) },
      spec: one,
    })),
  );
