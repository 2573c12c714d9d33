import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { frame } from "../../../attachment/message_frame.ts";
import { replyToJson } from "../../../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { AttachmentRegistry } from "../../../policyd/attachments/registry.ts";
import { FakeClock } from "../../support/fake_clock.ts";
import { judge } from "../../../objects/gate/gate.ts";
import { NodeJudge } from "../../../objects/nodes/node_judge.ts";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { node } from "../../support/routes/machine.ts";
import { Daemon } from "../../../policyd/daemon.ts";
import type { ClusterObject, Kind, Node, ObjectChange } from "../../../objects/model.ts";
import type { ObjectConsumer, PodGate } from "../../../policyd/component.ts";
import { recordingNotices } from "../../support/recording_notices.ts";
import { recordingLogger } from "../../support/recording_logger.ts";
import type { ObjectSink, ObjectSource } from "../../../policyd/sources/object_source.ts";
import { attachmentRecord } from "../../support/cni/attachment_record.ts";
import { manifest } from "../objects/gate/objects.ts";

/** A source that reports what the test says. */
class ScriptedSource implements ObjectSource {
  sink: ObjectSink | undefined;
  found: readonly string[] = [];
  stale = 0;
  #objects: readonly ClusterObject[] = [];

  /** Reports a change. */
  tell(change: ObjectChange): void {
    const others = this.#objects.filter(({ kind, key }) => kind !== change.kind || key !== change.key);
    this.#objects = change.type === "set" ? [...others, change.object] : others;
    this.sink?.changed([change]);
  }

  find(kind: Kind, key: string): ClusterObject | undefined {
    return this.#objects.find((object) => object.kind === kind && object.key === key);
  }

  count(kind: Kind): number {
    return this.#objects.filter((object) => object.kind === kind).length;
  }

  start(sink: ObjectSink): void {
    this.sink = sink;
  }

  problems(): readonly string[] {
    return this.found;
  }

  staleness(): ReadonlyMap<string, number> {
    return new Map([["pods", this.stale]]);
  }

  stop(): void {
    this.sink = undefined;
  }
}

/** A component that records its calls. */
class NotingComponent implements ObjectConsumer, PodGate {
  readonly asked: string[] = [];
  failure: DrawbridgeError | undefined;
  /** An action during `unregister`. */
  leave: () => void = () => {};
  /** The promise that a registration waits for. */
  obstacle: Promise<void> | undefined;
  reason: string | undefined = "no Pod object";

  apply(changes: readonly ObjectChange[]): void {
    this.asked.push(`apply ${changes.map(({ key }) => key).join()}`);
  }

  synced(): void {
    this.asked.push("synced");
  }

  async register(): Promise<void> {
    this.asked.push("register");
    await this.obstacle;
    if (this.failure !== undefined) throw this.failure;
  }

  awaits(): string | undefined {
    return this.obstacle === undefined ? undefined : this.reason;
  }

  async unregister(): Promise<void> {
    this.asked.push("unregister");
    this.leave();
    if (this.failure !== undefined) throw this.failure;
  }

  problems(): readonly string[] {
    return ["kube-proxy: its rules are there", "routes: of the component"];
  }

  async stop(): Promise<void> {
    this.asked.push("stop");
  }
}

describe("policyd/daemon", () => {
  let source: ScriptedSource;
  let component: NotingComponent;
  let clock: FakeClock;
  let logger: ReturnType<typeof recordingLogger>;
  let events: ReturnType<typeof recordingNotices>;
  let daemon: Daemon;
  let attachments: AttachmentRegistry;

  beforeEach(() => {
    source = new ScriptedSource();
    component = new NotingComponent();
    clock = new FakeClock();
    logger = recordingLogger();
    events = recordingNotices();
    attachments = new AttachmentRegistry();
    daemon = new Daemon({
      version: "1.2.3",
      nodeName: "n",
      source,
      attachments,
      judge: new NodeJudge({ nodeName: "n", keeps: true, clock }),
      components: [component],
      logger,
      events,
      clock,
    });
    daemon.start();
  });

  it("D14: components get a Node that names no addresses for a while with those before, and one that loses them to another Node", () => {
    const given: string[] = [];
    component.apply = (changes: readonly ObjectChange[]) => {
      const nodes = changes.flatMap((one) => (one.type === "set" && one.object.kind === "Node" ? [one.object] : []));
      const text = nodes.map(({ name, addresses }) =>
        [name, ...addresses.map((one) => formatAddress(one.address))].join(" "),
      );
      given.push(text.join());
    };
    const external = { type: "ExternalIP", address: parseAddress("198.51.100.2") } as const;
    const named = node("b", ["192.0.2.2"], []);
    const tell = (object: Node): void => source.tell({ type: "set", kind: "Node", key: object.key, object });
    tell({ ...named, addresses: [...named.addresses, external] });
    source.sink?.synced();
    for (const one of [node("b", [], []), node("c", ["192.0.2.2"], []), node("b", [], [])]) tell(one);
    const whole = "b 192.0.2.2 198.51.100.2";
    assert.deepEqual(given, [whole, whole, "c 192.0.2.2,b", "b"]);
  });

  it("DOCTOR-18: the daemon passes objects on to its components and reports its status, errors of the node first", () => {
    const verdict = judge(manifest("Pod"));
    assert.ok(verdict.type === "accepted");
    const { kind, key } = verdict.object;
    source.tell({ type: "set", kind, key, object: verdict.object });
    assert.equal(daemon.status().isSynced, false);
    source.sink?.synced();
    clock.pass(2500);
    source.found = Array.from({ length: 30 }, (_, i) => `problem ${i}\n${"x".repeat(1000)}`);
    const { problems, objects, ...status } = daemon.status();
    assert.deepEqual(status, {
      version: "1.2.3",
      nodeName: "n",
      uptimeSeconds: 2,
      isSynced: true,
      attachments: 0,
      problemCount: 32,
    });
    const first = ["routes: of the component", "kube-proxy: its rules are there"];
    assert.deepEqual(problems.slice(0, 2), first, "those of objects do not hide those of the node");
    assert.equal(objects["Pod"], 1);
    assert.equal(problems.length, 20);
    assert.ok(problems.every((problem) => problem.length < 420 && !problem.includes("\n")));
    source.found = Array.from({ length: 30 }, () => "\u202e".repeat(1000));
    assert.ok(
      frame(replyToJson({ type: "status", status: daemon.status() })).length > 0,
      "the status fits into a message",
    );
    source.tell({ type: "delete", kind, key });
    assert.equal(daemon.status().objects["Pod"], 0);
    assert.deepEqual(component.asked, ["apply default/web", "synced", "apply default/web"]);
  });

  it("a registration is answered when the component has done it, and the attachment stays until it is removed", async () => {
    await daemon.register(attachmentRecord());
    assert.equal(daemon.status().attachments, 1);
    component.failure = new DrawbridgeError("ERR_NETLINK", "busy");
    await assert.rejects(daemon.register(attachmentRecord({ containerId: "c2" })), /busy/);
    await assert.rejects(daemon.unregister(attachmentRecord()), /busy/);
    assert.equal(daemon.status().attachments, 2, "an attachment that was not removed stays");
    component.failure = undefined;
    await daemon.unregister(attachmentRecord());
    assert.equal(daemon.status().attachments, 1);
  });

  it("REG-02: a registration says what it waits for before its client's timeout, and goes on afterwards", async () => {
    let arrive = (): void => {};
    component.obstacle = new Promise((resolve) => (arrive = resolve));
    const refusals: unknown[] = [];
    void daemon.register(attachmentRecord(), 1000).catch((error: unknown) => refusals.push(error));
    clock.pass(700);
    await turn();
    assert.deepEqual(refusals, [], "the registration still waits");
    clock.pass(100);
    await turn();
    assert.match(String(refusals), /within 1000 ms: no Pod object$/);
    arrive();
    assert.equal(daemon.status().attachments, 1, "the attachment stays, since its record exists");
    component.obstacle = undefined;
    await daemon.register(attachmentRecord({ containerId: "c2" }), 1000);
    assert.equal(clock.pending, 0);
  });

  it("STATUS-01: a registration that waits in vain fails with ERR_POD_UNKNOWN only where the API server does not have the Pod or Namespace, and with ERR_UNAVAILABLE where the daemon may not have read them yet", async () => {
    component.obstacle = new Promise(() => {});
    const codeOf = async (attachment = attachmentRecord()): Promise<unknown> => {
      const refused = daemon.register(attachment, 1000).catch((error: unknown) => error);
      clock.pass(1000);
      const error = await refused;
      return error instanceof DrawbridgeError ? error.code : error;
    };
    const tell = (kind: "Pod" | "Namespace", metadata: object): void => {
      const verdict = judge({ ...manifest(kind), metadata });
      assert.ok(verdict.type === "accepted");
      source.tell({ type: "set", kind, key: verdict.object.key, object: verdict.object });
    };
    assert.equal(await codeOf(), "ERR_UNAVAILABLE", "not all objects are read");
    source.sink?.synced();
    source.stale = 1;
    assert.equal(await codeOf(), "ERR_UNAVAILABLE", "the API server does not answer");
    source.stale = 0;
    assert.equal(await codeOf(), "ERR_POD_UNKNOWN");
    component.reason = undefined;
    assert.equal(await codeOf(), "ERR_UNAVAILABLE", "the kernel has not taken the rules");
    component.reason = "no Pod object";
    const { pod: _, ...withoutPod } = attachmentRecord();
    assert.equal(await codeOf(withoutPod), "ERR_UNAVAILABLE", "a sandbox without a Pod");
    tell("Pod", { namespace: "default", name: "web-0", uid: "another" });
    tell("Namespace", { name: "default" });
    assert.equal(await codeOf(), "ERR_POD_UNKNOWN", "the next Pod of this name");
    tell("Pod", { namespace: "default", name: "web-0", uid: "6a4a" });
    assert.equal(await codeOf(), "ERR_UNAVAILABLE");
    tell("Namespace", { name: "default", deletionTimestamp: "2026-01-01T00:00:00Z" });
    assert.equal(await codeOf(), "ERR_POD_UNKNOWN");
    source.tell({ type: "delete", kind: "Namespace", key: "default" });
    assert.equal(await codeOf(), "ERR_POD_UNKNOWN");
  });

  it("EVENT-07: a problem of an API object gives an Event, with the object's uid if it is known", () => {
    const verdict = judge({ ...manifest("Pod"), metadata: { name: "a", uid: "u-1" } });
    assert.ok(verdict.type === "accepted");
    const { kind, key } = verdict.object;
    source.tell({ type: "set", kind, key, object: verdict.object });
    source.sink?.problem("Pod default/a: nonsense", kind, key);
    source.sink?.problem("Service b: nonsense", "Service", "x/b");
    source.sink?.problem("a.yaml: Service c", "Service");
    assert.deepEqual(events.notices, [
      { regarding: { kind, key, uid: "u-1" }, reason: "NotUsedAsItIs", note: "Pod default/a: nonsense" },
      { regarding: { kind: "Service", key: "x/b", uid: "" }, reason: "NotUsedAsItIs", note: "Service b: nonsense" },
    ]);
    // Each line is paced in its author's namespace (SHARE-06).
    assert.deepEqual(logger.namespaces.slice(-3), ["default", "x", ""]);
  });

  it("API-24: a problem of the API server is logged as such and counts for no object", () => {
    source.sink?.sourceProblem("https://10.96.0.1: services: 429");
    assert.deepEqual(logger.lines.at(-1), {
      level: "warn",
      message: "objects cannot be followed",
      fields: { reason: "https://10.96.0.1: services: 429" },
    });
    assert.ok([...daemon.objectProblems().values()].every((count) => count === 0));
    assert.deepEqual(events.notices, []);
  });

  it("problems are logged as they come, and stopping the daemon stops its source and component", async () => {
    source.sink?.problem("a.yaml: nonsense");
    assert.deepEqual(logger.lines.at(-1), {
      level: "warn",
      message: "object not used as it is",
      fields: { reason: "a.yaml: nonsense" },
    });
    source.sink?.problem("a.yaml: Service a", "Service");
    source.sink?.problem("a.yaml: Service b", "Service");
    const { Service, Pod, other } = Object.fromEntries(daemon.objectProblems());
    assert.deepEqual({ Service, Pod, other }, { Service: 2, Pod: 0, other: 1 });
    await daemon.stop();
    assert.equal(source.sink, undefined);
    assert.deepEqual(component.asked, ["stop"]);
  });
});
