import assert from "node:assert/strict";
import { copyFileSync, readdirSync } from "node:fs";
import {
  add,
  type CallOutcome,
  check,
  type Configuration,
  configurationOf,
  del,
  pluginAs,
  podCall,
} from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { ForeignIpamNode } from "../../support/ipam/foreign_ipam_node.ts";
import { requirePeerPlugins } from "../../support/cni/peer.ts";
import { requireKernel } from "../../support/privilege.ts";
import { addressesOf, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { rawCall } from "../../support/cni/raw_call.ts";

describe("IPAM plugins of the Go reference, and its bridge with ours", function () {
  this.timeout(5 * 60_000);
  let peers = "";
  let lab: Lab;
  let node: ForeignIpamNode;

  before(function () {
    requireKernel(this);
    peers = requirePeerPlugins(this, ["static", "dhcp", "host-local", "bridge"]);
  });
  beforeEach(() => {
    lab = createLab("ipampeer");
    node = new ForeignIpamNode(lab);
    for (const name of ["static", "dhcp", "bridge"]) copyFileSync(`${peers}/${name}`, `${node.ipam.directory}/${name}`);
    // Our plugin serves the name host-local itself, so Go's host-local gets another name.
    copyFileSync(`${peers}/host-local`, `${node.ipam.directory}/go-local`);
  });
  afterEach(() => lab?.destroy());

  const options = (): { readonly executable: string } => ({ executable: node.executable });

  function roundTrip(pod: LabPod, ipam: Configuration, version = "1.0.0"): CallOutcome {
    const overrides = { cniVersion: version, ipam };
    const added = add(node.wired, pod, overrides, options());
    assert.equal(added.exitCode, 0, added.stdout);
    if (version >= "0.4.0") {
      const checked = check(node.wired, pod, added.result, overrides, options());
      assert.deepEqual([checked.exitCode, checked.stdout], [0, ""]);
    }
    return added;
  }

  it("P16: Go's static gives the pod its addresses, CHECK passes and DEL leaves nothing, in each CNI version", async () => {
    for (const version of ["0.2.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]) {
      const pod = lab.pod(`static-${version.replaceAll(".", "")}`);
      const ipam = {
        type: "static",
        addresses: [
          { address: "10.99.0.5/24", gateway: "10.99.0.1" },
          { address: "fd00:99::5/64", gateway: "fd00:99::1" },
        ],
        routes: [{ dst: "203.0.113.0/24" }],
        dns: { nameservers: ["10.99.0.53"] },
      };
      const { stdout } = roundTrip(pod, ipam, version);
      assert.match(stdout, /10\.99\.0\.53/);
      assert.deepEqual(addressesOf(pod, "eth0"), ["10.99.0.5/32", "fd00:99::5/128"]);
      assert.match(pod.exec("ip", ["route"]), /203\.0\.113\.0\/24 via 10\.99\.0\.1 dev eth0/);
      await node.assertReached([
        [node.wired.node, pod, "10.99.0.5"],
        [node.wired.node, pod, "fd00:99::5"],
      ]);
      const removed = del(node.wired, pod, { cniVersion: version, ipam }, options());
      assert.deepEqual([removed.exitCode, removed.stdout], [0, ""]);
      node.assertNothingLeft(pod);
    }
  });

  it("P16: Go's host-local under another name gives, checks and releases addresses", () => {
    const pod = lab.pod("golocal");
    const ipam = {
      type: "go-local",
      dataDir: `${lab.scratch}/go`,
      ranges: [[{ subnet: "10.99.0.0/24" }], [{ subnet: "fd00:99::/64" }]],
    };
    roundTrip(pod, ipam);
    const held = (): readonly string[] =>
      readdirSync(`${lab.scratch}/go/drawbridge`).filter((name) => /^[0-9a-f]+[.:]/.test(name));
    assert.deepEqual(held().toSorted(), ["10.99.0.2", "fd00:99::2"]);
    assert.equal(add(node.wired, pod, { ipam }, options()).error?.code, 104);
    assert.deepEqual(held().toSorted(), ["10.99.0.2", "fd00:99::2"], "a second ADD takes nothing away");
    assert.equal(del(node.wired, pod, { ipam }, options()).exitCode, 0);
    assert.deepEqual(held(), []);
    node.assertNothingLeft(pod);
    const full = add(
      node.wired,
      pod,
      { ipam: { ...ipam, ranges: [[{ subnet: "10.99.0.0/24", rangeStart: "10.99.0.9", rangeEnd: "10.99.0.8" }]] } },
      options(),
    );
    assert.equal(full.exitCode, 1);
    assert.match(full.error?.details ?? "", /from the IPAM plugin .*\/go-local/);
  });

  it("P16: Go's dhcp without its daemon refuses the ADD with its own message, and nothing is left", () => {
    const pod = lab.pod("dhcp");
    const ipam = { type: "dhcp", daemonSocketPath: `${lab.scratch}/none.sock` };
    const { exitCode, error } = add(node.wired, pod, { ipam }, options());
    assert.equal(exitCode, 1);
    assert.match(error?.msg ?? "", /error dialing DHCP daemon.*none\.sock/);
    assert.deepEqual(nodeState(node.wired.node), nothingHeld);
  });

  it("P16: Go's bridge gets, checks and releases its addresses with drawbridge-ipam", () => {
    const pod = lab.pod("gobridge");
    pluginAs("drawbridge-ipam", node.ipam.directory);
    const { ipam } = configurationOf(node.wired);
    assert.ok(typeof ipam === "object" && ipam !== null);
    const configuration = {
      ...configurationOf(node.wired, { type: "bridge", ipam: { ...ipam, type: "drawbridge-ipam" } }),
    };
    const { environment } = podCall("ADD", node.wired, pod);
    const call = (verb: string, changes: Configuration = {}): ReturnType<typeof rawCall> =>
      rawCall(
        node.wired.node,
        { ...environment, CNI_PATH: node.ipam.directory, CNI_COMMAND: verb },
        JSON.stringify({ ...configuration, ...changes }),
        `${node.ipam.directory}/bridge`,
      );
    const added = call("ADD");
    assert.equal(added.exitCode, 0, added.stdout);
    const prevResult: unknown = JSON.parse(added.stdout);
    assert.deepEqual(addressesOf(pod, "eth0"), ["10.244.1.2/24", "fd00:244:1::2/64"]);
    const checked = call("CHECK", { prevResult });
    assert.equal(checked.exitCode, 0, checked.stdout);
    const removed = call("DEL", { prevResult });
    assert.equal(removed.exitCode, 0, removed.stdout);
    assert.deepEqual(nodeState(node.wired.node).reservations, []);
  });
});
