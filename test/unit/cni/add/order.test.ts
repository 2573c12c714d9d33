import assert from "node:assert/strict";
import { readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { toCniError } from "../../../../cni/error.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";
import { callOn } from "../../../support/daemon/fake_call.ts";
import { FakeKernel, type Fault, Killed } from "../../../support/daemon/fake_kernel.ts";

/** More events than any ADD or DEL has. */
const MOST_EVENTS = 200;

describe("cni order of events", () => {
  const directory = useTemporaryDirectory();

  const run = (kernel: FakeKernel, verb: "ADD" | "DEL", fault?: Fault): string =>
    callOn(kernel, directory(), verb, fault);

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

  /** Returns what a DEL must remove; the bridge stays. */
  function held(kernel: FakeKernel): readonly string[] {
    const files = ["networks/pods", "run/attachments/pods"].flatMap((place) => namesIn(path.join(directory(), place)));
    const neighbours = [...kernel.neighbours.node, ...kernel.neighbours.pod].map((address) => `neighbour ${address}`);
    return [...kernel.links.node, ...kernel.links.pod, ...neighbours, ...files].filter(
      (name) => !/^(drawbridge0|lock|last_reserved_ip\.\d)$/.test(name),
    );
  }

  /**
   * Returns the questions of an ADD after its last change for the pod; it then only forgets that earlier ADDs failed
   * (STATUS-01).
   */
  function lastQuestions(kernel: FakeKernel): FakeKernel["questions"] {
    assert.deepEqual(kernel.journal.slice(-2), ["unlink pods.json", "unlink pods.json"]);
    return kernel.questions.filter(({ afterEvents }) => afterEvents === kernel.journal.length - 2);
  }

  /** Calls the action with each event of a verb broken in turn, until the verb gets through unbroken. */
  function atEveryEvent(kind: Fault["kind"], action: (fault: Fault) => "done" | "broken"): number {
    for (let at = 0; at < MOST_EVENTS; at++) {
      for (const name of namesIn(directory())) rmSync(path.join(directory(), name), { recursive: true });
      if (action({ kind, at }) === "done") return at;
    }
    assert.fail(`more than ${MOST_EVENTS} events`);
  }

  it("ADD claims addresses, then writes the record, then makes the link", () => {
    const kernel = new FakeKernel(directory());
    run(kernel, "ADD");
    assertOrder(kernel, /^claim (10|fd00)/, /^record$/, /^create dbv/);
    assert.deepEqual(
      [...kernel.links.node].map((name) => name.slice(0, 3)),
      ["dra", "dbv"],
    );
  });

  it("ADD asks whether packets get through in both directions after its last change", () => {
    const kernel = new FakeKernel(directory());
    run(kernel, "ADD");
    const last = lastQuestions(kernel);
    const asked = last.map(({ subject, namespace }) => `${namespace}: ${subject.slice(0, 8)}`);
    assert.ok(asked.includes("pod: route"), `the pod's own IPv6 address: ${asked.join(", ")}`);
    assert.ok(asked.includes("node: link dbv"), `the carrier of the host end: ${asked.join(", ")}`);
  });

  it("ADD waits for the addresses that it gave to a bridge in use", () => {
    const kernel = new FakeKernel(directory());
    kernel.links.node.add("drawbridge0");
    run(kernel, "ADD");
    const last = lastQuestions(kernel);
    const onNode = last.filter(({ namespace, subject }) => namespace === "node" && subject === "route");
    assert.equal(onNode.length, 4, "in each family the bridge's address, and the route to the pod's address");
  });

  it("DEL removes the link, then the addresses, then the record", () => {
    const kernel = new FakeKernel(directory());
    run(kernel, "ADD");
    assert.deepEqual([...kernel.neighbours.node], ["10.244.1.2", "fd00:244:1::2"]);
    assert.equal(run(kernel, "DEL"), "");
    assertOrder(kernel, /^delete dbv/, /^unlink (10|fd00)/, /^unlink c1:eth0\.json$/);
    assert.deepEqual(held(kernel), []);
  });

  it("DEL keeps the addresses when the kernel does not remove the link", () => {
    const kernel = new FakeKernel(directory());
    run(kernel, "ADD");
    const before = held(kernel);
    assert.throws(() => run(kernel, "DEL", { kind: "fail", at: 0 }), /delete link dbv.*EIO/);
    assert.deepEqual(held(kernel), before);
  });

  it("an ADD of which any one event fails leaves nothing (B13)", () => {
    const events = atEveryEvent("fail", (fault) => {
      const kernel = new FakeKernel(directory());
      try {
        run(kernel, "ADD", fault);
      } catch (error) {
        assert.notEqual(toCniError(error).code, 999, String(error));
        assert.deepEqual(held(kernel), [], `${fault.at}: ${kernel.journal.join(", ")}`);
        return "broken";
      }
      // Two failing events do no harm: a missing scratch file, and a gateway that exists already.
      return kernel.journal.length > fault.at ? "broken" : "done";
    });
    assert.ok(events > 15, `only ${events} events`);
  });

  it("an ADD killed at any event, then DEL, leaves nothing", () => {
    const events = atEveryEvent("kill", (fault) => {
      const kernel = new FakeKernel(directory());
      const outcome = killed(() => run(kernel, "ADD", fault));
      assert.equal(run(kernel, "DEL"), "");
      assert.deepEqual(held(kernel), [], `killed at ${fault.at}`);
      return outcome;
    });
    assert.ok(events > 15, `only ${events} events`);
  });

  for (const [who, changes] of [
    ["a DEL", {}],
    ["POD-20: a DEL whose daemon is away", { policyd: {} }],
  ] as const) {
    it(`${who} killed at any event, then DEL again, leaves nothing`, () => {
      const events = atEveryEvent("kill", (fault) => {
        const kernel = new FakeKernel(directory());
        run(kernel, "ADD");
        const outcome = killed(() => callOn(kernel, directory(), "DEL", fault, changes));
        const isReleased = !held(kernel).some((name) => /^(10|fd00)/.test(name));
        assert.equal(callOn(kernel, directory(), "DEL", undefined, changes), "");
        assert.deepEqual(held(kernel), [], `killed at ${fault.at}`);
        const asksForFlows = "policyd" in changes && !isReleased;
        assert.equal(
          kernel.listsOfFlows > 0,
          asksForFlows,
          `killed at ${fault.at}: flows are deleted before the addresses`,
        );
        return outcome;
      });
      assert.ok(events > 4, `only ${events} events`);
    });
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
