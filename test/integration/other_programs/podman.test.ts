import assert from "node:assert/strict";
import { mkdirSync, readFileSync, copyFileSync, symlinkSync, writeFileSync } from "node:fs";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { type TwoNodes, twoNodes } from "../../lab/topology.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";
import { holdToFixture } from "../../support/runtimes/fixture.ts";
import { takeCalls } from "../../support/runtimes/recorder.ts";
import { RuntimeNode } from "../../support/runtimes/runtime_node.ts";

/** The network that policyd's configuration list defines. */
const NETWORK = "drawbridge";
const PT_INTERP = 3;
/** The path of busybox on the machine and in a container. */
const BUSYBOX = "/bin/busybox";

/**
 * Podman on a node of a lab, which attaches containers by the configuration list that policyd installed there.
 *
 * Its storage, its state and its configuration are files of the lab; the machine's own containers are not touched. It
 * uses no cgroup, raises no limit and loads no seccomp profile, since a sandbox may forbid each of them.
 */
class ContainerEngine {
  readonly #node: RuntimeNode;
  readonly #directory: string;

  /** @param directory for its files, among them a root file system with only a static busybox */
  constructor(node: RuntimeNode, directory: string) {
    this.#node = node;
    this.#directory = directory;
    for (const place of ["bin", "proc", "sys", "dev", "etc", "tmp", "run", "www"]) {
      mkdirSync(`${directory}/root/${place}`, { recursive: true });
    }
    assert.ok(isStatic(readFileSync(BUSYBOX)), `${BUSYBOX} is not static: install Debian's busybox-static`);
    copyFileSync(BUSYBOX, `${directory}/root${BUSYBOX}`);
    symlinkSync("busybox", `${directory}/root/bin/sh`);
    writeFileSync(`${directory}/containers.conf`, configuration(node, directory));
    const storage = `driver = "vfs"\ngraphroot = "${directory}/storage"\nrunroot = "${directory}/run"`;
    writeFileSync(`${directory}/storage.conf`, `[storage]\n${storage}\n`);
  }

  /** Its version, as it prints it. */
  get version(): string {
    return this.#must(["--version"]).trim();
  }

  /**
   * Starts a container on the network that serves its name by HTTP on port 80.
   *
   * @param options further options of `podman run`
   * @throws AssertionError with podman's message when the container does not start
   */
  start(name: string, options: readonly string[] = []): void {
    const serve = `mkdir -p /tmp/${name} && echo ${name} >/tmp/${name}/name && exec busybox httpd -f -p 80 -h /tmp/${name}`;
    const restrictions = ["--cgroups=disabled", "--security-opt=seccomp=unconfined"];
    const limits = ["--ulimit=nofile=1024:4096", "--ulimit=nproc=1000:1000"];
    const run = ["run", "--detach", `--name=${name}`, `--network=${NETWORK}`, ...restrictions, ...limits, ...options];
    this.#must([...run, "--rootfs", `${this.#directory}/root`, BUSYBOX, "sh", "-c", serve]);
  }

  /** Runs a program in a container. @returns its standard output */
  exec(name: string, command: readonly string[]): string {
    return this.#must(["exec", name, ...command]);
  }

  /** Returns the container's addresses as podman reads them from the plugin's result, IPv4 before IPv6. */
  addresses(name: string): readonly string[] {
    const format = `{{with index .NetworkSettings.Networks "${NETWORK}"}}{{.IPAddress}} {{.GlobalIPv6Address}}{{end}}`;
    return this.#must(["inspect", "--format", format, name]).trim().split(" ");
  }

  /** Stops a container and removes it. */
  stop(name: string): void {
    this.#must(["stop", "--time=0", name]);
    this.#must(["rm", name]);
  }

  /** Removes all containers. */
  removeAll(): void {
    this.#must(["rm", "--all", "--force", "--time=0"]);
  }

  #must(args: readonly string[]): string {
    const { status, stdout, stderr, error } = this.#node.run("podman", args, "", {
      CONTAINERS_CONF: `${this.#directory}/containers.conf`,
      CONTAINERS_STORAGE_CONF: `${this.#directory}/storage.conf`,
      HOME: this.#directory,
    });
    assert.equal(status, 0, `podman ${args.join(" ")}: ${error?.message ?? stderr + stdout}`);
    return stdout;
  }
}

/** Whether an ELF program of 64 bits needs no interpreter: it has no program header PT_INTERP (elf(5)). */
function isStatic(program: Buffer): boolean {
  const [offset, size, count] = [
    Number(program.readBigUInt64LE(32)),
    program.readUInt16LE(54),
    program.readUInt16LE(56),
  ];
  return Array.from({ length: count }, (_, i) => program.readUInt32LE(offset + i * size)).every(
    (type) => type !== PT_INTERP,
  );
}

function configuration(node: RuntimeNode, directory: string): string {
  return `[network]
network_backend = "cni"
network_config_dir = "${node.configurations}"
cni_plugin_dirs = ["${node.binaries}"]
default_network = "${NETWORK}"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "crun"
static_dir = "${directory}/static"
tmp_dir = "${directory}/tmp"
volume_path = "${directory}/volumes"
`;
}

const HTTP_PORT = 80;
const PUBLISHED_PORT = 8080;
/** The command that gets a page, without a time limit: with one, wget of Debian's Busybox ends by SIGSEGV. */
const GET = ["wget", "-q", "-O", "-"];

/** Formats an address for a URL. */
function host(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}

describe("podman with its CNI backend", function () {
  this.timeout(300_000);
  let lab: Lab;
  let net: TwoNodes;
  let node: RuntimeNode;
  let podman: ContainerEngine;

  before(async function () {
    requireKernel(this);
    for (const program of ["podman", "crun", "busybox"]) requireProgram(this, program);
    lab = createLab("podman");
    net = twoNodes(lab);
    node = await RuntimeNode.start(lab, net.node1, { hasOwnRun: true });
    podman = new ContainerEngine(node, `${lab.scratch}/podman`);
  });
  after(() => {
    podman?.removeAll();
    lab?.destroy();
  });

  it("RUNTIME-02: containers of podman reach each other, a published port answers outside, and their end leaves nothing", async () => {
    podman.start("a");
    podman.start("b", [`--publish=${PUBLISHED_PORT}:${HTTP_PORT}`]);
    const [a, b] = [podman.addresses("a"), podman.addresses("b")];
    assert.deepEqual([a.length, b.length, new Set([...a, ...b]).size], [2, 2, 4], "both families each");
    for (const address of b) assert.equal(podman.exec("a", ["busybox", ...GET, `http://${host(address)}/name`]), "b\n");
    for (const address of a) assert.equal(podman.exec("b", ["busybox", ...GET, `http://${host(address)}/name`]), "a\n");
    for (const address of net.node1.addresses.map(formatAddress)) {
      const url = `http://${host(address)}:${PUBLISHED_PORT}/name`;
      assert.equal(net.router.exec("busybox", [...GET, url]), "b\n", url);
    }
    podman.stop("a");
    podman.stop("b");
    await node.mustHoldNothing([...a, ...b]);
    assert.deepEqual(node.cached, []);
    const calls = takeCalls(node.calls);
    assert.deepEqual(
      calls.filter(({ exitCode }) => exitCode !== 0),
      [],
    );
    holdToFixture("podman", podman.version, calls, lab.scratch);
  });
});
