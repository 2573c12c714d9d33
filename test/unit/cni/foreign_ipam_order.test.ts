import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { toCniError } from "../../../cni/error.ts";
import { runVerb } from "../../../cni/plugin.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { networkInput } from "../../support/cni/cni.ts";
import { FakeKernel, type Fault, Killed, POD_INTERFACE } from "../../support/daemon/fake_kernel.ts";
import { FakePrograms } from "../../support/programs/fake_programs.ts";

const MOST_EVENTS = 200;
const GIVEN = { cniVersion: "1.0.0", ips: [{ address: "10.99.0.5/24" }, { address: "fd00:99::5/64" }] };

describe("cni order of events with an IPAM plugin of others", () => {
  const directory = useTemporaryDirectory();

  class World {
    readonly kernel = new FakeKernel(directory());
    readonly programs = new FakePrograms(GIVEN, (label) => this.kernel.happens(label));

    constructor() {
      for (const name of readdirSync(directory())) rmSync(path.join(directory(), name), { recursive: true });
      mkdirSync(`${directory()}/plugins`);
      writeFileSync(`${directory()}/plugins/other-ipam`, "");
    }

    run(verb: "ADD" | "DEL", fault?: Fault): string {
      this.kernel.restart(fault);
      const node = { ...this.kernel.node, programs: () => this.programs };
      const input = networkInput({ ipam: { type: "other-ipam" }, runDir: `${directory()}/run` });
      const environment = {
        CNI_CONTAINERID: "c1",
        CNI_IFNAME: POD_INTERFACE,
        CNI_NETNS: "/proc/self/ns/mnt",
        CNI_PATH: `${directory()}/plugins`,
      };
      return runVerb(node, "drawbridge", verb, environment, JSON.stringify(input));
    }

    /** Returns everything that a DEL must remove; the bridge stays. */
    get held(): readonly string[] {
      const files = ["delegated/pods", "delegations/pods", "attachments/pods"].flatMap((place) => {
        const where = `${directory()}/run/${place}`;
        return existsSync(where) ? readdirSync(where) : [];
      });
      const { links, neighbours } = this.kernel;
      return [
        ...links.node,
        ...links.pod,
        ...neighbours.node,
        ...neighbours.pod,
        ...files,
        ...this.programs.held,
      ].filter((name) => !/^(drawbridge0|lock)$/.test(name));
    }
  }

  function atEveryEvent(kind: Fault["kind"], action: (world: World, fault: Fault) => "done" | "broken"): number {
    for (let at = 0; at < MOST_EVENTS; at++) if (action(new World(), { kind, at }) === "done") return at;
    assert.fail(`more than ${MOST_EVENTS} events`);
  }

  function killed(action: () => void): "done" | "broken" {
    try {
      action();
      return "done";
    } catch (error) {
      if (error instanceof Killed) return "broken";
      throw error;
    }
  }

  it("P16: the IPAM plugin's ADD comes before all of our steps, and its DEL after them", () => {
    const world = new World();
    world.run("ADD");
    const added = world.kernel.journal.filter((event) => /^(executed|claim|record|create)/.test(event));
    assert.match(added.join(), /^executed ADD,(create drawbridge0,)?claim/);
    world.run("DEL");
    const { journal } = world.kernel;
    assert.ok(journal.findIndex((event) => event.startsWith("delete dbv")) < journal.indexOf("execute DEL"));
    assert.deepEqual(
      journal.slice(-2).map((event) => event.replace(/ .*/, "")),
      ["executed", "unlink"],
    );
    assert.deepEqual(world.held, []);
  });

  it("P18: an ADD killed at any event, then DEL, leaves nothing, also at the IPAM plugin", () => {
    const events = atEveryEvent("kill", (world, fault) => {
      const outcome = killed(() => world.run("ADD", fault));
      assert.equal(world.run("DEL"), "");
      assert.deepEqual(world.held, [], `killed at ${fault.at}`);
      return outcome;
    });
    assert.ok(events > 15, `only ${events} events`);
  });

  it("P18: a DEL killed at any event, then DEL again, leaves nothing", () => {
    const events = atEveryEvent("kill", (world, fault) => {
      world.run("ADD");
      const outcome = killed(() => world.run("DEL", fault));
      assert.equal(world.run("DEL"), "");
      assert.deepEqual(world.held, [], `killed at ${fault.at}`);
      return outcome;
    });
    assert.ok(events > 8, `only ${events} events`);
  });

  it("P16: after an ADD of which any one event fails, that ADD or the next DEL calls the IPAM plugin's DEL", () => {
    const events = atEveryEvent("fail", (world, fault) => {
      let outcome: "done" | "broken" = "done";
      try {
        world.run("ADD", fault);
        outcome = world.kernel.journal.length > fault.at ? "broken" : "done";
      } catch (error) {
        assert.notEqual(toCniError(error).code, 999, String(error));
        outcome = "broken";
        assert.deepEqual([...world.programs.held], [], `${fault.at}: ${world.kernel.journal.join(", ")}`);
      }
      world.run("DEL");
      assert.deepEqual(world.held, [], `${fault.at}`);
      return outcome;
    });
    assert.ok(events > 15, `only ${events} events`);
  });
});
