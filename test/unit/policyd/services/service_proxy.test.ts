import assert from "node:assert/strict";
import type { Chain } from "../../../../kernel/nftables/model/object.ts";
import type { DesiredElement } from "../../../../policyd/ruleset/desired/desired_element.ts";
import type { Haste } from "../../../../policyd/ruleset/batch_window.ts";
import { DURATION_BITS } from "../../../../policyd/services/rules/priority_number.ts";
import { serviceProxy } from "../../../support/services/proxy.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const service = (name: string, clusterIp: string, extra = ""): string => `
apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: default}
spec: {type: ClusterIP, clusterIP: ${clusterIp}, clusterIPs: [${clusterIp}], ports: [{port: 80}]${extra}}
`;

function setUp() {
  const claims = new Map<string, readonly DesiredElement[]>();
  const provided = new Map<string, readonly Chain[]>();
  const journal: string[] = [];
  const hastes = new Map<string, Haste>();
  const logger = recordingLogger();
  const component = serviceProxy({
    nodeName: "node1",
    ruleset: {
      claim: (owner, wanted, haste) => {
        journal.push(owner);
        hastes.set(owner, haste ?? "usual");
        claims.set(owner, wanted);
      },
      provide: (owner, { chains }) => void provided.set(owner, chains),
    },
    logger,
  });
  const apply = (text: string): void => {
    component.apply(readScenario(text).map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
  };
  const remove = (name: string): void => component.apply([{ type: "delete", kind: "Service", key: `default/${name}` }]);
  const logged = () => logger.lines.map(({ fields }) => fields["reason"]);
  return { component, claims, provided, journal, hastes, apply, remove, logged };
}

const slice = (of: string, endpoint: string): string => `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ${of}-1, namespace: default, labels: {kubernetes.io/service-name: ${of}}}
addressType: IPv4
ports: [{protocol: TCP, port: 80}]
endpoints: [{addresses: [${endpoint}], conditions: {ready: true}}]
`;

describe("policyd/services: proxy", () => {
  it("a change claims only the elements of the Services that it touches (DP-02)", () => {
    const { apply, journal, claims } = setUp();
    apply(`${service("a", "10.96.0.1")}---${service("b", "10.96.0.2")}`);
    journal.length = 0;
    apply(service("b", "10.96.0.3"));
    assert.deepEqual(journal, ["Service default/b"]);
    assert.ok((claims.get("Service default/b") ?? []).length > 0);
  });

  it("MODE-04: two hooks check sources while any Service has source ranges, and none otherwise", () => {
    const { apply, remove, provided } = setUp();
    const hooks = (): readonly (string | undefined)[] =>
      (provided.get("source ranges") ?? []).map(({ base }) => base?.hook);
    const balancer = (name: string, address: string, ranges: string): string => `
apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: default}
spec: {type: LoadBalancer, clusterIP: ${address}, clusterIPs: [${address}], ports: [{port: 80}]${ranges}}
status: {loadBalancer: {ingress: [{ip: 192.0.2.80}]}}
`;
    apply(service("plain", "10.96.0.1") + "---" + balancer("open", "10.96.0.2", ""));
    assert.deepEqual(hooks(), []);
    const ranges = ', loadBalancerSourceRanges: ["192.0.2.0/24"]';
    apply(balancer("open", "10.96.0.2", ranges) + "---" + balancer("other", "10.96.0.3", ranges));
    assert.deepEqual(hooks(), ["prerouting", "output"]);
    remove("other");
    assert.deepEqual(hooks(), ["prerouting", "output"]);
    apply(balancer("open", "10.96.0.2", ""));
    assert.deepEqual(hooks(), []);
  });

  it("a frontend that two Services want goes to one of them, is reported, and is passed on (SVC-24)", () => {
    const { component, apply, journal } = setUp();
    apply(service("a", "10.96.0.1", ', externalIPs: ["10.96.0.2"]'));
    assert.deepEqual(component.problems(), []);
    apply(service("b", "10.96.0.2"));
    assert.match(component.problems().join(), /^Service default\/a: .* is Service default\/b's$/);
    journal.length = 0;
    component.apply([{ type: "delete", kind: "Service", key: "default/b" }]);
    assert.deepEqual(journal.toSorted(), ["Service default/a", "Service default/b"]);
    assert.deepEqual(component.problems(), []);
  });

  it("SA-10: one of 128 timeouts of affinity is shortened, which is in the log and the status until another one ends", () => {
    const { component, apply, remove, provided, claims, logged } = setUp();
    const affinity = (seconds: number): string =>
      `, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: ${seconds}}}`;
    const add = (from: number, to: number): void => {
      const numbers = Array.from({ length: to - from }, (_, index) => from + index);
      apply(numbers.map((i) => service(`s${i}`, `10.96.0.${i}`, affinity(1000 + i))).join("---"));
    };
    const written = (): readonly string[] => [...provided].flatMap(([, chains]) => chains.map(({ name }) => name));
    add(1, 128);
    assert.deepEqual(component.problems(), []);
    add(128, 129);
    const reported = [
      "Service default/s128: sessionAffinityConfig.clientIP.timeoutSeconds: 1128: more than 127 different timeouts are in use; clients stay for 1127 s, the next shorter one that is served",
    ];
    assert.deepEqual([component.problems(), logged()], [reported, reported]);
    assert.ok(!written().includes("remember_1128"));
    remove("s5");
    assert.deepEqual(component.problems(), []);
    assert.ok(written().includes("remember_1128"));
    assert.equal(claims.get("affinity timeout 1128")?.length, 2, "the elements that lead to its chains");
  });

  it("POD-20: the ports with session affinity are listed by the numbers that their clients' entries have", () => {
    const { component, claims, apply, remove } = setUp();
    const affinity = ", sessionAffinity: ClientIP";
    apply(`${service("a", "10.96.0.1", affinity)}---${slice("a", "10.244.1.7")}`);
    apply(`${service("b", "10.96.0.2")}---${slice("b", "10.244.1.8")}`);
    const { element } = claims.get("Service default/a")?.find(({ set }) => set.startsWith("number")) ?? {};
    const number = element?.data !== undefined && !("kind" in element.data) ? Number(element.data[0]) : 0;
    assert.ok((number & DURATION_BITS) > 0);
    assert.deepEqual([...component.affinityPorts()], [(number & ~DURATION_BITS) >>> 0]);
    apply(service("b", "10.96.0.2", affinity));
    assert.equal([...component.affinityPorts()].length, 2);
    remove("a");
    apply(service("b", "10.96.0.2"));
    assert.deepEqual([...component.affinityPorts()], []);
  });

  it("SYNC-09: only a new Service without a slice waits for its companion", () => {
    const { component, apply, hastes } = setUp();
    const haste = (): Haste | undefined => hastes.get("Service default/a");
    apply(service("a", "10.96.0.1"));
    assert.equal(haste(), "with its companion");
    apply(slice("a", "10.244.1.7"));
    assert.equal(haste(), "usual", "the slice comes");
    component.apply([{ type: "delete", kind: "EndpointSlice", key: "default/a-1" }]);
    assert.equal(haste(), "usual", "the Service loses its last slice");
    apply(service("a", "10.96.0.2"));
    assert.equal(haste(), "usual", "the Service changes without a slice");
    apply(`${service("b", "10.96.0.3")}---${slice("b", "10.244.1.8")}`);
    assert.equal(hastes.get("Service default/b"), "usual", "the Service comes together with its slice");
  });
});
