import assert from "node:assert/strict";
import * as fc from "fast-check";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import { recordingNotices } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { ProtectedSocketIndex } from "../../../../policyd/protection/socket_index.ts";
import { problemReport } from "../../../../policyd/services/problem_report.ts";
import { ServiceProxy } from "../../../../policyd/services/service_proxy.ts";
import type { ObjectChange } from "../../../../objects/model.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const ADDRESSES = ["10.96.0.1", "192.0.2.1", "192.0.2.2", "10.244.1.7"];
const PORTS = [443, 10_250];

/** A component of Services with its index and its claims. */
function setUp() {
  const judge = new NodeJudge({ nodeName: "n1" });
  const ports = [{ protocol: "TCP", port: 10_250, owner: "the kubelet" }] as const;
  const protection = new ProtectedSocketIndex({ ports, sockets: [] }, judge);
  const claims = new Map<string, readonly DesiredElement[]>();
  const events = recordingNotices();
  const component = new ServiceProxy({
    nodeName: "n1",
    ruleset: {
      claim: (name, wanted) => void claims.set(name, wanted),
      provide: () => {},
      follow: () => {},
      isReconciled: false,
    },
    clock: new FakeClock(),
    podCidrs: [],
    judge,
    protection,
    nodePortAddresses: [],
    refuseExternalIps: false,
    observers: [problemReport(recordingLogger(), events)],
  });
  const content = (): readonly string[] =>
    [...claims.values()]
      .flat()
      .map(({ set, element }) => `${set} ${keyText(element.key)}`)
      .toSorted();
  return { component, protection, content, events };
}

const address = fc.constantFrom(...ADDRESSES);
const isGone = fc.constantFrom(false, false, true);

/** An object that comes, changes or goes. */
const change = fc.oneof(
  fc
    .record({
      name: fc.constantFrom("a", "b", "kubernetes"),
      clusterIP: address,
      externalIPs: fc.subarray(ADDRESSES),
      ingress: fc.subarray(ADDRESSES),
      port: fc.constantFrom(...PORTS),
      nodePort: fc.constantFrom(undefined, 30_001, 10_250),
      isGone,
    })
    .map((one) => {
      const spec = {
        clusterIP: one.clusterIP,
        externalIPs: one.externalIPs,
        ports: [{ port: one.port, nodePort: one.nodePort }],
        type: one.nodePort === undefined ? "ClusterIP" : "NodePort",
      };
      const status = { loadBalancer: { ingress: one.ingress.map((ip) => ({ ip })) } };
      return changeOf({ apiVersion: "v1", kind: "Service", metadata: { name: one.name }, spec, status }, one.isGone);
    }),
  fc.record({ address, port: fc.constantFrom(...PORTS), isGone }).map((one) =>
    changeOf(
      {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: { name: "kubernetes", labels: { "kubernetes.io/service-name": "kubernetes" } },
        addressType: "IPv4",
        ports: [{ port: one.port }],
        endpoints: [{ addresses: [one.address] }],
      },
      one.isGone,
    ),
  ),
  fc
    .record({
      name: fc.constantFrom("n1", "n2"),
      address,
      cidr: fc.constantFrom("10.244.1.0/24", "10.244.2.0/24"),
      isGone,
    })
    .map((one) =>
      changeOf(
        {
          apiVersion: "v1",
          kind: "Node",
          metadata: { name: one.name },
          spec: { podCIDRs: [one.cidr] },
          status: { addresses: [{ type: "InternalIP", address: one.address }] },
        },
        one.isGone,
      ),
    ),
  fc.record({ isGone }).map((one) =>
    changeOf(
      {
        apiVersion: "networking.k8s.io/v1",
        kind: "ServiceCIDR",
        metadata: { name: "kubernetes" },
        spec: { cidrs: ["10.96.0.0/16"] },
      },
      one.isGone,
    ),
  ),
  fc.record({ asked: address, port: fc.constantFrom(...PORTS) }),
);

function changeOf(source: object, gone: boolean): ObjectChange {
  const [object] = readScenario(JSON.stringify(source));
  assert.ok(object !== undefined);
  const { kind, key } = object;
  return gone ? { type: "delete", kind, key } : { type: "set", kind, key, object };
}

describe("policyd/protection: Services and protected sockets that come and go", function () {
  this.timeout(120_000);

  it("CLAIM-01 CLAIM-02 refusals depend only on the last state of the objects, not on the order of their changes", () => {
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 12 }), (changes) => {
        const followed = setUp();
        const last = new Map<string, ObjectChange>();
        let asked: Parameters<ProtectedSocketIndex["setAsked"]>[0] = [];
        for (const one of changes) {
          if ("asked" in one) {
            asked = [{ address: parseAddress(one.asked), protocol: "TCP", port: one.port, owner: "the API server" }];
            followed.protection.setAsked(asked);
          } else {
            last.set(`${one.kind} ${one.key}`, one);
            followed.component.apply([one]);
          }
        }
        const fresh = setUp();
        fresh.protection.setAsked(asked);
        fresh.component.apply([...last.values()]);
        assert.deepEqual(followed.content(), fresh.content());
      }),
      { numRuns: 200 },
    );
  });

  it("CLAIM-01 a refused socket gives its Service one Event, which says that all else is served", () => {
    const { component, protection, content, events } = setUp();
    const service = changeOf(
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "web", namespace: "team" },
        spec: {
          clusterIP: "10.96.0.9",
          externalIPs: ["192.0.2.1"],
          ports: [
            { name: "a", port: 443 },
            { name: "b", port: 80 },
          ],
        },
      },
      false,
    );
    component.apply([service]);
    assert.ok(
      content().some((text) => text.includes(`${parseAddress("192.0.2.1")}|tcp|443`)),
      "the socket is served at first",
    );
    const socket = { address: parseAddress("192.0.2.1"), protocol: "TCP", port: 443, owner: "the API server" } as const;
    protection.setAsked([socket]);
    component.apply([service]);
    assert.deepEqual(
      events.notices.map(({ reason, note }) => [reason, note]),
      [
        [
          "ServiceNotServed",
          "Service team/web: spec.externalIPs: 192.0.2.1 TCP 443 is protected for the API server: it is not served there; all else of the Service is",
        ],
      ],
    );
    const left = content().filter((text) => text.startsWith("unserved_service4"));
    assert.deepEqual(
      left.map((text) => text.replace("unserved_service4 ", "")),
      [
        ["10.96.0.9", 443],
        ["10.96.0.9", 80],
        ["192.0.2.1", 80],
      ]
        .map(([ip, port]) => `${parseAddress(String(ip))}|tcp|${port}`)
        .toSorted(),
    );
  });
});
