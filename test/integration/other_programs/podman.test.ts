import assert from "node:assert/strict";
import process from "node:process";
import { mkdirSync, readdirSync, readFileSync, rmSync, copyFileSync, symlinkSync, writeFileSync } from "node:fs";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { type TwoNodes, twoNodes } from "../../lab/topology.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";
import { randomFrom } from "../../support/random.ts";
import { holdToFixture } from "../../support/runtimes/fixture.ts";
import { recorderScript, takeCalls } from "../../support/runtimes/recorder.ts";
import { RuntimeNode } from "../../support/runtimes/runtime_node.ts";
import { roundsFor } from "../../support/long_form.ts";
import type { SpawnSyncReturns } from "node:child_process";

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

  /** Runs podman to its end, and returns the result even when it fails. */
  call(args: readonly string[]): SpawnSyncReturns<string> {
    return this.#node.run("podman", args, "", {
      CONTAINERS_CONF: `${this.#directory}/containers.conf`,
      CONTAINERS_STORAGE_CONF: `${this.#directory}/storage.conf`,
      HOME: this.#directory,
    });
  }

  /**
   * Starts a container on the network that serves its name by HTTP on port 80; the caller checks whether it started.
   *
   * @param options further options of `podman run`
   */
  tryStart(name: string, options: readonly string[] = []): SpawnSyncReturns<string> {
    const serve = `mkdir -p /tmp/${name} && echo ${name} >/tmp/${name}/name && exec busybox httpd -f -p 80 -h /tmp/${name}`;
    const restrictions = ["--cgroups=disabled", "--security-opt=seccomp=unconfined"];
    const limits = ["--ulimit=nofile=1024:4096", "--ulimit=nproc=1000:1000"];
    const run = ["run", "--detach", `--name=${name}`, `--network=${NETWORK}`, ...restrictions, ...limits, ...options];
    return this.call([...run, "--rootfs", `${this.#directory}/root`, BUSYBOX, "sh", "-c", serve]);
  }

  /**
   * Starts a container as {@link tryStart} does. @throws AssertionError with podman's message when the container does
   * not start
   */
  start(name: string, options: readonly string[] = []): void {
    const { status, stderr, stdout } = this.tryStart(name, options);
    assert.equal(status, 0, `${name}: ${stderr}${stdout}`);
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
    const { status, stdout, stderr, error } = this.call(args);
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

const SEED = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 1_000_000);
const ROUNDS = roundsFor("rounds", 5, 60);
/** The last moment of a kill. A call in a process of its own has usually ended by then, even on a busy machine. */
const LATEST_KILL_SECONDS = 0.15;
/** The moment of a kill before which no such call ends: its executable is not even loaded. */
const SURE_KILL_SECONDS = 0.002;
/** The verbs that are killed in a round, as shell patterns. */
const VICTIMS = ["ADD", "DEL", "ADD|DEL"];
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
  after(async () => {
    podman?.removeAll();
    await node?.end();
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

  it(`RUNTIME-02: nothing is left of podman's containers whose calls are killed at any moment (seed ${SEED})`, async () => {
    const random = randomFrom(SEED);
    const killed = `${lab.scratch}/killed`;
    mkdirSync(killed);
    const verbs = new Set<string>();
    for (let round = 0; round < ROUNDS; round++) {
      const name = `killed${round}`;
      const victim = VICTIMS[round % VICTIMS.length] ?? "ADD";
      // Early moments are more frequent, since a call takes some 20 ms on a quiet machine.
      const seconds = round < VICTIMS.length ? SURE_KILL_SECONDS : random() ** 2 * LATEST_KILL_SECONDS;
      node.callThrough((plugin) => killingScript(`${node.installed}/${plugin}`, victim, seconds.toFixed(4), killed));
      podman.tryStart(name, [`--publish=${PUBLISHED_PORT}:${HTTP_PORT}`]);
      podman.call(["rm", "--force", "--time=0", name]);
      // A runtime of Kubernetes calls DEL until it succeeds; podman calls it once, so the test repeats a killed one.
      for (const { environment, stdin } of takeKilled(killed, verbs)) {
        const { status, stdout } = node.run(`${node.installed}/drawbridge`, [], stdin, environment);
        assert.equal(status, 0, `round ${round}, ${victim} killed after ${seconds.toFixed(4)} s: ${stdout}`);
      }
      await node.mustHoldNothing([]);
    }
    assert.deepEqual([...verbs].sort(), ["ADD", "DEL"], "calls of both kinds were killed");
    node.callThrough((plugin) => recorderScript(`${node.installed}/${plugin}`, node.calls));
    podman.start("after", [`--publish=${PUBLISHED_PORT}:${HTTP_PORT}`]);
    const [address = ""] = podman.addresses("after");
    assert.equal(net.router.exec("busybox", [...GET, `http://${host(address)}/name`]), "after\n");
    podman.stop("after");
    takeCalls(node.calls);
    await node.mustHoldNothing([]);
  });
});

/** Returns a script that calls a plugin, and kills it after some seconds if its verb matches `victim`. */
function killingScript(plugin: string, victim: string, seconds: string, directory: string): string {
  return `#!/bin/sh
case $CNI_COMMAND in ${victim}) ;; *) exec "${plugin}" ;; esac
call=$(mktemp -d "${directory}/XXXXXX") || exit 1
env -0 >"$call/environment"
cat >"$call/stdin"
timeout --foreground --signal=KILL ${seconds} "${plugin}" <"$call/stdin"
code=$?
if [ $code != 137 ]; then rm -r "$call"; fi
exit $code
`;
}

/**
 * Removes the records of killed calls, and returns those of DEL, which are to be repeated.
 *
 * @param verbs receives the verbs of all killed calls
 */
function takeKilled(
  directory: string,
  verbs: Set<string>,
): readonly { environment: NodeJS.ProcessEnv; stdin: string }[] {
  const calls = readdirSync(directory).map((name) => {
    const pairs = readFileSync(`${directory}/${name}/environment`, "utf8").split("\0");
    const environment = Object.fromEntries(
      pairs.map((pair) => [pair.split("=")[0] ?? "", pair.slice(pair.indexOf("=") + 1)]),
    );
    return { environment, stdin: readFileSync(`${directory}/${name}/stdin`, "utf8") };
  });
  for (const name of readdirSync(directory)) rmSync(`${directory}/${name}`, { recursive: true });
  for (const { environment } of calls) verbs.add(environment["CNI_COMMAND"] ?? "");
  return calls.filter(({ environment }) => environment["CNI_COMMAND"] === "DEL");
}
