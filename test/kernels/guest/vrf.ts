import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { LAB_BRIDGE } from "../../lab/cni.ts";
import { UPLINK } from "../../lab/topology.ts";
import { CLI_DIRECTORY } from "../../support/cli/program.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { askHttp } from "../../support/http.ts";
import { FAMILIES } from "../../../kernel/ip/address.ts";
import { flow, RouteLab } from "../../support/routes/route_lab.ts";

describe("node", function () {
  this.timeout(600_000);
  let on: RouteLab;
  let daemons: readonly DaemonProcess[];

  before(() => {
    on = new RouteLab("vrf");
  });
  after(() => on?.[Symbol.dispose]());

  /** Returns the text of /readyz of the first node, and what the doctor finds there that is an error. */
  function toldOn(): { readonly ready: string; readonly errors: readonly string[] } {
    const [{ wired, policyd }] = on.nodes;
    const places = ["--state-directory", wired.node.runDir, "--socket", policyd.socketPath, "--bridge", LAB_BRIDGE];
    const args = ["node", "doctor", "--network-namespace", wired.node.path, ...places, "-o", "json"];
    const { stdout } = spawnSync(process.execPath, [`${CLI_DIRECTORY}/drawbridge.js`, ...args], { encoding: "utf8" });
    const { findings } = JSON.parse(stdout) as { findings: { check: string; severity: string; what: string }[] };
    // The lab installs no plugin.
    const errors = findings.filter(({ check, severity }) => severity === "error" && !check.startsWith("cni-"));
    const { body } = askHttp(wired.node, "127.0.0.1", 10_256, "/readyz");
    return { ready: body, errors: errors.map(({ what }) => what) };
  }

  it("VRF: pods reach pods of nodes whose link for management is in a VRF, and nothing is reported", async () => {
    for (const { wired, name } of on.nodes) {
      for (const args of [
        "link add mgmt type vrf table 10",
        "link set mgmt up",
        "link add eth9 type dummy",
        "link set eth9 master mgmt up",
        `address add 203.0.113.${name.at(-1)}/24 dev eth9`,
        "route add default via 203.0.113.254 table 10",
      ])
        wired.node.exec("ip", args.split(" "));
    }
    daemons = await on.start();
    await on.untilPodsReachPods();
    for (const daemon of daemons) assert.deepEqual(daemon.status().problems, []);
    assert.deepEqual(toldOn().errors, []);
  });

  it("VRF: a node whose uplink is in a VRF says so in status, /readyz and doctor, until pods reach pods again", async () => {
    const [one, two] = on.nodes;
    const ip = (text: string): string => one.wired.node.exec("ip", text.split(" "));
    const isTold = (texts: readonly string[]): boolean =>
      texts.some((text) => text.includes(`leave by ${UPLINK} in the VRF blue, and pods are in none`));
    ip("link add blue type vrf table 20");
    ip("link set blue up");
    ip(`link set ${UPLINK} master blue`);
    ip("route add default via 192.0.2.254 table 20");
    const daemon = daemons[0] ?? assert.fail();
    await daemon.statusWhen(({ problems }) => isTold(problems), "it is reported");
    const { ready, errors } = toldOn();
    assert.ok(isTold([ready]) && isTold(errors), `${ready}\n${errors.join("\n")}`);
    const flows = FAMILIES.flatMap((family) => [
      flow(one.pod, two.podAddresses[family]),
      flow(two.pod, one.podAddresses[family]),
    ]);
    const results = await on.prober.run(flows, { timeoutMilliseconds: 2000 });
    assert.deepEqual(
      results.map(({ reached }) => reached),
      flows.map(() => false),
    );
    ip(`link set ${UPLINK} nomaster`);
    ip("route add default via 192.0.2.254");
    // The kernel takes addresses of IPv6 off a link that comes into a VRF.
    ip(`address replace 2001:db8:2::1/64 dev ${UPLINK} nodad`);
    await daemon.statusWhen(({ problems }) => !isTold(problems), "it is gone");
    await on.untilPodsReachPods();
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
    assert.deepEqual(toldOn().errors, []);
  });

  it("VRF: a bridge that comes into a VRF is reported in status, /readyz and doctor, until pods reach pods again", async () => {
    const [{ wired }] = on.nodes;
    const isTold = (texts: readonly string[]): boolean =>
      texts.some((text) => /packets for 1 pod addresses, such as \S+, to link \d+ instead of bridge/.test(text));
    wired.node.exec("ip", ["link", "set", LAB_BRIDGE, "master", "blue"]);
    const daemon = daemons[0] ?? assert.fail();
    await daemon.statusWhen(({ problems }) => isTold(problems), "it is reported");
    const { ready, errors } = toldOn();
    assert.ok(ready.includes("[-]pods: ") && isTold(errors), `${ready}\n${errors.join("\n")}`);
    wired.node.exec("ip", ["link", "set", LAB_BRIDGE, "nomaster"]);
    await daemon.statusWhen(({ problems }) => !isTold(problems), "it is gone");
    await on.untilPodsReachPods();
  });
});
