import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { parseAddress } from "../../../kernel/ip/address.ts";
import type { PlannedFault } from "../../apiserver/faults.ts";
import { sample } from "../../apiserver/objects.ts";
import { add, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ApiNode, pod, slice } from "../../support/daemon/api_node.ts";
import { testLab } from "../../support/suite_lab.ts";
import { hasLongForm } from "../../support/long_form.ts";
import { until } from "../../support/until.ts";

const isFull = hasLongForm("a longer outage with 2,000 pods");
const FOREVER = 1e9;
/** The most requests in a minute: 6 attempts for each of 8 kinds, and 67 probes, each with a list and a watch. */
const MOST_A_MINUTE = 2 * (8 * 6 + 67);
/** The limit in milliseconds: the promised one if the machine has time, else one that only a hang exceeds. */
const CAUGHT_UP = isFull ? 2000 : 10_000;
/** The number of pods, against which the test sees what outages leave in the heap. */
const LOADED_PODS = isFull ? 2000 : 0;
const ENDPOINTS = ["first", "second"] as const;

interface Outage {
  readonly name: string;
  readonly seconds: number;
  /** The fault of every request. Without it and `strike`, which ends each watch over and over, nobody listens. */
  readonly fault?: PlannedFault["fault"];
  readonly strike?: number;
}

/** The seconds that each outage lasts in a full run. */
const LONG = 60;
const OUTAGES: readonly Outage[] = [
  { name: "nobody listens", seconds: 6 },
  { name: "it answers 500", seconds: 2, fault: { type: "status", status: 500 } },
  { name: "it answers 429", seconds: 2, fault: { type: "status", status: 429, retryAfter: "1" } },
  { name: "it takes requests and says nothing", seconds: 3, fault: { type: "hang" } },
  { name: "it ends watches with 410", seconds: 2, strike: 410 },
];

describe("a node whose API server is away for a while", function () {
  this.timeout(isFull ? 900_000 : 180_000);
  let node: ApiNode;

  beforeEach(async function () {
    node = new ApiNode(testLab(this, "policyd-outage"));
    await node.prepare();
  });
  /** A preloaded program that answers a signal with the bytes of the daemon's heap after a forced collection. */
  const HEAP = `const { writeFileSync, renameSync } = require("node:fs");
    process.on("SIGUSR2", () => {
      gc();
      writeFileSync(process.env.HEAP_FILE + ".new", String(process.memoryUsage().heapUsed));
      renameSync(process.env.HEAP_FILE + ".new", process.env.HEAP_FILE);
    });`;

  function heapOptions(): readonly string[] {
    const program = HEAP.replaceAll("process.env.HEAP_FILE", JSON.stringify(`${node.directory}/heap`));
    writeFileSync(`${node.directory}/heap.cjs`, program);
    return ["--expose-gc", "--require", `${node.directory}/heap.cjs`];
  }

  async function heap(): Promise<number> {
    rmSync(`${node.directory}/heap`, { force: true });
    node.daemon.child.kill("SIGUSR2");
    await until(() => existsSync(`${node.directory}/heap`), "the heap is reported");
    return Number(readFileSync(`${node.directory}/heap`, "utf8"));
  }

  async function begin({ fault, strike }: Outage): Promise<void> {
    if (fault !== undefined) {
      await node.server.tell({ type: "plan", faults: [{ on: "any", count: FOREVER, fault }] });
      await node.server.tell({ type: "strike", fault: { type: "truncate", isReset: true } });
    } else if (strike === undefined) await node.server.tell({ type: "down" });
  }

  async function end({ fault, strike }: Outage): Promise<void> {
    await node.server.tell({ type: "heal" });
    if (fault === undefined && strike === undefined) await node.listen();
  }

  const asked = async (): Promise<number> => (await node.server.tell({ type: "asked" })).asked?.length ?? 0;

  async function survive(outage: Outage, current: string, next: string): Promise<void> {
    const ruleset = node.ruleset();
    const before = await asked();
    await begin(outage);
    const address = ENDPOINTS.findIndex((name) => name === next) + 3;
    const seconds = isFull ? LONG : outage.seconds;
    // This happens on a server that cannot be asked, and would change the rules if the daemon saw it.
    if (outage.strike === undefined) await node.server.apply(slice(`10.244.1.${address}`));
    for (const over = performance.now() + seconds * 1000; performance.now() < over; await pause(100)) {
      const { strike: status } = outage;
      if (status !== undefined) await node.server.tell({ type: "strike", fault: { type: "error", status } });
      assert.equal(await node.answer(), current);
    }
    assert.equal(node.ruleset(), ruleset, outage.name);
    const minutes = Math.ceil(seconds / 60);
    const requests = (await asked()) - before;
    assert.ok(requests <= minutes * MOST_A_MINUTE, `${outage.name}: ${requests} requests in ${seconds} s`);
    await end(outage);
    const back = performance.now();
    if (outage.strike !== undefined) await node.server.apply(slice(`10.244.1.${address}`));
    await node.untilAnswered(next);
    const late = performance.now() - back;
    console.log(`      ${outage.name} for ${seconds} s: ${requests} requests; caught up after ${late.toFixed(0)} ms`);
    assert.ok(late < CAUGHT_UP, `${outage.name}: caught up after ${late} ms`);
    await node.daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
  }

  it("API-17: during an outage rules and packets stay as they are and requests are bounded, and afterwards the node follows the server", async () => {
    await node.server.apply(...Array.from({ length: LOADED_PODS }, (_, index) => sample("Pod", index)));
    await node.listen();
    node.start(undefined, heapOptions());
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    let current: string = "first";
    let before = 0;
    for (const [index, outage] of OUTAGES.entries()) {
      // After the first outage everything that one needs is loaded.
      if (index === 1) before = await heap();
      const next = current === "first" ? "second" : "first";
      await survive(outage, current, next);
      current = next;
    }
    const after = await heap();
    console.log(
      `      heap after a forced collection: ${(before / 2 ** 20).toFixed(1)}, ${(after / 2 ** 20).toFixed(1)} MiB`,
    );
    if (isFull) assert.ok(after < before * 1.1, `${before} bytes became ${after}`);
    assert.doesNotMatch(node.daemon.log(), /unexpected error/);
  });

  /** Returns a pod's IPv4 address, once it has one. */
  async function addressOf(namespace: LabNamespace): Promise<string> {
    for (let left = 500; left > 0; left--) {
      const found = /inet (?<address>10\.244\.1\.\d+)/.exec(namespace.exec("ip", ["-4", "address", "show"]));
      if (found?.groups?.["address"] !== undefined) return found.groups["address"];
      await pause(20);
    }
    throw new Error("the pod has no address");
  }

  /** Returns whether a namespace gets an answer from a pod. */
  async function reaches(from: LabNamespace, address: string, port = 8080): Promise<boolean> {
    const to = { address: parseAddress(address), port };
    const [result] = await node.prober.run([{ protocol: "tcp", from, to }], { timeoutMilliseconds: 500 });
    return result?.reached === true;
  }

  it("API-18: a daemon that starts without its API server keeps new pods closed until it is back, and leaves others as they are", async () => {
    await node.listen();
    node.start();
    await node.untilSynced();
    await node.attachPods();
    await node.untilAnswered("first");
    await node.daemon.kill("SIGKILL");
    await node.server.tell({ type: "down" });
    assert.match(node.ruleset(), /"default\/second"/);
    node.start();
    const { isSynced } = await node.daemon.statusWhen(({ problemCount }) => problemCount > 0, "away");
    assert.equal(isSynced, false);

    const late = node.lab.pod("late");
    const refused = add(node.wired, late, node.overrides("300ms"));
    assert.equal(refused.error?.code, 11, "try again later");
    const call = startPlugin(node.wired.node, podCall("ADD", node.wired, late, node.overrides("60s")));
    let isReleased = false;
    void call.outcome.then(() => (isReleased = true));
    const { attachments } = node.daemon.status();
    await node.daemon.statusWhen((status) => status.attachments > attachments || isReleased, "the pod waits");
    const address = await addressOf(late);
    node.prober.listen("tcp", { namespace: late, address: parseAddress(address), port: 8080 });
    assert.equal(await reaches(node.wired.node, address), false, "nobody reaches it");
    assert.equal(await reaches(late, "10.244.1.3"), false, "it reaches nobody");

    assert.ok(await reaches(node.wired.node, "10.244.1.3"), "the node reaches its other pods");
    assert.equal(await node.answer(), "first");
    const second = node.pods.get("second");
    assert.ok(second);
    assert.equal(del(node.wired, second, node.overrides()).error, undefined);
    assert.equal(isReleased, false);

    await node.server.apply(pod("late", "late"), { ...pod("second", "second"), isGone: true });
    assert.equal(node.daemon.status().isSynced, false);
    await node.listen();
    await node.untilSynced();
    const synced = performance.now();
    const { error } = await call.outcome;
    console.log(`      released ${(performance.now() - synced).toFixed(0)} ms after the sync was seen`);
    assert.equal(error, undefined, error?.msg);
    assert.ok(await reaches(node.wired.node, address));
    assert.ok(await reaches(late, "10.244.1.3"));
    await until(
      () => !node.ruleset().includes('"default/second"'),
      () => `the pod that went meanwhile is gone: ${node.ruleset()}`,
    );
  });
});
