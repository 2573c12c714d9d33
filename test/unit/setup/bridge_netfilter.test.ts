import assert from "node:assert/strict";
import { ensureBridgeNetfilter } from "../../setup/bridge_netfilter.mjs";

interface Attempt {
  readonly line: string | undefined;
  readonly loads: number;
}

function attempt(before: boolean, isRoot: boolean, problem?: string): Attempt {
  let isLoaded = before;
  let loads = 0;
  const line = ensureBridgeNetfilter({
    isLoaded: () => isLoaded,
    isRoot,
    load: () => {
      loads++;
      isLoaded = problem === undefined;
      return problem;
    },
  });
  return { line, loads };
}

describe("setup: br_netfilter", () => {
  it("is not loaded when it is loaded already, or without root", () => {
    assert.deepEqual(attempt(true, true), { line: undefined, loads: 0 });
    assert.deepEqual(attempt(false, false), { line: undefined, loads: 0 });
  });

  it("is loaded as root, with a message that it stays loaded", () => {
    const { line, loads } = attempt(false, true);
    assert.equal(loads, 1);
    assert.match(line ?? "", /br_netfilter.*stays loaded/);
  });

  it("does not stop the setup when loading fails, and the message says what will be skipped", () => {
    const { line } = attempt(false, true, "FATAL: Module br_netfilter not found");
    assert.match(line ?? "", /modprobe failed \(FATAL: Module br_netfilter not found\).*skipped/);
  });
});
