import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { createLab, type Lab } from "../lab/lab.ts";
import { requireKernel, requirePackaged } from "../support/privilege.ts";
import { iproute, pick } from "./iproute.ts";
import { wireAndDescribe } from "./backend_script.ts";

const packaged = fileURLToPath(
  new URL(
    `../../node_modules/@oven/bun-linux-${process.arch === "arm64" ? "aarch64" : "x64"}/bin/bun`,
    import.meta.url,
  ),
);
const bun = process.env["DRAWBRIDGE_BUN"] ?? packaged;
const program = fileURLToPath(new URL("backend_bun_main.ts", import.meta.url));

describe("kernel/syscall backends", () => {
  let lab: Lab;

  before(function () {
    requireKernel(this);
    requirePackaged(this, bun);
    lab = createLab("kernel-backend");
  });
  after(() => lab?.destroy());

  it("the plugin's Bun backend and the daemon's koffi backend do and see the same", () => {
    const [nodeA, podA, nodeB, podB] = [
      lab.namespace("na"),
      lab.namespace("pa"),
      lab.namespace("nb"),
      lab.namespace("pb"),
    ];
    const { stdout, stderr, status } = spawnSync(bun, [program, nodeA.path, podA.path], {
      encoding: "utf8",
      timeout: 10_000,
    });
    assert.equal(status, 0, stderr);
    const byBun: unknown = JSON.parse(stdout);
    const byNode: unknown = JSON.parse(wireAndDescribe(lab.calls, nodeB.path, podB.path));
    assert.deepEqual(byBun, byNode);
    assert.match(stdout, /"create bridge cni0: already exists \(EEXIST\)"/);
    assert.match(stdout, /"missing": -2,/);
    assert.match(stdout, /"isHome": true/);
    const members = ["ifindex", "ifname", "address", "mtu", "master", "ifalias", "operstate"];
    const links = [nodeA, nodeB].map((node) => iproute(node, "ip", "link show").map((link) => pick(link, ...members)));
    assert.deepEqual(links[0], links[1]);
    const hairpin = [nodeA, nodeB].map((node) => iproute(node, "bridge", "link show").map((port) => port["hairpin"]));
    assert.deepEqual(hairpin, [[true], [true]]);
  });
});
