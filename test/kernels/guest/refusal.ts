import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { add, LAB_BRIDGE } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { CLI_DIRECTORY } from "../../support/cli/program.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { lacks } from "./kernel.ts";

/** The words of daemon, plugin and doctor about a kernel that was built without an option. */
const WORDS = [
  { option: "NF_TABLES_INET", daemon: /exit code 1;.*CONFIG_NF_TABLES_INET=y/s, plugin: /CONFIG_NF_TABLES_INET=y/ },
  {
    option: "BRIDGE",
    daemon: /exit code 1;.*CONFIG_NF_TABLES_BRIDGE=y/s,
    plugin: /modprobe bridge; where that fails .* CONFIG_BRIDGE=m/,
    alsoMissing: ["CONFIG_NF_TABLES_BRIDGE"],
  },
  { option: "VXLAN", daemon: /modprobe vxlan; where that fails .* CONFIG_VXLAN=m/, plugin: undefined },
].filter(({ option }) => lacks(option));

describe("lacking", function () {
  this.timeout(600_000);
  let lab: Lab;
  let wired: WiredNode;

  beforeEach(() => {
    lab = createLab("refusal");
    ({ node1: wired } = twoNodes(lab));
  });
  afterEach(() => lab?.destroy());

  for (const { option, daemon: said, plugin, alsoMissing = [] } of WORDS) {
    it(`daemon: without ${option} it says so, with the option and the module`, async () => {
      const daemon = new PolicydNode(lab, wired);
      try {
        const running = await daemon.start(["--encapsulation=always"]);
        await running.statusWhen(({ problems }) => said.test(problems.join("\n")), String(said), 10);
      } catch (error) {
        assert.match(String(error), said);
      } finally {
        await daemon.kill();
      }
    });

    it(`plugin: without ${option} an ADD works, or says what is missing`, () => {
      const { error } = add(wired, lab.pod("a"), { ipMasq: true });
      if (plugin === undefined) assert.deepEqual(error, undefined);
      else assert.match(`${error?.msg} ${error?.details}`, plugin);
    });

    it(`doctor: without ${option} it reports an error that names it`, () => {
      const args = ["node", "doctor", "--network-namespace", wired.node.path, "--bridge", LAB_BRIDGE, "-o", "json"];
      const only = ["--only", "kernel-version,kernel-features"];
      const { stdout } = spawnSync(process.execPath, [`${CLI_DIRECTORY}/drawbridge.js`, ...args, ...only], {
        encoding: "utf8",
      });
      const { findings } = JSON.parse(stdout) as { findings: { severity: string; what: string }[] };
      const errors = findings.filter(({ severity }) => severity === "error").map(({ what }) => what);
      const named = errors.map((what) => /CONFIG_\w+/.exec(what)?.[0]);
      assert.deepEqual(named, [...alsoMissing, `CONFIG_${option}`], stdout);
    });
  }
});
