import assert from "node:assert/strict";
import fc from "fast-check";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { judge } from "../../../../objects/gate/gate.ts";
import { judgeNodes } from "../../../../objects/nodes/judged_nodes.ts";
import type { Node, ObjectChange, ServiceCidr } from "../../../../objects/model.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import { NodeClaimIndex } from "../../../../objects/nodes/overlap_index.ts";
import type { JudgedNodes } from "../../../../objects/nodes/node_verdict.ts";
import { node } from "../../../support/routes/machine.ts";

const NAMES = ["a", "b", "c", "d", "e", "f", "g"];
const OPTIONS = {
  nodeName: "a",
  ownCidrs: [parseCidr("10.244.1.0/24"), parseCidr("fd00:1::/64")],
  serviceCidrs: [parseCidr("10.96.0.0/24")],
};

/** Few prefixes and addresses, so that they often collide; some overlap, and some are invalid for any node. */
const someCidr = fc.oneof(
  fc
    .tuple(fc.nat({ max: 3 }), fc.constantFrom(22, 23, 24, 25))
    .map(([third, length]) => `10.244.${length < 24 ? third & ~((1 << (24 - length)) - 1) : third}.0/${length}`),
  fc.tuple(fc.nat({ max: 3 }), fc.constantFrom(63, 64)).map(([last, length]) => `fd00:${last}::/${length}`),
  fc.constantFrom("10.96.0.0/25", "0.0.0.0/0", "192.0.2.0/24", "10.97.0.0/24"),
);
const someAddress = fc.oneof(
  fc.nat({ max: 5 }).map((host) => `192.0.2.${host}`),
  fc.nat({ max: 3 }).map((third) => `10.244.${third}.7`),
  fc.constantFrom("10.96.0.7", "10.97.0.7", "127.0.0.1", "fd00:1::7", "fd00:2::7"),
);

type Drawn =
  | {
      readonly kind: "Node";
      readonly name: string;
      readonly addresses: string[];
      readonly external: string[];
      readonly podCidrs: string[];
    }
  | { readonly kind: "gone"; readonly name: string }
  | { readonly kind: "ServiceCIDR"; readonly cidrs: readonly string[] }
  | { readonly kind: "nothing" };

const someDrawn: fc.Arbitrary<Drawn> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constant("Node" as const),
      name: fc.constantFrom(...NAMES),
      addresses: fc.array(someAddress, { maxLength: 3 }),
      external: fc.array(someAddress, { maxLength: 1 }),
      podCidrs: fc.uniqueArray(someCidr, { maxLength: 2 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("gone" as const), name: fc.constantFrom(...NAMES) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("ServiceCIDR" as const),
      cidrs: fc.constantFrom<readonly string[]>([], ["10.97.0.0/24", "fd00:3::/112"], ["192.0.2.4/31"]),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("nothing" as const) }) },
);

function serviceCidr(cidrs: readonly string[]): ServiceCidr | undefined {
  if (cidrs.length === 0) return undefined;
  const verdict = judge({
    apiVersion: "networking.k8s.io/v1",
    kind: "ServiceCIDR",
    metadata: { name: "more" },
    spec: { cidrs },
  });
  if (verdict.type !== "accepted" || verdict.object.kind !== "ServiceCIDR") throw new Error("refused");
  return verdict.object;
}

/** A plain reference that judges all objects from the start each time. */
class PlainJudge {
  readonly nodes = new Map<string, Node>();
  services: ServiceCidr | undefined;
  earlier: JudgedNodes | undefined;

  judged(isSettled: boolean): JudgedNodes {
    const serviceCidrs = [...OPTIONS.serviceCidrs, ...(this.services?.cidrs ?? [])];
    this.earlier = judgeNodes(this.nodes.values(), {
      ...OPTIONS,
      serviceCidrs,
      earlier: isSettled ? this.earlier : undefined,
    });
    return this.earlier;
  }
}

function changeOf(drawn: Drawn, plain: PlainJudge): readonly ObjectChange[] {
  switch (drawn.kind) {
    case "Node": {
      const internal = node(drawn.name, drawn.addresses, drawn.podCidrs);
      const external = drawn.external.map((one) => ({ type: "ExternalIP", address: parseAddress(one) }) as const);
      const object = { ...internal, addresses: [...internal.addresses, ...external] };
      plain.nodes.set(drawn.name, object);
      return [{ type: "set", kind: "Node", key: drawn.name, object }];
    }
    case "gone":
      plain.nodes.delete(drawn.name);
      return [{ type: "delete", kind: "Node", key: drawn.name }];
    case "ServiceCIDR": {
      const object = serviceCidr(drawn.cidrs);
      plain.services = object;
      return object === undefined
        ? [{ type: "delete", kind: "ServiceCIDR", key: "more" }]
        : [{ type: "set", kind: "ServiceCIDR", key: "more", object }];
    }
    default:
      return [];
  }
}

/** The Nodes by name and the problems, as text. */
function textsOf({ nodes, problemsOf }: JudgedNodes): object {
  const texts = [...nodes.values()].map(({ name, addresses, podCidrs, ofOthersPods }) => [
    name,
    { addresses: addresses.map(formatAddress), podCidrs: podCidrs.map(formatCidr), ofOthersPods },
  ]);
  return { nodes: new Map(texts as [string, object][]), problems: new Map(problemsOf) };
}

describe("objects/nodes/node_judge", () => {
  it("D1: after any changes, a NodeJudge equals judging all Nodes from the start, its readers see each difference, and no other part gets a Node with an address of another node's pods", () => {
    const rounds = fc.array(fc.array(someDrawn, { minLength: 1, maxLength: 3 }), { maxLength: 12 });
    fc.assert(
      fc.property(rounds, rounds, (before, after) => {
        const judged = new NodeJudge(OPTIONS);
        const plain = new PlainJudge();
        const read = judged.reader();
        const known = new Map<string, string>();
        const passedOn = new Map<string, Node>();
        const compare = (isSettled: boolean): void => {
          const expected = plain.judged(isSettled);
          assert.deepEqual(textsOf(judged.judged), textsOf(expected));
          for (const name of read()) {
            const now = judged.judged.nodes.get(name);
            if (now === undefined) known.delete(name);
            else known.set(name, JSON.stringify([now.addresses.map(formatAddress), now.podCidrs.map(formatCidr)]));
          }
          const all = [...expected.nodes.values()].map(
            (one) =>
              [one.name, JSON.stringify([one.addresses.map(formatAddress), one.podCidrs.map(formatCidr)])] as const,
          );
          assert.deepEqual(known, new Map(all));
          for (const { name, addresses } of plain.nodes.values()) {
            const others = expected.nodes.get(name)?.ofOthersPods ?? [];
            const used = addresses.filter(({ address }) => !others.includes(address));
            assert.deepEqual(passedOn.get(name)?.addresses, used, name);
          }
        };
        const play = (round: readonly Drawn[]): boolean => {
          const distinct = new Map(round.map((drawn) => ["name" in drawn ? drawn.name : drawn.kind, drawn]));
          const servicesBefore = plain.services;
          const nodesBefore = new Map(plain.nodes);
          const changes = [...distinct.values()].flatMap((drawn) => changeOf(drawn, plain));
          for (const change of judged.apply(changes)) {
            if (change.type === "set" && change.object.kind === "Node") passedOn.set(change.key, change.object);
          }
          return servicesBefore !== plain.services || !sameObjects(nodesBefore, plain.nodes);
        };
        for (const round of before) {
          play(round);
          compare(false);
        }
        plain.judged(false);
        judged.synced();
        play([]);
        compare(true);
        // A change that says the same as before leads to no new judgement, so the plain reference must not judge
        // either.
        for (const round of after) if (play(round)) compare(true);
      }),
    );
  });

  it("a Node is judged together with the Nodes whose pod CIDR has its ExternalIP, and not with all that name the same ExternalIP", () => {
    const claims = new NodeClaimIndex();
    const [shared, podCidr] = [parseCidr("198.51.100.1/32"), parseCidr("198.51.100.0/24")];
    for (let i = 0; i < 300; i++) claims.set(`n${i}`, [], [shared]);
    assert.deepEqual(claims.together(["n7"], 256), new Set(["n7"]));
    claims.set("pods", [podCidr], []);
    assert.ok(claims.touching("n7").has("pods") && claims.touching("pods").has("n7"));
  });
});

function sameObjects(a: ReadonlyMap<string, Node>, b: ReadonlyMap<string, Node>): boolean {
  const text = (nodes: ReadonlyMap<string, Node>): string =>
    [...nodes.values()]
      .map(({ name, addresses, podCidrs }) =>
        [
          name,
          ...addresses.map(({ type, address }) => `${type} ${formatAddress(address)}`),
          ...podCidrs.map(formatCidr),
        ].join(),
      )
      .toSorted()
      .join("|");
  return text(a) === text(b);
}
