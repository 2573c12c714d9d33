import assert from "node:assert/strict";
import { NodeJudge } from "../../../../../policyd/objects/nodes/node_judge.ts";
import type { Table } from "../../../../../kernel/nftables/model/object.ts";
import { addressPlus, formatAddress, parseAddress } from "../../../../../kernel/ip/address.ts";
import type { ClusterObject } from "../../../../../policyd/objects/model.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { DesiredElement } from "../../../../../policyd/ruleset/desired/desired_element.ts";
import { nodeTables } from "../../../../../policyd/node/tables/tables.ts";
import { ServiceProxy } from "../../../../../policyd/services/service_proxy.ts";
import { NODE_CONFIGURATION } from "../../../../support/guard/guarded_node.ts";
import { serviceManifest } from "../../../../support/services/manifest.ts";
import { readScenario, SERVICE_RULES } from "../../../../support/services/scenario.ts";

const SERVICES = 10_000;
const FIRST_IP = parseAddress("10.96.0.0");
const POD = { address: parseAddress("10.244.1.7"), nodeName: "node1" };

/** A node with this number of Services, and its claims. */
function served(count: number) {
  const claims = new Map<string, readonly DesiredElement[]>();
  const journal: string[] = [];
  const component = new ServiceProxy({
    nodeName: "node1",
    ruleset: {
      claim: (owner, wanted) => {
        journal.push(owner);
        claims.set(owner, wanted);
      },
      provide: () => {},
      follow: () => {},
      isReconciled: true,
    },
    clock: new FakeClock(),
    podCidrs: [],
    judge: new NodeJudge({ nodeName: "node1", ownCidrs: [] }),
    nodePortAddresses: [],
    refuseExternalIps: false,
  });
  const apply = (objects: readonly ClusterObject[]): void =>
    component.apply(objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
  for (let i = 0; i < count; i++) apply(numbered(i));
  return { claims, journal, apply };
}

const [template, ...slices] = readScenario(serviceManifest("s", [formatAddress(FIRST_IP)], [POD], {}, 20_000));

/** The Service of this number with its slices. */
function numbered(i: number): readonly ClusterObject[] {
  const address = addressPlus(FIRST_IP, BigInt(i));
  assert.ok(address !== undefined && template?.kind === "Service");
  const name = `s${i}`;
  const ports = template.ports.map((port) => ({ ...port, nodePort: 20_000 + i }));
  return [
    { ...template, name, key: `default/${name}`, clusterIps: [address], ports },
    ...slices.flatMap((slice) =>
      slice.kind === "EndpointSlice"
        ? [
            {
              ...slice,
              name: `${name}-${slice.addressType}`,
              key: `default/${name}-${slice.addressType}`,
              serviceName: name,
            },
          ]
        : [],
    ),
  ];
}

describe("services/compile: many Services", function () {
  this.timeout(60_000);

  it("MODE-03: ten thousand Services need no more chains, rules and sets than one, only elements", () => {
    const tables: readonly Table[] = nodeTables({ ...NODE_CONFIGURATION, services: SERVICE_RULES });
    const sets = new Set(tables.flatMap((table) => table.sets.map(({ name }) => `${table.family} ${name}`)));
    const setsOf = ({ claims }: ReturnType<typeof served>): readonly string[] =>
      [...new Set([...claims.values()].flat().map(({ table, set }) => `${table.family} ${set}`))].toSorted();
    const many = served(SERVICES);
    assert.deepEqual(setsOf(many), setsOf(served(1)));
    for (const set of setsOf(many)) assert.ok(sets.has(set), set);
    // For an element whose data is a verdict the kernel would check all chains.
    const verdicts = tables.flatMap(({ sets: own }) => own.filter(({ data }) => data === "verdict"));
    for (const { name } of verdicts) assert.ok(!setsOf(many).includes(`inet ${name}`), name);
    assert.equal(many.claims.get("Service default/s1")?.length, many.claims.get("Service default/s9999")?.length);
    // A change among many Services claims as much as without them.
    many.journal.length = 0;
    many.apply(numbered(7).filter(({ kind }) => kind === "EndpointSlice"));
    assert.deepEqual(new Set(many.journal), new Set(["Service default/s7"]));
  });
});
