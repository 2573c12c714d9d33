import assert from "node:assert/strict";
import os from "node:os";
import {
  mkdtempSync,
  readFileSync,
  rmSync,
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { parseProfile, type SeccompProfile } from "../../lab/confined/seccomp.ts";
import { SECCOMP_PROFILE } from "../../support/programs/podman.ts";
import { requireKernel, requireProgram } from "../../support/privilege.ts";
import { spawnSync, type SpawnSyncReturns } from "node:child_process";

/** The part of its configuration in which a container of {@link OciRuntime} differs from others. */
interface ContainerOptions {
  readonly profile?: SeccompProfile;
  /** `allowPrivilegeEscalation: false` of a Pod. */
  readonly noNewPrivileges: boolean;
  readonly user: number;
  /** A script of busybox' shell. */
  readonly script: string;
}

/** The end of a call of the runtime, and the output of the runtime and the container. */
interface Ended {
  readonly status: number | null;
  readonly output: string;
}

const BUSYBOX = "/bin/busybox";
const MILLISECONDS = 20_000;

/**
 * An OCI runtime by itself, called as containerd and CRI-O call it: create, start, exec, delete.
 *
 * Each call is made in a mount namespace that has only the unified cgroup hierarchy, since crun does not accept a
 * hybrid one.
 */
class OciRuntime {
  readonly #program: string;
  readonly #directory: string;
  #containers = 0;

  /**
   * @param program runc or crun
   * @param directory of the test; it gets the runtime's state and a root file system with only a static busybox
   */
  constructor(program: string, directory: string) {
    this.#program = program;
    this.#directory = directory;
    for (const place of ["bin", "proc", "dev", "tmp"]) mkdirSync(`${directory}/root/${place}`, { recursive: true });
    copyFileSync(BUSYBOX, `${directory}/root${BUSYBOX}`);
    symlinkSync("busybox", `${directory}/root/bin/sh`);
  }

  /**
   * Starts a container, waits until its script has printed `ready` or the runtime has given up, uses it, and removes
   * it.
   *
   * @returns the result of the last call of create or start, with the container's output until then
   */
  async withContainer(
    options: ContainerOptions,
    use: (exec: (script: string) => Ended) => void = () => undefined,
  ): Promise<Ended> {
    const name = `${this.#program}-${process.pid}-${(this.#containers += 1)}`;
    const log = `${this.#directory}/${name}.log`;
    writeFileSync(`${this.#directory}/config.json`, JSON.stringify(configuration(options, this.#directory)));
    const descriptor = openSync(log, "w");
    try {
      const created = this.#call(["create", "--bundle", this.#directory, name], descriptor);
      if (created.status !== 0) return { status: created.status, output: readFileSync(log, "utf8") };
      const started = this.#call(["start", name]);
      const end = performance.now() + MILLISECONDS;
      while (started.status === 0 && !readFileSync(log, "utf8").includes("ready") && this.#isRunning(name)) {
        if (performance.now() > end) break;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      const output = readFileSync(log, "utf8") + started.stdout + started.stderr;
      if (output.includes("ready")) {
        use((script) => {
          const { status, stdout, stderr } = this.#call(["exec", name, "/bin/sh", "-c", script]);
          return { status, output: stdout + stderr };
        });
      }
      return { status: started.status, output };
    } finally {
      closeSync(descriptor);
      this.#call(["delete", "--force", name]);
    }
  }

  #isRunning(name: string): boolean {
    const { stdout } = this.#call(["state", name]);
    return /"status": "(?:running|created)"/.test(stdout);
  }

  #call(args: readonly string[], output?: number): SpawnSyncReturns<string> {
    const script = 'umount --recursive /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec "$@"';
    const command = [this.#program, "--root", `${this.#directory}/state`, ...args];
    return spawnSync("unshare", ["--mount", "sh", "-c", script, "sh", ...command], {
      encoding: "utf8",
      timeout: MILLISECONDS,
      // A container keeps the descriptors of create, so a pipe would not end.
      stdio: ["ignore", output ?? "pipe", output ?? "pipe"],
    });
  }
}

/** Returns the configuration of a bundle (the OCI runtime specification's config.md). */
function configuration(
  { profile, noNewPrivileges, user, script }: ContainerOptions,
  directory: string,
): Readonly<Record<string, unknown>> {
  const capabilities = ["CAP_NET_ADMIN"];
  return {
    ociVersion: "1.0.2",
    process: {
      user: { uid: user, gid: user, additionalGids: [user] },
      args: ["/bin/sh", "-c", script],
      env: ["PATH=/bin"],
      cwd: "/tmp",
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
      noNewPrivileges,
    },
    root: { path: `${directory}/root`, readonly: true },
    mounts: [
      { destination: "/proc", type: "proc", source: "proc" },
      { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "mode=755"] },
    ],
    linux: {
      namespaces: ["pid", "ipc", "uts", "mount", "network"].map((type) => ({ type })),
      ...(profile === undefined ? {} : { seccomp: profile }),
    },
  };
}

const RUNTIMES = ["runc", "crun"];
const USERS = [0, 65_534];
/** The answer to a call that the profile does not name. */
const NOT_THERE = /unshare.*Function not implemented/;
const SCRIPT = `echo "$(unshare -n true 2>&1)"; echo ready; exec sleep 60`;

function without(profile: SeccompProfile, call: string): SeccompProfile {
  const syscalls = profile.syscalls.map((rule) => ({ ...rule, names: rule.names.filter((name) => name !== call) }));
  return { ...profile, syscalls };
}

for (const program of RUNTIMES) {
  describe(`${program} with manifests/seccomp/drawbridge.json`, function () {
    this.timeout(300_000);
    const profile = parseProfile(readFileSync(SECCOMP_PROFILE, "utf8"));
    let directory: string;
    let runtime: OciRuntime;

    before(function () {
      requireKernel(this);
      for (const one of [program, "busybox", "unshare"]) requireProgram(this, one);
      directory = mkdtempSync(`${os.tmpdir()}/seccomp-`);
      runtime = new OciRuntime(program, directory);
    });
    after(() => {
      if (directory !== undefined) rmSync(directory, { recursive: true });
    });

    for (const noNewPrivileges of [true, false]) {
      const title = noNewPrivileges
        ? "with noNewPrivileges"
        : "without noNewPrivileges, which sets the filter earlier,";
      it(`DEPLOY-11: ${title} a container starts as any user under the profile and runs further programs`, async () => {
        for (const user of USERS) {
          const container = { noNewPrivileges, user, script: SCRIPT };
          const ended = await runtime.withContainer({ ...container, profile }, (exec) => {
            const further = exec("unshare -n true 2>&1; exit 9");
            assert.equal(further.status, 9, `exec as ${user}: ${further.output}`);
            assert.match(further.output, NOT_THERE);
          });
          assert.ok(ended.output.includes("ready"), `start as ${user}: ${ended.output}`);
          assert.match(ended.output, NOT_THERE);
        }
      });
    }

    it("DEPLOY-11: a container does not start under a profile that lacks a call of the runtime's own start, so these tests can fail", async () => {
      const container = { noNewPrivileges: false, user: 0, script: SCRIPT };
      assert.match((await runtime.withContainer(container)).output, /ready/, "without a profile");
      const { output } = await runtime.withContainer({ ...container, profile: without(profile, "capset") });
      assert.doesNotMatch(output, /ready/);
      assert.match(output, /[Ff]unction not implemented/);
    });
  });
}
