import assert from "node:assert/strict";
import type { Change } from "../../../../../kernel/nftables/encode/change.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { Element } from "../../../../../kernel/nftables/model/object.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import { Ruleset } from "../../../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../../../policyd/ruleset/schema.ts";
import { recordingNotices } from "../../../../support/recording_notices.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { tunnelNodes } from "../../../../../policyd/node/tables/tunnel_guard.ts";
import { INET_TABLE, joined } from "../../../../../policyd/ruleset/table_part.ts";
import { FRONTEND_KINDS } from "../../../../../policyd/services/rules/frontend_kind.ts";
import { numberMap } from "../../../../../policyd/services/rules/number_maps.ts";
import { DURATION_BITS } from "../../../../../policyd/services/rules/priority_number.ts";
import { services } from "../../../../../policyd/services/rules/services_part.ts";
import { problemReport } from "../../../../../policyd/services/problem_report.ts";
import { ServiceProxy } from "../../../../../policyd/services/service_proxy.ts";
import { readScenario, SERVICE_RULES } from "../../../../support/services/scenario.ts";

const TABLE = withVersion({ ...INET_TABLE, ...joined([tunnelNodes(), ...services(SERVICE_RULES)]) });
const NUMBER_MAPS = new Set(FRONTEND_KINDS.map(numberMap));

/** The elements and chains of a kernel that decide how long clients keep their endpoint. */
interface State {
  /** The numbers of timeouts that packets can get. */
  readonly numbers: ReadonlySet<number>;
  /** The chain to which each number leads. */
  readonly chains: ReadonlyMap<unknown, string>;
  /** The chains that have their rules. */
  readonly written: ReadonlySet<string>;
}

/** A kernel that reports the states before and after each commit. */
class WatchedNftables extends FakeNftables {
  readonly #report: (before: State, after: State) => void;

  constructor(report: (before: State, after: State) => void) {
    super();
    this.#report = report;
  }

  override commit(changes: readonly Change[]): void {
    const before = this.state();
    super.commit(changes);
    this.#report(before, this.state());
  }

  state(): State {
    if (this.table(TABLE) === undefined) return { numbers: new Set(), chains: new Map(), written: new Set() };
    const numbers = TABLE.sets
      .filter(({ name }) => NUMBER_MAPS.has(name))
      .flatMap((set) => this.elements(TABLE, set).map(({ data }) => numberOf(data)));
    const targets = (map: string): ReadonlyMap<unknown, string> => {
      const set = TABLE.sets.find(({ name }) => name === map) ?? assert.fail(map);
      return new Map(this.elements(TABLE, set).map(({ key: [number], data }) => [number, targetOf(data)]));
    };
    const chains = this.chains(TABLE).map(({ name = "" }) => name);
    const isWritten = (name: string): boolean =>
      this.rulesOf(TABLE, name).length === 3 && this.rulesOf(TABLE, name.replace("remember", "admit")).length === 2;
    const remembered = targets("remember");
    const admitted = [...targets("admit")].map(
      ([number, name]) => [number, name.replace("admit", "remember")] as const,
    );
    assert.deepEqual(new Map(admitted), remembered, "new and known clients have the same timeouts");
    return {
      numbers: new Set(numbers.filter((number) => number > 0)),
      chains: remembered,
      written: new Set(chains.filter((name) => name.startsWith("remember_") && isWritten(name))),
    };
  }
}

function numberOf(data: Element["data"]): number {
  const [number] = data !== undefined && !("kind" in data) ? data : [];
  return typeof number === "number" ? number & DURATION_BITS : 0;
}

function targetOf(data: Element["data"]): string {
  return data !== undefined && "kind" in data && "chain" in data ? data.chain : "";
}

/** Checks that a packet which is under way during a commit finds all chains and rules that it needs. */
function checkCommit(before: State, after: State): void {
  for (const number of [...before.numbers, ...after.numbers]) {
    assert.ok(after.chains.has(number), `number ${number} leads nowhere`);
  }
  // A packet uses the rules of the generation in which it arrived, and the elements of the generation in which it looks
  // up.
  const isNew = before.written.size === 0 && before.chains.size === 0 && before.numbers.size === 0;
  for (const chain of after.chains.values()) {
    assert.ok(after.written.has(chain) && (isNew || before.written.has(chain)), `${chain} has no rules yet`);
  }
}

function setUp() {
  const commits: State[] = [];
  const kernel = new WatchedNftables((before, after) => {
    checkCommit(before, after);
    commits.push(after);
  });
  const [clock, logger, events] = [new FakeClock(), recordingLogger(), recordingNotices()];
  const times = { minSyncPeriod: 0, syncPeriod: 3_600_000 };
  const ruleset = new Ruleset({ kernel, clock, logger, tables: [TABLE], ...times });
  const component = new ServiceProxy({
    nodeName: "node1",
    ruleset,
    clock,
    nodePortAddresses: [],
    refuseExternalIps: false,
    observers: [problemReport(logger, events)],
  });
  ruleset.start();
  const apply = (...timeouts: readonly (readonly [service: number, seconds: number | undefined])[]): void => {
    component.apply(
      timeouts.flatMap(([number, seconds]) =>
        readScenario(manifest(number, seconds)).map((object) => ({
          type: "set",
          kind: object.kind,
          key: object.key,
          object,
        })),
      ),
    );
  };
  const remove = (number: number): void =>
    component.apply([{ type: "delete", kind: "Service", key: `default/s${number}` }]);
  const settle = (): State => {
    clock.pass(10);
    assert.ok(ruleset.isReconciled, ruleset.status().lastError);
    assert.equal(ruleset.status().failures, 0, logger.lines.map(({ fields }) => fields["error"]).join());
    return kernel.state();
  };
  return { apply, remove, settle, commits, component, logger, events };
}

function manifest(number: number, seconds: number | undefined): string {
  const affinity =
    seconds === undefined
      ? ""
      : `, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: ${seconds}}}`;
  return `
apiVersion: v1
kind: Service
metadata: {name: s${number}, namespace: default}
spec: {type: ClusterIP, clusterIPs: [10.96.${number >> 8}.${number & 255}], ports: [{port: 80}]${affinity}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s${number}, namespace: default, labels: {kubernetes.io/service-name: s${number}}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.1.7], nodeName: node1}]
`;
}

describe("policyd/services: the rules of affinity timeouts", () => {
  it("SA-10: one of 128 timeouts is shortened, which is in the log, an Event and the status until another one ends", () => {
    const { apply, remove, settle, component, events, logger } = setUp();
    const all = Array.from({ length: 128 }, (_, i) => [i, 1001 + i] as const);
    apply(...all.slice(0, 127));
    assert.equal(settle().written.size, 127);
    assert.deepEqual(component.problems(), []);
    apply(...all.slice(127));
    assert.equal(settle().written.size, 127);
    const reported = [
      "Service default/s127: sessionAffinityConfig.clientIP.timeoutSeconds: 1128: more than 127 different timeouts are in use; clients stay for 1127 s, the next shorter one that is served",
    ];
    assert.deepEqual(component.problems(), reported);
    assert.deepEqual(
      events.notices.map(({ reason, note }) => [reason, note]),
      reported.map((note) => ["ServiceNotServed", note]),
    );
    assert.deepEqual(
      logger.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields["reason"]),
      reported,
    );
    remove(5);
    const { chains } = settle();
    assert.deepEqual(component.problems(), []);
    assert.ok([...chains.values()].includes("remember_1128"));
    assert.equal(chains.size, 127);
  });
});
