import { readdirSync, readFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { type Inventory, NETWORK_COMMANDS, readInventory } from "../inventory.ts";
import { STATE } from "../place.ts";
import { run } from "../run.ts";

/** Directories of the machine in which container programs keep files; two levels of each are compared. */
const FOLDERS = "/etc /opt /run /usr/libexec /usr/local/bin /var/lib /var/log";

/** Names of temporary files of upstream's tests and this command. */
const TEMPORARY = "(test-kuberc|ginkgo|drawbridge-(root|image|load)-)";

const COMMANDS = {
  cgroups: "find /sys/fs/cgroup -maxdepth 3 -name cgroup.procs",
  ...NETWORK_COMMANDS,
  files: `find ${FOLDERS} -maxdepth 2 2>/dev/null
    find ${os.homedir()}/.kube -maxdepth 3 2>/dev/null
    find ${os.tmpdir()} -maxdepth 1 -regextype posix-extended -regex '.*/${TEMPORARY}.*' || true`,
};

/**
 * Mounts and files of named network namespaces: other programs make them, and a cluster makes them only inside its
 * nodes.
 */
const NAMED_NAMESPACE = /^\/run\/netns\b/;

/** Reads the parts of the machine's state that a cluster could change. */
export function readMachine(): Inventory {
  const isForeign = (_kind: string, line: string): boolean => NAMED_NAMESPACE.test(line);
  return {
    processes: clusterProcesses(),
    ...readInventory(COMMANDS, (command) => run("sh", ["-c", command]), isForeign),
  };
}

/** Returns the processes of a cluster: in its cgroups, or with its directory in their environment or command line. */
function clusterProcesses(): readonly string[] {
  const numbers = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return numbers.flatMap((number) => {
    const text = (name: string): string => readOrEmpty(path.join("/proc", number, name));
    const isOurs =
      text("cgroup").includes("drawbridge-cluster") ||
      text("environ").includes(STATE) ||
      text("cmdline").includes(STATE);
    return isOurs ? [`${number} ${text("cmdline").replaceAll("\0", " ").trim()}`] : [];
  });
}

/** Returns "" for an ended process. */
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
