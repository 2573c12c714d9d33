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

/** The places of our own code that each top-level folder may import besides itself; test/ may import all. */
export const LAYERS: Readonly<Record<string, readonly string[]>> = {
  kernel: [],
  ipam: ["kernel/"],
  objects: ["kernel/error.ts", "kernel/ip/"],
  attachment: ["ipam/", "kernel/"],
  cni: ["attachment/", "ipam/", "kernel/"],
  policyd: ["attachment/", "cni/", "ipam/", "kernel/", "objects/"],
  cli: ["attachment/", "cni/", "ipam/", "kernel/", "objects/", "policyd/"],
};

const PRODUCTION = Object.keys(LAYERS).map((folder) => `${folder}/`);

export const BOUNDARIES: readonly Boundary[] = [
  {
    except: [
      "test/",
      "cli/node/machine/plugin_version.ts",
      "cli/node/machine/probe/probe_pods.ts",
      "cli/input/programs/system_programs.ts",
    ],
    forbids: ["child_process"],
    instead:
      "speak to the kernel by netlink (kernel/netlink/, kernel/route/); only test/ starts programs, the doctor asks the " +
      "plugin for its version and for probe pods, and the command line runs the user's kustomize and helm",
  },
  {
    // The unit tests of kernel/ip/ hold our parser against it; the evaluator of Services takes its classes of addresses.
    except: ["kernel/ip/", "objects/semantics/services/address_class.ts", "test/unit/kernel/"],
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
    within: ["attachment/", "cni/", "ipam/", "kernel/"],
    except: ["kernel/syscall/koffi.ts"],
    forbids: ["koffi", "winston", "@kubernetes/client-node", "commander", "valibot", "yaml"],
    instead:
      "the plugin starts again for every pod and must not load it: keep it in policyd/ or kernel/syscall/koffi.ts",
  },
  {
    except: ["policyd/sources/api/connection/kubeconfig_library.ts", "test/"],
    forbids: ["@kubernetes/client-node"],
    instead:
      "its informers stop at the first failed list, and it takes half a second to load: kubeconfig and authentication " +
      "are read only in policyd/sources/api/connection/kubeconfig.ts, when a command asks for a cluster by one",
  },
  {
    within: ["attachment/", "cni/", "ipam/"],
    forbids: ["kernel/notifications/", "kernel/syscall/koffi.ts"],
    instead: "the plugin runs in its own engine for some milliseconds: only the daemon waits for events",
  },
  {
    // node_20.ts starts no worker: it adds a function that Node 20 lacks for the API client of the command line.
    // DNS answers must not wait for the main thread, and their thread runs only where pods need it.
    except: [
      "test/",
      "cli/node_20.ts",
      "policyd/policies/names/answer_queue.ts",
      "policyd/policies/names/answer_thread.ts",
    ],
    forbids: ["worker_threads"],
    instead:
      "a worker is a second JavaScript engine, 10 MB of each daemon: what waits for the kernel subscribes to kernel/notifications/notifications.ts",
  },
  {
    within: ["policyd/services/", "policyd/policies/compile/"],
    forbids: ["objects/semantics/"],
    instead: "the evaluator checks the compiler: share only types of objects/ and kernel/ip/",
  },
  {
    within: ["objects/semantics/"],
    forbids: ["fs", "fs/promises", "net", "process"],
    instead: "policies and Services are evaluated from the objects only",
  },
  {
    within: ["objects/semantics/policies/"],
    forbids: ["objects/semantics/services/"],
    instead: "policies are evaluated from the objects only, without Services",
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
      "kernel/packets/",
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
    except: ["cli/rules/", "cli/node/", "cli/input/configuration_file.ts", "cli/cluster/service_world.ts"],
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
  const broken = BOUNDARIES.filter(({ within, except, forbids, names: forbiddenNames }) => {
    const holds = (within === undefined || covers(within, file)) && !covers(except ?? [], file);
    const isNamed = forbiddenNames === undefined || names.some((name) => forbiddenNames.includes(name));
    return holds && covers(forbids, target) && isNamed;
  }).map(({ instead }) => instead);
  const layer = specifier.startsWith(".") ? brokenLayer(file, target) : [];
  return [...layer, ...broken].map((instead) => `"${specifier}" must not be imported here: ${instead}.`);
}

/** Returns what to do in place of an import of our own code that {@link LAYERS} does not allow; empty where it does. */
function brokenLayer(file: string, target: string): readonly string[] {
  const folder = file.split("/")[0] ?? "";
  const layers = LAYERS[folder];
  if (layers === undefined || !target.includes("/") || covers([`${folder}/`, ...layers], target)) return [];
  const allowed = layers.length === 0 ? "nothing of our other folders" : `only ${layers.join(", ")}`;
  return [
    `${folder}/ may import ${allowed}; pass what it needs as an argument, or move what both need to one of these`,
  ];
}

/** Returns the project's own file for a relative import, otherwise the name of the module. */
function importedModule(file: string, specifier: string): string {
  if (specifier.startsWith(".")) return path.posix.join(path.posix.dirname(file), specifier);
  return specifier.replace(/^node:/, "");
}

function covers(places: readonly string[], file: string): boolean {
  return places.some((place) => (place.endsWith("/") ? file.startsWith(place) : file === place));
}
