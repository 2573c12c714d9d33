import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { requireKernel } from "../../support/privilege.ts";
import { createLab } from "../lab.ts";
import type { MaskedFeature } from "./features.ts";
import { masked } from "./mask.ts";

const LIBC = new URL("../libc.ts", import.meta.url).href;

/** Makes calls in a masked process and returns what each gave: 0 or more, or minus the errno. */
function callsUnder(features: readonly MaskedFeature[], expressions: readonly string[]): readonly number[] {
  const program = `
    import { labCalls } from ${JSON.stringify(LIBC)};
    const calls = labCalls();
    console.log(JSON.stringify([${expressions.join(",")}].map((result) => Math.min(result, 0))));`;
  const { file, args } = masked(features, process.execPath, ["--input-type=module", "-e", program]);
  const { status, stdout, stderr } = spawnSync(file, args, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  const results: unknown = JSON.parse(stdout);
  assert.ok(Array.isArray(results));
  return results.map(Number);
}

// Without privileges: setting a filter needs only no_new_privs.
describe("the kernel feature mask", () => {
  it("hides nftables with EPROTONOSUPPORT, and not rtnetlink", () => {
    assert.deepEqual(callsUnder(["nftables"], ["calls.socket(16, 3, 12)", "calls.socket(16, 3, 0)"]), [-93, 0]);
  });

  it("hides IPv6 with EAFNOSUPPORT, and not IPv4", () => {
    assert.deepEqual(callsUnder(["ipv6"], ["calls.socket(10, 2, 0)", "calls.socket(2, 2, 0)"]), [-97, 0]);
  });

  it("hides file locks with ENOLCK and hard links with EPERM", () => {
    assert.deepEqual(
      callsUnder(["fileLocks", "hardLinks"], ["calls.flock(1, 8)", 'calls.link("/nonexistent/a", "/nonexistent/b")']),
      [-37, -1],
    );
    assert.deepEqual(
      callsUnder(["sctp"], ["calls.flock(1, 8)", 'calls.link("/nonexistent/a", "/nonexistent/b")']),
      [0, -2],
    );
  });

  it("hides SCTP sockets as a kernel without them does, by their type, and not TCP's", () => {
    const types = [1, 2, 5, 0x80801, 0x80805];
    const sockets = [2, 10].flatMap((family) => types.map((type) => `calls.socket(${family}, ${type}, 132)`));
    const refused = [-93, -93, -94, -93, -94];
    assert.deepEqual(callsUnder(["sctp"], sockets), [...refused, ...refused]);
    assert.deepEqual(callsUnder(["sctp"], ["calls.socket(2, 1, 6)", "calls.socket(2, 2, 17)"]), [0, 0]);
  });

  it("leaves raw sockets of SCTP, by which the lab's probes speak it", function () {
    requireKernel(this);
    assert.deepEqual(callsUnder(["sctp"], ["calls.socket(2, 3, 132)", "calls.socket(10, 3, 132)"]), [0, 0]);
  });

  it("passes output, arguments and the exit code on", () => {
    const { file, args } = masked(["nftables"], "/bin/sh", ["-c", 'echo "$1"; echo no >&2; exit 7', "sh", "yes"]);
    const { status, stdout, stderr } = spawnSync(file, args, { encoding: "utf8" });
    assert.deepEqual({ status, stdout, stderr }, { status: 7, stdout: "yes\n", stderr: "no\n" });
  });

  it("refuses a feature it does not know", () => {
    const { file, args } = masked([], "/bin/true");
    const { status, stderr } = spawnSync(file, args, { encoding: "utf8" });
    assert.notEqual(status, 0);
    assert.match(stderr, /is not a feature; expected nftables, ipv6/);
  });

  it("makes nft see a kernel without nftables", function () {
    requireKernel(this);
    using lab = createLab("mask");
    const node = lab.node("node1");
    node.ruleset();
    const nft = node.exec("sh", ["-c", "command -v nft"]).trim();
    const { file, args } = masked(["nftables"], nft, ["list", "ruleset"]);
    assert.throws(() => node.exec(file, args), /Protocol not supported/);
  });
});
