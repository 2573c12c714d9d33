import assert from "node:assert/strict";
import { type ChildProcess, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import process from "node:process";
import { askPolicyd } from "../../../attachment/policyd_client.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { VERSION } from "../../../policyd/version.ts";
import { createLab, type Lab, type LabNode } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import { readArchive } from "../../setup/image_archive.mjs";
import { IMAGE } from "../../setup/build_image.mjs";
import { daemonSet } from "../../support/daemon/daemon_set.ts";
import { rendered, requireKubectl } from "../../support/programs/kustomize.ts";
import { INSTALL, manifestObjects } from "../../support/daemon/manifest_grants.ts";
import { Podman } from "../../support/programs/podman.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { until } from "../../support/until.ts";

const NAME = `localhost/drawbridge:${VERSION}`;
/** A Node as test/lab/topology.ts wires it. */
const NODE = `apiVersion: v1
kind: Node
metadata: { name: node1 }
spec: { podCIDRs: [10.244.1.0/24, "fd00:244:1::/64"] }
status: { addresses: [{ type: InternalIP, address: 192.0.2.10 }, { type: InternalIP, address: "2001:db8:0:1::2" }] }
`;
const CLOSE_WAIT = "net/netfilter/nf_conntrack_tcp_timeout_close_wait";

const syscalls = nodeSyscalls();

describe("the container image, run by podman as the DaemonSet has it", function () {
  this.timeout(300_000);
  let lab: Lab;
  let podman: Podman;

  before(function () {
    requireKernel(this);
    requireLongForm(this, "making the image takes too long");
    for (const program of ["buildah", "podman", "crun", "nsenter"]) requireProgram(this, program);
    const made = spawnSync(process.execPath, ["test/setup/image.mjs"], { encoding: "utf8" });
    assert.equal(made.status, 0, made.stderr);
    lab = createLab("image");
    podman = new Podman(`${lab.scratch}/podman`);
    podman.load(IMAGE);
  });
  after(() => {
    podman?.stop();
    lab?.destroy();
  });

  it("IMAGE-01: the image prints its version and help, refuses a wrong flag with 1, and names nothing of its build machine", () => {
    const version = podman.run(NAME, ["--version"]);
    assert.deepEqual([version.status, version.stdout], [0, `${VERSION}\n`], version.stderr);
    assert.match(podman.run(NAME, ["--help"]).stdout, /^Usage: policyd/);
    const refused = podman.run(NAME, ["--bogus"]);
    assert.deepEqual([refused.status, refused.stderr], [1, "policyd: unknown option '--bogus'\n"]);
    const { name, variants } = readArchive(readFileSync(IMAGE));
    const [{ config: description } = assert.fail("no variant")] = variants;
    const { config, created } = description;
    assert.equal(name, NAME, "the name by which a runtime knows the image");
    assert.deepEqual(
      [config.Env, config.User, created],
      [["PATH=/usr/bin", "MALLOC_ARENA_MAX=1"], "0:0", "1970-01-01T00:00:00Z"],
    );
    assert.equal(config.Labels["org.opencontainers.image.version"], VERSION);
  });

  it("IMAGE-01: the image contains a plugin and a command line that run, and no shell", () => {
    const entry = (program: string): readonly string[] => [`--entrypoint=${program}`];
    const plugin = podman.run(NAME, [], [...entry("/opt/drawbridge/cni/drawbridge"), "--env=CNI_COMMAND=VERSION"]);
    assert.match(plugin.stdout, /"supportedVersions":\[.*"1\.1\.0"\]/, plugin.stderr);
    const cli = podman.run(NAME, ["cli/drawbridge.js", "--version"], entry("node"));
    assert.deepEqual([cli.status, cli.stdout], [0, `${VERSION}\n`], cli.stderr);
    for (const shell of ["/bin/sh", "/bin/bash", "/usr/bin/env", "/usr/bin/busybox"]) {
      assert.equal(podman.run(NAME, [], entry(shell)).status, 127, shell);
    }
  });

  it("DEPLOY-05: the container has only NET_ADMIN, cannot write its root or settings, and runs under the seccomp profile", () => {
    const program = `
      const { readFileSync, writeFileSync } = require("node:fs");
      const attempt = (action) => { try { action(); return "done"; } catch ({ code }) { return code; } };
      const status = readFileSync("/proc/self/status", "utf8");
      const field = (name) => new RegExp("^" + name + ":\\\\s*(\\\\S+)$", "m").exec(status)[1];
      console.log(JSON.stringify({
        capabilities: field("CapEff"), bounding: field("CapBnd"), newPrivileges: field("NoNewPrivs"), filters: field("Seccomp"),
        write: attempt(() => writeFileSync("/opt/x", "")),
        setting: attempt(() => writeFileSync("/proc/sys/net/ipv4/ip_forward", "1")),
      }));`;
    const { stdout, stderr } = podman.run(NAME, ["--eval", program], ["--entrypoint=node"]);
    assert.deepEqual(
      JSON.parse(stdout || "null"),
      {
        capabilities: "0000000000001000",
        bounding: "0000000000001000",
        newPrivileges: "1",
        filters: "2",
        write: "EROFS",
        setting: "EROFS",
      },
      stderr,
    );
  });

  describe("on a node", () => {
    let node: LabNode;
    let host = "";
    before(() => {
      node = twoNodes(lab).node1.node;
      host = `${lab.scratch}/host`;
      const directories = [
        "run/drawbridge",
        "objects",
        "etc/drawbridge",
        "opt/cni/bin",
        "etc/cni/net.d",
        "var/lib/cni",
      ];
      for (const directory of directories) mkdirSync(`${host}/${directory}`, { recursive: true });
      writeFileSync(`${host}/objects/node.yaml`, NODE);
      const configMap = manifestObjects(readFileSync(INSTALL, "utf8")).find(({ kind }) => kind === "ConfigMap");
      for (const [name, text] of Object.entries((configMap?.["data"] ?? {}) as Record<string, string>)) {
        writeFileSync(`${host}/etc/drawbridge/${name}`, text);
      }
    });

    const conf = (): string => `${host}/etc/cni/net.d/10-drawbridge.conflist`;
    const executables = (): readonly string[] => readdirSync(`${host}/opt/cni/bin`).sort();
    const tables = (): readonly string[] => node.exec("nft", ["list", "tables"]).trim().split("\n").sort();

    it("DEPLOY-05, DEPLOY-06: the container programs the node, raises settings, installs the plugin, and leaves all of it on SIGTERM", async () => {
      const mounts = [
        ...["/run/drawbridge", "/opt/cni/bin", "/etc/cni/net.d"].map((to) => ({ from: host + to, to })),
        { from: "/proc/sys/net", to: "/host/proc/sys/net" },
        ...["/etc/drawbridge", "/objects"].map((to) => ({ from: host + to, to, isReadOnly: true })),
      ];
      const args = ["--config=/etc/drawbridge/policyd.yaml", "--node-name=node1", "--objects=/objects"];
      const child = podman.start(node.path, NAME, args, mounts);
      const log = logOf(child);
      const ended = once(child, "close");
      await holds(() => isSynced(`${host}/run/drawbridge/policyd.sock`), "the socket answers", log);
      await holds(() => existsSync(conf()), "the network's configuration is written", log);
      await holds(() => node.readSysctl(CLOSE_WAIT) === "3600", "the setting is raised", log);
      const [{ startupProbe, livenessProbe, readinessProbe } = {}] = daemonSet(readFileSync(INSTALL, "utf8")).pod
        .containers;
      for (const probe of [startupProbe, livenessProbe, readinessProbe]) {
        const url = `http://127.0.0.1:10256${probe?.httpGet.path}`;
        await holds(() => statusOf(node, url) === 200, url, log);
      }
      assert.equal(statSync(conf()).mode & 0o777, 0o600);
      assert.deepEqual(executables(), ["drawbridge", "drawbridge-ipam", "loopback"]);
      const plugin = `${host}/opt/cni/bin/drawbridge`;
      const version = spawnSync(plugin, { env: { CNI_COMMAND: "VERSION" }, encoding: "utf8" });
      assert.match(version.stdout, /"supportedVersions"/);
      const exec = podman.exec(["node", "cli/drawbridge.js", "--version"]);
      assert.deepEqual([exec.status, exec.stdout], [0, `${VERSION}\n`], exec.stderr);

      podman.stop();
      assert.deepEqual(await ended, [0, null], log());
      assert.deepEqual(tables(), ["table bridge drawbridge", "table inet drawbridge", "table inet drawbridge-policy"]);
      assert.ok(existsSync(conf()));
    });

    it("UNINSTALL-01: the container of manifests/cleanup removes tables, configuration and plugin from the node", async function () {
      requireKubectl(this);
      const { pod } = daemonSet(rendered("manifests/cleanup"));
      const [{ command: [entrypoint = "", ...args] = [], volumeMounts = [] } = {}] = pod.initContainers ?? [];
      const mounts = volumeMounts.map(({ mountPath }) => ({
        from: mountPath === "/host/proc/sys/net" ? "/proc/sys/net" : host + mountPath,
        to: mountPath,
      }));
      assert.ok(executables().length > 0, "the test before has run");
      const child = podman.start(node.path, NAME, args, mounts, entrypoint);
      const log = logOf(child);
      assert.deepEqual(await once(child, "close"), [0, null], log());
      assert.deepEqual([tables(), existsSync(conf()), executables()], [[""], false, []]);
      assert.deepEqual(readdirSync(`${host}/run`, { recursive: true }), [], log());
    });
  });
});

/** Returns the status with which a URL answers within a node, 0 when nobody listens. */
function statusOf(node: LabNode, url: string): number {
  const program = `console.log(await fetch(${JSON.stringify(url)}).then(({ status }) => status, () => 0))`;
  return Number(node.exec(process.execPath, ["--input-type=module", "--eval", program]));
}

function logOf(child: ChildProcess): () => string {
  let log = "";
  child.stderr?.setEncoding("utf8").on("data", (piece: string) => (log += piece));
  return () => log;
}

function isSynced(socket: string): boolean {
  try {
    const reply = askPolicyd(syscalls, socket, { type: "status" }, 5000);
    return reply.type === "status" && reply.status.isSynced;
  } catch (error) {
    if (error instanceof DrawbridgeError && error.code === "ERR_UNAVAILABLE") return false;
    throw error;
  }
}

async function holds(condition: () => boolean, what: string, log: () => string): Promise<void> {
  await until(condition, () => `${what}: not so; log:\n${log()}`);
}
