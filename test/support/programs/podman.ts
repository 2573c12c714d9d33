import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync, type SpawnSyncReturns } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { daemonSet } from "../daemon/daemon_set.ts";

export const SECCOMP_PROFILE = path.resolve("manifests/seccomp/drawbridge.json");

const NAME = "policyd";

/** A mount of a directory of the machine. */
export interface Mount {
  readonly from: string;
  readonly to: string;
  readonly isReadOnly?: boolean;
}

/**
 * Runs images with exactly the rights of a manifest's container: its capabilities, its read-only root, its seccomp
 * profile.
 *
 * podman keeps its storage in a directory of the test's. It runs in a mount namespace that has only the unified cgroup
 * hierarchy, since crun does not accept a hybrid one, and it changes no cgroup.
 */
export class Podman {
  readonly #storage: readonly string[];

  constructor(directory: string) {
    const driver = readFileSync("/proc/filesystems", "utf8").includes("\toverlay\n") ? "overlay" : "vfs";
    mkdirSync(directory, { recursive: true });
    const places = ["--root", `${directory}/storage`, "--runroot", `${directory}/run`];
    this.#storage = ["--storage-driver", driver, ...places, "--cgroup-manager", "cgroupfs"];
  }

  /** Loads the image of an archive. */
  load(archive: string): void {
    const { status, stderr } = this.#wait(["load", "--quiet", "--input", archive]);
    assert.equal(status, 0, stderr);
  }

  /** Runs the image to its end, in a network namespace of its own. */
  run(image: string, args: readonly string[], options: readonly string[] = []): SpawnSyncReturns<string> {
    return this.#wait(["run", "--rm", ...restrictions(), "--network=none", ...options, image, ...args]);
  }

  /**
   * Starts the image as a container in the host's network, which is a namespace here.
   *
   * @param where path of the network namespace
   * @param entrypoint replaces the image's own
   */
  start(
    where: string,
    image: string,
    args: readonly string[],
    mounts: readonly Mount[],
    entrypoint?: string,
  ): ChildProcess {
    const places = mounts.map(({ from, to, isReadOnly = false }) => `--volume=${from}:${to}${isReadOnly ? ":ro" : ""}`);
    const options = [...places, ...(entrypoint === undefined ? [] : [`--entrypoint=${entrypoint}`])];
    const run = ["run", "--rm", `--name=${NAME}`, ...restrictions(), "--network=host", ...options, image, ...args];
    const command = ["unshare", ...this.#command(run)];
    return spawn("nsenter", [`--net=${where}`, ...command], { stdio: ["ignore", "ignore", "pipe"] });
  }

  /** Runs a program in the container that {@link start} has started. */
  exec(command: readonly string[]): SpawnSyncReturns<string> {
    return this.#wait(["exec", NAME, ...command]);
  }

  /** Ends the container as `kubectl delete pod` does: SIGTERM, and SIGKILL after the grace period. */
  stop(): void {
    this.#wait(["stop", "--ignore", "--time=5", NAME]);
  }

  #wait(args: readonly string[]): SpawnSyncReturns<string> {
    return spawnSync("unshare", this.#command(args), { encoding: "utf8", timeout: 60_000 });
  }

  #command(args: readonly string[]): readonly string[] {
    const script = 'umount --recursive /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && exec podman "$@"';
    return ["--mount", "sh", "-c", script, "podman", ...this.#storage, ...args];
  }
}

/** Returns the security context of manifests/install.yaml as options of podman. */
function restrictions(): readonly string[] {
  const [container] = daemonSet(readFileSync("manifests/install.yaml", "utf8")).pod.containers;
  const { capabilities, readOnlyRootFilesystem, allowPrivilegeEscalation, runAsUser } =
    container?.securityContext ?? {};
  assert.ok(readOnlyRootFilesystem && !allowPrivilegeEscalation && capabilities !== undefined);
  return [
    `--user=${runAsUser}`,
    "--read-only",
    "--read-only-tmpfs=false",
    ...capabilities.drop.map((name) => `--cap-drop=${name}`),
    ...capabilities.add.map((name) => `--cap-add=${name}`),
    "--security-opt=no-new-privileges",
    `--security-opt=seccomp=${SECCOMP_PROFILE}`,
    "--cgroups=disabled",
    // To raise a limit takes a capability that a sandbox may lack.
    "--ulimit=nofile=1024:4096",
    "--ulimit=nproc=1000:1000",
  ];
}
