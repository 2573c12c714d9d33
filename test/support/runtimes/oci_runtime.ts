import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { closeSync, copyFileSync, mkdirSync, openSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import type { SeccompProfile } from "../../lab/confined/seccomp.ts";

/** The part of its configuration in which a container of {@link OciRuntime} differs from others. */
export interface ContainerOptions {
  readonly profile?: SeccompProfile;
  /** `allowPrivilegeEscalation: false` of a Pod. */
  readonly noNewPrivileges: boolean;
  readonly user: number;
  /** A script of busybox' shell. */
  readonly script: string;
}

/** The end of a call of the runtime, and the output of the runtime and the container. */
export interface Ended {
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
export class OciRuntime {
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
