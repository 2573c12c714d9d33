import path from "node:path";

/**
 * One rule about imports.
 *
 * Files and directories are relative to the project with "/"; a directory ends in "/" and stands for everything below
 * it.
 */
interface Boundary {
  /** The places where the rule applies; everywhere when absent. */
  readonly within?: readonly string[];
  /** The places within these to which the rule does not apply. */
  readonly except?: readonly string[];
  /** The forbidden modules: packages and Node's modules by name (without "node:"), our own code by directory. */
  readonly forbids: readonly string[];
  /** Restricts the rule to these names of the forbidden modules; all names when absent. */
  readonly names?: readonly string[];
  /** The safe alternative, in the words of the message. */
  readonly instead: string;
}

/**
 * The functions of node:fs and node:fs/promises that change a file system by path. Writing to an open descriptor is not
 * among them, since the plugin answers on stdout in that way.
 */
const FILE_SYSTEM_WRITES = (
  "appendFile chmod chown copyFile cp lchown link lutimes mkdir mkdtemp rename rm rmdir symlink truncate " +
  "unlink utimes writeFile"
)
  .split(" ")
  .flatMap((name) => [name, `${name}Sync`]);

const PRODUCTION = ["cli/", "cni/", "ipam/", "kernel/", "policyd/"];

export const BOUNDARIES: readonly Boundary[] = [
  {
    except: [
      "test/",
      "cli/node/machine/legacy_rules.ts",
      "cli/node/machine/plugin_version.ts",
      "cli/input/programs/system_programs.ts",
    ],
    forbids: ["child_process"],
    instead:
      "speak to the kernel by netlink (kernel/netlink/, kernel/route/); only test/ starts programs, the doctor asks the " +
      "plugin for its version and iptables-legacy for its rules, and the command line runs the user's kustomize and helm",
  },
  {
    // The unit tests of kernel/ip/ hold our parser against it; the evaluator of Services takes its classes of addresses.
    except: ["kernel/ip/", "policyd/semantics/services/address_class.ts", "test/unit/kernel/"],
    forbids: ["ipaddr.js"],
    instead: "it reads 010.0.0.1 as 8.0.0.1: use kernel/ip/address.ts for addresses and kernel/ip/cidr.ts for prefixes",
  },
  {
    except: ["cli/node/machine/remove.ts", "ipam/", "kernel/sysctl.ts", "policyd/installation/host_files.ts", "test/"],
    forbids: ["fs", "fs/promises"],
    names: [...FILE_SYSTEM_WRITES, "createWriteStream", "promises", "default", "*"],
    instead: "write addresses and records through the store in ipam/ and sysctls through kernel/sysctl.ts",
  },
  {
    except: ["kernel/syscall/", "test/lab/"],
    forbids: ["ffi", "koffi"],
    instead: "make system calls through the interface of kernel/syscall/syscalls.ts",
  },
  {
    within: ["cni/", "ipam/", "kernel/"],
    except: ["kernel/syscall/koffi.ts"],
    forbids: ["koffi", "winston", "@kubernetes/client-node", "commander", "valibot", "yaml"],
    instead:
      "the plugin starts again for every pod and must not load it: keep it in policyd/ or kernel/syscall/koffi.ts",
  },
  {
    except: ["policyd/objects/api/connection/kubeconfig_library.ts", "test/"],
    forbids: ["@kubernetes/client-node"],
    instead:
      "its informers stop at the first failed list, and it takes half a second to load: kubeconfig and authentication " +
      "are read only in policyd/objects/api/connection/kubeconfig.ts, when a command asks for a cluster by one",
  },
  {
    within: ["cni/", "ipam/"],
    forbids: ["kernel/notifications/", "kernel/syscall/koffi.ts"],
    instead: "the plugin runs in its own engine for some milliseconds: only the daemon waits for events",
  },
  {
    except: ["test/"],
    forbids: ["worker_threads"],
    instead:
      "a worker is a second JavaScript engine, 10 MB of each daemon: what waits for the kernel subscribes to kernel/notifications/notifications.ts",
  },
  {
    within: ["kernel/"],
    forbids: ["ipam/", "cni/", "policyd/"],
    instead: "kernel/ is the lowest layer: pass what it needs as an argument",
  },
  {
    within: ["ipam/"],
    forbids: ["cni/", "policyd/"],
    instead: "ipam/ stands only on kernel/: pass what it needs as an argument",
  },
  {
    within: ["cni/"],
    forbids: ["policyd/"],
    instead: "the plugin works without the daemon: what both need lives in kernel/ or ipam/",
  },
  {
    within: ["policyd/services/"],
    forbids: ["policyd/semantics/"],
    instead:
      "the evaluator checks the compiler from the objects only: share types of policyd/objects/ and kernel/ip/ only",
  },
  {
    within: ["policyd/policies/compile/"],
    forbids: ["policyd/semantics/"],
    instead:
      "the evaluator checks the compiler from the objects only: share types of policyd/objects/ and kernel/ip/ only",
  },
  {
    within: ["policyd/semantics/policies/"],
    forbids: [
      "policyd/policies/",
      "policyd/semantics/services/",
      "cni/",
      "ipam/",
      "cli/",
      "policyd/attachments/",
      "policyd/configuration/",
      "policyd/log/",
      "policyd/node/",
      "policyd/objects/api/",
      "policyd/objects/directory/",
      "policyd/ruleset/",
      "policyd/services/",
      "policyd/socket/",
      "kernel/nftables/",
      "kernel/netlink/",
      "kernel/syscall/",
      "fs",
      "fs/promises",
      "net",
      "process",
    ],
    instead:
      "policies are evaluated from the objects only: import policyd/objects/, kernel/ip/ and kernel/error.ts only",
  },
  {
    within: ["policyd/semantics/services/"],
    forbids: [
      "policyd/services/elements/",
      "policyd/services/rules/",
      "policyd/node/",
      "policyd/ruleset/",
      "kernel/nftables/",
    ],
    instead:
      "the evaluator checks the compiler from the objects only: share types of policyd/objects/ and kernel/ip/ only",
  },
  {
    within: ["cni/", "ipam/", "kernel/", "policyd/"],
    forbids: ["cli/"],
    instead: "the command line is a reader of what the daemon knows: what both need lives in policyd/",
  },
  {
    within: ["cli/"],
    except: ["cli/node/"],
    forbids: [
      "cni/",
      "ipam/",
      "kernel/conntrack/",
      "kernel/notifications/",
      "kernel/netlink/",
      "kernel/nflog/",
      "kernel/nftables/socket.ts",
      "kernel/route/",
      "kernel/syscall/",
      "kernel/sysctl.ts",
      "kernel/traffic_control/",
      "policyd/attachments/",
      "policyd/daemon.ts",
      "policyd/metrics/",
      "policyd/socket/",
    ],
    instead: "the command line runs anywhere, on objects only: only `node` asks the kernel and the daemon",
  },
  {
    within: ["cli/"],
    except: ["cli/rules/", "cli/node/", "cli/input/configuration_file.ts"],
    forbids: ["policyd/configuration/", "policyd/ruleset/"],
    instead: "only `rules` prints what a node would load; what policies and Services mean is in their evaluators",
  },
  {
    within: ["cli/"],
    except: ["cli/process_io.ts", "cli/node/machine/"],
    forbids: ["fs", "fs/promises"],
    instead: "read files through `Io` (cli/io.ts), so that tests give it files in memory",
  },
  {
    within: PRODUCTION,
    forbids: ["test/"],
    instead: "what production code and tests share lives in production code",
  },
  {
    within: PRODUCTION,
    except: ["cli/main.ts", "cni/main.ts", "policyd/main.ts"],
    forbids: ["process"],
    names: ["exit", "abort", "reallyExit"],
    instead: "set process.exitCode and return, or throw; only main files end the process",
  },
];

/**
 * Returns a sentence for each rule that an import breaks, which names the safe alternative.
 *
 * @param file the importing file, relative to the project
 * @param specifier the imported module, as written
 * @param names the imported names, "default" and "*" among them; empty for an import for its side effects
 */
export function brokenBoundaries(file: string, specifier: string, names: readonly string[]): readonly string[] {
  const target = importedModule(file, specifier);
  return BOUNDARIES.filter(({ within, except, forbids, names: forbiddenNames }) => {
    const holds = (within === undefined || covers(within, file)) && !covers(except ?? [], file);
    const isNamed = forbiddenNames === undefined || names.some((name) => forbiddenNames.includes(name));
    return holds && covers(forbids, target) && isNamed;
  }).map(({ instead }) => `"${specifier}" must not be imported here: ${instead}.`);
}

/** Returns the project's own file for a relative import, otherwise the name of the module. */
function importedModule(file: string, specifier: string): string {
  if (specifier.startsWith(".")) return path.posix.join(path.posix.dirname(file), specifier);
  return specifier.replace(/^node:/, "");
}

function covers(places: readonly string[], file: string): boolean {
  return places.some((place) => (place.endsWith("/") ? file.startsWith(place) : file === place));
}
