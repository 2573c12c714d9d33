import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from "node:fs";
import path from "node:path";
import { CACHE, PROJECT } from "./place.ts";
import { run } from "./run.ts";

/** Programs that are built from one Go module, at the version that its go.mod names. */
interface ModulePrograms {
  /** The folder of its go.mod. */
  readonly folder: string;
  readonly module: string;
  /** Packages of commands; the last part of each path becomes the program's name. */
  readonly commands: readonly string[];
  /** Packages of tests, by the name of the program. */
  readonly tests?: Readonly<Record<string, string>>;
  /** The variables by which the programs get their version from the linker. */
  readonly versionVariables?: (version: string) => Readonly<Record<string, string>>;
}

const KUBERNETES: ModulePrograms = {
  folder: "test/cluster/programs/kubernetes",
  module: "k8s.io/kubernetes",
  commands: [
    "github.com/onsi/ginkgo/v2/ginkgo",
    ...[
      "kube-apiserver",
      "kube-controller-manager",
      "kube-proxy",
      "kube-scheduler",
      "kubeadm",
      "kubectl",
      "kubelet",
    ].map((name) => `k8s.io/kubernetes/cmd/${name}`),
    "k8s.io/kubernetes/test/images/agnhost",
    "k8s.io/kubernetes/test/images/regression-issue-74839",
  ],
  tests: { "e2e.test": "k8s.io/kubernetes/test/e2e" },
  versionVariables: (version) => {
    const [major = "", minor = ""] = version.replace(/^v/, "").split(".");
    return {
      "k8s.io/component-base/version.gitVersion": version,
      "k8s.io/component-base/version.gitMajor": major,
      "k8s.io/component-base/version.gitMinor": minor,
    };
  },
};

const COREDNS: ModulePrograms = {
  folder: "test/cluster/programs/coredns",
  module: "github.com/coredns/coredns",
  commands: ["github.com/coredns/coredns"],
};

const ETCD: ModulePrograms = {
  folder: "test/apiserver/real/etcd",
  module: "go.etcd.io/etcd/server/v3",
  commands: ["go.etcd.io/etcd/server/v3"],
};

const CONTAINERD: ModulePrograms = {
  folder: "test/cluster/programs/containerd",
  module: "github.com/containerd/containerd/v2",
  commands: ["containerd", "containerd-shim-runc-v2", "ctr"].map(
    (name) => `github.com/containerd/containerd/v2/cmd/${name}`,
  ),
  versionVariables: (version) => ({ "github.com/containerd/containerd/v2/version.Version": version }),
};

const NETWORK_POLICY_API: ModulePrograms = {
  folder: "test/cluster/programs/network-policy-api",
  module: "sigs.k8s.io/network-policy-api",
  commands: [],
  tests: { "conformance.test": "sigs.k8s.io/network-policy-api/conformance" },
};

/** Built programs and their directory. */
export interface BuiltModule {
  readonly directory: string;
  readonly version: string;
}

/** The built programs of a cluster. */
export interface BuiltPrograms {
  readonly kubernetes: BuiltModule;
  readonly coredns: BuiltModule;
  readonly etcd: BuiltModule;
}

/** Builds the programs that the cache lacks: 20 minutes on two processors the first time. */
export function buildPrograms(say: (line: string) => void): BuiltPrograms {
  return { etcd: buildEtcd(say), coredns: build(COREDNS, say), kubernetes: build(KUBERNETES, say) };
}

/** Builds etcd, unless the cache has it. */
export function buildEtcd(say: (line: string) => void): BuiltModule {
  return build(ETCD, say);
}

/** Builds only these commands of Kubernetes, unless the cache has them. */
export function buildKubernetes(names: readonly string[], say: (line: string) => void): BuiltModule {
  const commands = KUBERNETES.commands.filter((command) => names.includes(programOf(command)));
  return build({ ...KUBERNETES, commands, tests: {} }, say);
}

/** Builds containerd 2, unless the cache has it. */
export function buildContainerd(say: (line: string) => void): BuiltModule {
  return build(CONTAINERD, say);
}

/** Builds the program that makes and answers the load of `daily-life`, and returns its path. */
export function buildLoad(say: (line: string) => void): string {
  return buildOwn("load", say);
}

/** Builds the program with the SCTP endpoints of the tests' containers and cyclonus' probes, and returns its path. */
export function buildSctp(say: (line: string) => void): string {
  return buildOwn("sctp", say);
}

/**
 * Builds the conformance tests of ClusterNetworkPolicy, unless the cache has them.
 *
 * @returns also the root of their sources, which have the CRDs
 */
export function buildNetworkPolicyApi(say: (line: string) => void): BuiltModule & { readonly source: string } {
  return { ...build(NETWORK_POLICY_API, say), source: sourceOf(NETWORK_POLICY_API) };
}

/** Builds the program that runs cyclonus' cases, and returns its path. */
export function buildCyclonus(say: (line: string) => void): string {
  return buildOwn("cyclonus", say);
}

/** Returns the root of Kubernetes' sources in Go's cache of modules. */
export function kubernetesSource(): string {
  return sourceOf(KUBERNETES);
}

function sourceOf({ folder, module }: ModulePrograms): string {
  return go(folder, ["list", "-m", "-f", "{{.Dir}}", module]).trim();
}

/** Builds a program of this project; a hash of its sources is part of its directory's name in the cache. */
function buildOwn(name: string, say: (line: string) => void): string {
  const folder = `test/cluster/programs/${name}`;
  const sources = readdirSync(path.join(PROJECT, folder)).toSorted();
  const hash = createHash("sha256");
  for (const source of sources) hash.update(readFileSync(path.join(PROJECT, folder, source)));
  const program = path.join(CACHE, `${name}-${hash.digest("hex").slice(0, 12)}`, name);
  if (existsSync(program)) return program;
  say(`builds ${name}`);
  mkdirSync(path.dirname(program), { recursive: true });
  buildTo(program, (file) => go(folder, ["build", "-trimpath", "-ldflags=-s -w", "-o", file, "."]));
  return program;
}

function build(
  { folder, module, commands, tests = {}, versionVariables }: ModulePrograms,
  say: (line: string) => void,
): BuiltModule {
  const version = versionIn(path.join(PROJECT, folder, "go.mod"), module);
  const directory = path.join(CACHE, `${path.basename(folder)}-${version.replace(/^v/, "")}`);
  mkdirSync(directory, { recursive: true });
  const variables = Object.entries(versionVariables?.(version) ?? {}).map(([name, value]) => ` -X ${name}=${value}`);
  const options = ["-mod=readonly", "-trimpath", `-ldflags=-s -w${variables.join("")}`];
  const isMissing = (name: string): boolean => !existsSync(path.join(directory, name));
  const missing = commands.filter((command) => isMissing(programOf(command)));
  for (const command of missing) {
    say(`builds ${programOf(command)} ${version}`);
    buildTo(path.join(directory, programOf(command)), (file) => go(folder, ["build", ...options, "-o", file, command]));
  }
  for (const [name, source] of Object.entries(tests).filter(([program]) => isMissing(program))) {
    say(`builds ${name} ${version}`);
    buildTo(path.join(directory, name), (file) =>
      go(folder, ["test", "-c", "-vet=off", ...options, "-o", file, source]),
    );
  }
  return { directory, version };
}

/** Builds to another name first, so that an interrupted build leaves no program that looks complete. */
function buildTo(file: string, make: (file: string) => void): void {
  make(`${file}.new`);
  renameSync(`${file}.new`, file);
}

function go(folder: string, args: readonly string[]): string {
  return run("nice", ["-n", "19", "go", ...args], {
    cwd: path.join(PROJECT, folder),
    env: { GOTOOLCHAIN: "local", GOFLAGS: "-buildvcs=false", CGO_ENABLED: "0" },
  });
}

/**
 * Returns the last part of a package's path; go.etcd.io/etcd/server/v3, which ends with a major version, is etcd's
 * server.
 */
function programOf(command: string): string {
  if (command === "go.etcd.io/etcd/server/v3") return "etcd";
  return path.basename(command);
}

function versionIn(file: string, module: string): string {
  const line = readFileSync(file, "utf8")
    .split("\n")
    .find((one) => one.replace("require ", "").trim().startsWith(`${module} v`));
  const version = line?.trim().split(" ").at(-1);
  if (version === undefined) throw new Error(`${file} does not require ${module}`);
  return version;
}
