import assert from "node:assert/strict";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { toCniError } from "../../../../cni/error.ts";
import { runVerb } from "../../../../cni/plugin.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";
import { ipamInput, networkInput } from "../../../support/cni/cni.ts";
import { FakeKernel, type Fault, Killed, POD_INTERFACE } from "../../../support/daemon/fake_kernel.ts";
import { FakePrograms } from "../../../support/programs/fake_programs.ts";

/** More events than any ADD or DEL has. */
const MOST_EVENTS = 200;

/** The answer of the IPAM plugin of others. */
const GIVEN = { cniVersion: "1.0.0", ips: [{ address: "10.99.0.5/24" }, { address: "fd00:99::5/64" }] };

/** The kernel's message that removes a neighbour entry. */
const RTM_DELNEIGH = /^request 29$/;

type Configuration = Readonly<Record<string, unknown>>;

const bandwidth = { IngressRate: 20e6, IngressBurst: 2 ** 32, EgressRate: 20e6, EgressBurst: 2 ** 32 };
/** Limits make the most events: those of a pod without limits are among them. */
const withLimits: Configuration = { runtimeConfig: { bandwidth } };
const withForeignIpam: Configuration = { ipam: { type: "other-ipam" } };

describe("cni order of events", () => {
  const directory = useTemporaryDirectory();

  /** A node with empty directories, on which one container is attached with the same configuration each time. */
  class World {
    readonly kernel = new FakeKernel(directory());
    readonly programs = new FakePrograms(GIVEN, (label) => this.kernel.happens(label));
    readonly #configuration: Configuration;

    constructor(changes: Configuration = {}) {
      for (const name of namesIn(directory())) rmSync(path.join(directory(), name), { recursive: true });
      mkdirSync(`${directory()}/plugins`);
      writeFileSync(`${directory()}/plugins/other-ipam`, "");
      const own = { ...ipamInput({ dataDir: `${directory()}/networks` }), runDir: `${directory()}/run` };
      const foreign = networkInput({ runDir: `${directory()}/run` });
      this.#configuration = { ...("ipam" in changes ? foreign : own), ...changes };
    }

    /** Runs a call as a new process. @param more keys of the configuration for this call only */
    run(verb: "ADD" | "DEL" | "STATUS", fault?: Fault, more: Configuration = {}): string {
      this.kernel.restart(fault);
      const node = { ...this.kernel.node, programs: () => this.programs };
      const environment = {
        CNI_CONTAINERID: "c1",
        CNI_IFNAME: POD_INTERFACE,
        CNI_NETNS: "/proc/self/ns/mnt",
        CNI_PATH: `${directory()}/plugins`,
      };
      return runVerb(node, "drawbridge", verb, {
        self: "drawbridge",
        environment,
        stdin: JSON.stringify({ ...this.#configuration, ...more }),
      });
    }

    /** Returns the addresses and records of the pod. */
    get files(): readonly string[] {
      const places = ["networks/pods", ...["delegated", "delegations", "attachments"].map((it) => `run/${it}/pods`)];
      return places
        .flatMap((place) => namesIn(path.join(directory(), place)))
        .filter((name) => !/^(lock|last_reserved_ip\.\d)$/.test(name));
    }

    get podLinks(): readonly string[] {
      return [...this.kernel.links.node, ...this.kernel.links.pod].filter((name) => name !== "drawbridge0");
    }

    /** Returns everything that a DEL must remove; the bridge stays. */
    get held(): readonly string[] {
      const neighbours = [...this.kernel.neighbours.node, ...this.kernel.neighbours.pod];
      return [...this.podLinks, ...neighbours.map((it) => `neighbour ${it}`), ...this.files, ...this.programs.held];
    }
  }

  /** The positions of the events that a pattern matches; at least one. */
  function positions(kernel: FakeKernel, pattern: RegExp): readonly number[] {
    const found = kernel.journal.flatMap((event, position) => (pattern.test(event) ? [position] : []));
    assert.ok(found.length > 0, `no ${String(pattern)} in ${kernel.journal.join(", ")}`);
    return found;
  }

  function assertOrder(kernel: FakeKernel, ...patterns: readonly RegExp[]): void {
    for (const [i, later] of patterns.slice(1).entries()) {
      const earlier = patterns[i] ?? later;
      assert.ok(
        Math.max(...positions(kernel, earlier)) < Math.min(...positions(kernel, later)),
        `${String(earlier)} is not before ${String(later)}: ${kernel.journal.join(", ")}`,
      );
    }
  }

  /**
   * Returns the questions of an ADD after its last change for the pod; it then only forgets that earlier ADDs failed
   * (STATUS-01).
   */
  function lastQuestions(kernel: FakeKernel): FakeKernel["questions"] {
    assert.deepEqual(kernel.journal.slice(-2), ["unlink pods.json", "unlink pods.json"]);
    return kernel.questions.filter(({ afterEvents }) => afterEvents === kernel.journal.length - 2);
  }

  /**
   * Calls the action with each event broken in turn, each time in a new world, until the call gets through unbroken.
   * @returns the number of events
   */
  function atEveryEvent(
    kind: Fault["kind"],
    changes: Configuration,
    action: (world: World, fault: Fault) => "done" | "broken",
  ): number {
    for (let at = 0; at < MOST_EVENTS; at++) if (action(new World(changes), { kind, at }) === "done") return at;
    assert.fail(`more than ${MOST_EVENTS} events`);
  }

  /** Runs an ADD with a fault. @returns whether the fault broke anything, and the code of the ADD's error */
  function brokenAdd(world: World, fault: Fault): { readonly outcome: "done" | "broken"; readonly code?: number } {
    try {
      world.run("ADD", fault);
      // Some failing events do no harm: a missing scratch file, and a gateway that exists already.
      return { outcome: world.kernel.journal.length > fault.at ? "broken" : "done" };
    } catch (error) {
      const { code } = toCniError(error);
      assert.notEqual(code, 999, String(error));
      return { outcome: "broken", code };
    }
  }

  it("ADD claims addresses, then writes the record, then makes the link", () => {
    const world = new World();
    world.run("ADD");
    assertOrder(world.kernel, /^claim (10|fd00)/, /^record$/, /^create dbv/);
    assert.deepEqual(
      [...world.kernel.links.node].map((name) => name.slice(0, 3)),
      ["dra", "dbv"],
    );
  });

  it("ADD asks whether packets get through in both directions after its last change", () => {
    const { kernel } = added();
    const asked = lastQuestions(kernel).map(({ subject, namespace }) => `${namespace}: ${subject.slice(0, 8)}`);
    assert.ok(asked.includes("pod: route"), `the pod's own IPv6 address: ${asked.join(", ")}`);
    assert.ok(asked.includes("node: link dbv"), `the carrier of the host end: ${asked.join(", ")}`);
  });

  it("STATUS-01: STATUS asks for the links of one pod, and for no list, which other programs may interrupt all the time", () => {
    const world = added();
    world.run("STATUS");
    const asked = world.kernel.questions.map(({ subject }) => subject.slice(0, "link dbv".length));
    assert.deepEqual(asked, ["link dbv", "link dra", "link dra"]);
  });

  it("ADD waits for the addresses that it gave to a bridge in use", () => {
    const world = new World();
    world.kernel.links.node.add("drawbridge0");
    world.run("ADD");
    const onNode = lastQuestions(world.kernel).filter((it) => it.namespace === "node" && it.subject === "route");
    assert.equal(onNode.length, 4, "in each family the bridge's address, and the route to the pod's address");
  });

  it("DEL removes the link and the neighbour entries, then the addresses, then the record", () => {
    const world = added();
    assert.deepEqual([...world.kernel.neighbours.node], ["10.244.1.2", "fd00:244:1::2"]);
    assert.equal(world.run("DEL"), "");
    assertOrder(world.kernel, /^delete dbv/, /^unlink (10|fd00)/, /^unlink c1:eth0\.json$/);
    assertOrder(world.kernel, RTM_DELNEIGH, /^unlink (10|fd00)/);
    assert.deepEqual(world.held, []);
  });

  it("DEL keeps the addresses when the kernel does not remove the link", () => {
    const world = added();
    const before = world.held;
    assert.throws(() => world.run("DEL", { kind: "fail", at: 0 }), /delete link dbv.*EIO/);
    assert.deepEqual(world.held, before);
  });

  it("P16: the IPAM plugin's ADD comes before all of our steps, and its DEL after them", () => {
    const world = added(withForeignIpam);
    const events = world.kernel.journal.filter((event) => /^(executed|claim|record|create)/.test(event));
    assert.match(events.join(), /^executed ADD,(create drawbridge0,)?claim/);
    world.run("DEL");
    const { journal } = world.kernel;
    assert.ok(journal.findIndex((event) => event.startsWith("delete dbv")) < journal.indexOf("execute DEL"));
    assert.deepEqual(
      journal.slice(-2).map((event) => event.replace(/ .*/, "")),
      ["executed", "unlink"],
    );
  });

  it("an ADD of which any one event fails leaves nothing (B13)", () => {
    const events = atEveryEvent("fail", withLimits, (world, fault) => {
      const { outcome, code } = brokenAdd(world, fault);
      if (code !== undefined) assert.deepEqual(world.held, [], `${fault.at}: ${world.kernel.journal.join(", ")}`);
      return outcome;
    });
    assert.ok(events > 25, `only ${events} events`);
  });

  it("P16: after an ADD of which any one event fails, that ADD or the next DEL calls the IPAM plugin's DEL", () => {
    const events = atEveryEvent("fail", withForeignIpam, (world, fault) => {
      const { outcome, code } = brokenAdd(world, fault);
      if (code !== undefined) assert.deepEqual([...world.programs.held], [], `${fault.at}`);
      world.run("DEL");
      assert.deepEqual(world.held, [], `${fault.at}`);
      return outcome;
    });
    assert.ok(events > 15, `only ${events} events`);
  });

  it("an ADD without an answer keeps record and addresses as long as its link exists, and one DEL leaves nothing (B13)", () => {
    let kept = 0;
    const failed = atEveryEvent("silence", {}, (world, fault) => {
      try {
        world.run("ADD", fault);
        return "done";
      } catch (error) {
        assert.equal(toCniError(error).code, 105, String(error));
      }
      if (world.podLinks.length > 0) {
        kept++;
        assert.deepEqual(world.files, ["10.244.1.2", "fd00:244:1::2", "c1:eth0.json"], `${fault.at}`);
      }
      assert.equal(world.run("DEL"), "");
      assert.deepEqual([world.podLinks, world.files], [[], []], `${fault.at}`);
      return "broken";
    });
    assert.ok(failed > 15 && kept > 1, `${failed} failed, ${kept} kept their link`);
  });

  for (const [title, changes] of [
    ["an ADD killed at any event, then DEL, leaves nothing", withLimits],
    ["P18: an ADD killed at any event, then DEL, leaves nothing, also at the IPAM plugin", withForeignIpam],
  ] as const) {
    it(title, () => {
      const events = atEveryEvent("kill", changes, (world, fault) => {
        const outcome = killed(() => world.run("ADD", fault));
        assert.equal(world.run("DEL"), "");
        assert.deepEqual(world.held, [], `killed at ${fault.at}`);
        return outcome;
      });
      assert.ok(events > 15, `only ${events} events`);
    });
  }

  for (const [title, changes, ofDel] of [
    ["a DEL", withLimits, {}],
    ["P18: a DEL that calls an IPAM plugin", withForeignIpam, {}],
    ["POD-20: a DEL whose daemon is away", {}, { policyd: {} }],
  ] as const) {
    it(`${title}, killed at any event, then DEL again, leaves nothing`, () => {
      const events = atEveryEvent("kill", changes, (world, fault) => {
        world.run("ADD");
        const outcome = killed(() => world.run("DEL", fault, ofDel));
        const isReleased = !world.files.some((name) => /^(10|fd00)/.test(name));
        assert.equal(world.run("DEL", undefined, ofDel), "");
        assert.deepEqual(world.held, [], `killed at ${fault.at}`);
        assert.equal(
          world.kernel.listsOfFlows > 0,
          "policyd" in ofDel && !isReleased,
          `killed at ${fault.at}: flows are deleted before the addresses`,
        );
        return outcome;
      });
      assert.ok(events > 4, `only ${events} events`);
    });
  }

  /** Returns a world in which the container is attached. */
  function added(changes: Configuration = {}): World {
    const world = new World(changes);
    world.run("ADD");
    return world;
  }
});

function killed(action: () => unknown): "done" | "broken" {
  try {
    action();
    return "done";
  } catch (error) {
    if (error instanceof Killed) return "broken";
    throw error;
  }
}

function namesIn(place: string): readonly string[] {
  try {
    return readdirSync(place);
  } catch {
    return [];
  }
}
