import assert from "node:assert/strict";
import { ConntrackStatus } from "../../../../kernel/conntrack/entry.ts";
import type { ConntrackFilter } from "../../../../kernel/conntrack/filter.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import type { FlowTuples } from "../../../../kernel/conntrack/flow_tuples.ts";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import type { Commit } from "../../../../policyd/ruleset/commit.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { SocketProtection } from "../../../../policyd/protection/socket_protection.ts";
import type { ProtectedSocket } from "../../../../objects/socket_refusal.ts";
import { ProtectedSocketIndex } from "../../../../policyd/protection/socket_index.ts";
import { isTranslated, TranslatedFlows } from "../../../../policyd/protection/translated_flows.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const WHOLE: Commit = { isWhole: true, differences: [] };

function api(address: string, port = 6443): ProtectedSocket {
  return { address: parseAddress(address), protocol: "TCP", port, owner: "the API server" };
}

function flow(to: string, port: number, from: string, fromPort: number): FlowTuples {
  const [client, destination, server] = ["192.0.2.100", to, from].map((text) => parseAddress(text));
  assert.ok(client !== undefined && destination !== undefined && server !== undefined);
  return {
    family: 4,
    original: { source: client, sourcePort: 4000, destination, destinationPort: port },
    reply: { source: server, sourcePort: fromPort, destination: client, destinationPort: 4000 },
  };
}

function setUp(variable?: string) {
  const index = new ProtectedSocketIndex({ ports: [], sockets: [] }, new NodeJudge({ nodeName: "n1" }));
  const claims = new Map<string, readonly DesiredElement[]>();
  const early: string[] = [];
  const forgotten: string[] = [];
  const hooks: string[] = [];
  let follower: (commit: Commit) => void = () => {};
  const textOf = (sockets: readonly ProtectedSocket[]): string =>
    sockets.map(({ address, port }) => `${formatAddress(address)} ${port}`).join(", ");
  const component = new SocketProtection({
    index,
    ruleset: {
      claim: (owner, wanted) => void claims.set(owner, wanted),
      provide: (_, { chains }) => void hooks.splice(0, hooks.length, ...chains.map(({ name }) => name)),
      follow: (one) => void (follower = one),
      inForce: async () => true,
      isReconciled: true,
    },
    early: { write: (sockets) => void early.push(textOf(sockets)), remove: () => void early.push("removed") },
    flows: { forget: async (judged) => void forgotten.push(textOf(judged().sockets)), stop: () => {} },
    logger: recordingLogger(),
    ports: [],
    variable: variable === undefined ? undefined : parseAddress(variable),
    serviceCidrs: [],
  });
  const kept = (): readonly string[] => [...claims.values()].flat().map(({ element }) => keyText(element.key));
  return { index, component, early, forgotten, hooks, kept, commit: () => follower(WHOLE) };
}

describe("policyd/protection: connections that are not translated", () => {
  it("CLAIM-04 the early table has the API server's sockets until the first rules are in force", async () => {
    const { component, early, forgotten, hooks, kept, commit } = setUp();
    component.apply([]);
    assert.deepEqual(hooks, [], "without protected sockets there is no hook");
    await component.protect([api("192.0.2.1")]);
    assert.deepEqual([early, forgotten], [["192.0.2.1 6443"], ["192.0.2.1 6443"]]);
    assert.deepEqual(hooks, ["kept_prerouting", "kept_output"]);
    assert.deepEqual(kept(), [`${parseAddress("192.0.2.1")}|tcp|6443`], "the first batch has the socket");
    commit();
    assert.deepEqual(early, ["192.0.2.1 6443", "removed"]);
    await component.protect([api("192.0.2.2")]);
    assert.equal(early.length, 2, "later sockets are only claimed");
    assert.deepEqual(kept(), [`${parseAddress("192.0.2.2")}|tcp|6443`]);
    commit();
    assert.equal(early.length, 2);
    assert.equal(forgotten.at(-1), "192.0.2.2 6443");
  });

  it("CLAIM-04 the cluster IP of the Service kubernetes, which pods use for the API server, is still translated", async () => {
    const { component, early, forgotten, kept } = setUp("10.96.0.1");
    await component.protect([api("10.96.0.1", 443), api("192.0.2.1")]);
    assert.deepEqual([early, forgotten], [["192.0.2.1 6443"], ["192.0.2.1 6443"]]);
    const text = `
{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default},
  spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}}
`;
    component.apply(readScenario(text).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
    assert.deepEqual(kept(), [`${parseAddress("192.0.2.1")}|tcp|6443`]);
  });

  it("CLAIM-04 exactly the translated connections to protected sockets are forgotten", () => {
    const judged = {
      sockets: [api("192.0.2.1")],
      ports: [{ protocol: "TCP", port: 10_250, owner: "the kubelet" }] as const,
      nodeAddresses: new Set([parseAddress("192.0.2.11")]),
    };
    assert.equal(isTranslated(flow("192.0.2.1", 6443, "10.244.1.3", 8080), judged), true);
    assert.equal(isTranslated(flow("192.0.2.1", 6443, "192.0.2.1", 8080), judged), true);
    assert.equal(isTranslated(flow("192.0.2.1", 6443, "192.0.2.1", 6443), judged), false);
    assert.equal(isTranslated(flow("192.0.2.1", 443, "10.244.1.3", 8080), judged), false);
    assert.equal(isTranslated(flow("192.0.2.2", 6443, "10.244.1.3", 8080), judged), false);
    assert.equal(isTranslated(flow("192.0.2.11", 10_250, "10.244.1.3", 8080), judged), true);
    assert.equal(isTranslated(flow("192.0.2.12", 10_250, "10.244.1.3", 8080), judged), false);
    assert.equal(isTranslated(flow("192.0.2.11", 80, "10.244.1.3", 8080), judged), false);
  });

  it("CLAIM-04 translated connections are deleted for each protocol with a protected socket, and again after a refusal", async () => {
    const clock = new FakeClock();
    const asked: ConntrackFilter[] = [];
    let refuses = true;
    const flows = new TranslatedFlows({
      flows: {
        delete: async (filters) => {
          if (refuses) throw new DrawbridgeError("ERR_UNAVAILABLE", "no answer");
          asked.push(...filters);
          return 0;
        },
        nodeAddresses: () => new Set([parseAddress("fd00::1")]),
      },
      clock,
      logger: recordingLogger(),
    });
    const ports = [{ protocol: "UDP", port: 4789, owner: "the tunnel between nodes" }] as const;
    await flows.forget(() => ({ sockets: [api("192.0.2.1")], ports, nodeAddresses: new Set() }));
    assert.deepEqual(asked, []);
    refuses = false;
    clock.pass(5000);
    await new Promise(setImmediate);
    const status = { value: ConntrackStatus.DESTINATION_NAT, mask: ConntrackStatus.DESTINATION_NAT };
    assert.deepEqual(asked, [
      { family: 4, protocol: "tcp", status },
      { family: 6, protocol: "udp", status },
    ]);
    flows.stop();
  });
});
