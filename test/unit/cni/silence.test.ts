import assert from "node:assert/strict";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { toCniError } from "../../../cni/error.ts";
import { tryParseAddress } from "../../../kernel/ip/address.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { callOn } from "../../support/daemon/fake_call.ts";
import { FakeKernel, type Fault } from "../../support/daemon/fake_kernel.ts";

/** More events than any ADD has. */
const MOST_EVENTS = 200;

describe("cni when the kernel does not answer", () => {
  const directory = useTemporaryDirectory();

  const run = (kernel: FakeKernel, verb: "ADD" | "DEL", fault?: Fault): string =>
    callOn(kernel, directory(), verb, fault);

  const reservations = (): readonly string[] =>
    namesIn(`${directory()}/networks/pods`).filter((name) => tryParseAddress(name) !== undefined);
  const records = (): readonly string[] => namesIn(`${directory()}/run/attachments/pods`);
  const podLinks = (kernel: FakeKernel): readonly string[] =>
    [...kernel.links.node, ...kernel.links.pod].filter((name) => name !== "drawbridge0");

  /** Runs an ADD whose answers stop at each event in turn. @returns the number of ADDs that failed */
  function atEveryEvent(afterFailure: (kernel: FakeKernel, context: string) => void): number {
    for (let at = 0; at < MOST_EVENTS; at++) {
      for (const name of ["networks", "run"]) rmSync(`${directory()}/${name}`, { recursive: true, force: true });
      const kernel = new FakeKernel(directory());
      try {
        run(kernel, "ADD", { kind: "silence", at });
        return at;
      } catch (error) {
        assert.equal(toCniError(error).code, 105, String(error));
        afterFailure(kernel, `${at}: ${kernel.journal.join(", ")}`);
      }
    }
    assert.fail(`more than ${MOST_EVENTS} events`);
  }

  it("a failed ADD keeps record and addresses as long as its link exists, whichever answer is missing (B13)", () => {
    let kept = 0;
    const failed = atEveryEvent((kernel, context) => {
      if (podLinks(kernel).length === 0) return;
      kept++;
      assert.deepEqual(reservations().length, 2, context);
      assert.deepEqual(records(), ["c1:eth0.json"], context);
    });
    assert.ok(failed > 15 && kept > 4, `${failed} failed, ${kept} kept their link`);
  });

  it("one DEL after a failed ADD leaves nothing", () => {
    const failed = atEveryEvent((kernel, context) => {
      assert.equal(run(kernel, "DEL"), "");
      assert.deepEqual([podLinks(kernel), reservations(), records()], [[], [], []], context);
    });
    assert.ok(failed > 15, `only ${failed} events`);
  });
});

function namesIn(place: string): readonly string[] {
  return existsSync(place) ? readdirSync(place) : [];
}
