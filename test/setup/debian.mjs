import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { outputOf } from "./child.mjs";
import { SetupFailure, say } from "./failure.mjs";
import { makeWhole } from "./whole_directory.mjs";

/**
 * @typedef {object} Tool
 * @property {string} command
 * @property {string} debianPackage
 * @property {string} purpose
 * @property {readonly string[]} [libraries] the packages it is linked to; given for a tool that is unpacked, not
 *   installed
 */

/** Tools of the machine that npm cannot install. They only read the kernel's state back. @type {readonly Tool[]} */
export const KERNEL_TOOLS = [
  { command: "ip", debianPackage: "iproute2", purpose: "reads back links, addresses and routes" },
  { command: "bridge", debianPackage: "iproute2", purpose: "reads back bridge ports and forwarding entries" },
  { command: "nft", debianPackage: "nftables", purpose: "reads back nftables rulesets" },
];

/** Shells for the tests of completion, which run our scripts; bash exists anyway. @type {readonly Tool[]} */
export const SHELLS = [
  { command: "zsh", debianPackage: "zsh", purpose: "runs the script that completes our command lines in it" },
  { command: "fish", debianPackage: "fish", purpose: "runs the script that completes our command lines in it" },
];

/**
 * Servers that use a cluster's network. Installing nginx would start it with the machine, so its program is only
 * unpacked into the user's cache.
 *
 * @type {readonly Tool[]}
 */
export const SERVERS = [
  { command: "dnsmasq", debianPackage: "dnsmasq-base", purpose: "answers DNS behind a cluster IP" },
  { command: "nginx", debianPackage: "nginx", purpose: "stands for an ingress controller", libraries: ["libssl3"] },
];

/**
 * Tools that check output for people. Installing prometheus would start it with the machine, so its programs are only
 * unpacked; one of them is used.
 *
 * @type {readonly Tool[]}
 */
export const VIEWERS = [
  {
    command: "chromium",
    debianPackage: "chromium",
    purpose: "opens the pages that the command line writes, and clicks",
  },
  {
    command: "promtool",
    debianPackage: "prometheus",
    purpose: "checks the alert rules, and tests them",
    libraries: [],
  },
];

/** @type {Tool} */
const PODMAN = {
  command: "podman",
  debianPackage: "podman",
  purpose: "runs containers on our network, and the container image",
};
/** @type {Tool} */
const CRUN = { command: "crun", debianPackage: "crun", purpose: "starts what podman runs" };
/** @type {Tool} */
const RUNC = { command: "runc", debianPackage: "runc", purpose: "starts containers as containerd does" };
/** @type {Tool} */
const BUSYBOX = {
  command: "busybox",
  debianPackage: "busybox-static",
  purpose: "is all that test containers consist of",
};

/** Tools for the tests in which a container runtime calls the plugin. @type {readonly Tool[]} */
export const CONTAINER_TOOLS = [PODMAN, CRUN, RUNC, BUSYBOX];

/** Tools for `npm run image` and the test of its output. @type {readonly Tool[]} */
export const IMAGE_TOOLS = [
  { command: "buildah", debianPackage: "buildah", purpose: "makes the container image, out of nothing but our files" },
  PODMAN,
  CRUN,
];

/** Only for `npm run test:apiserver`; unpacked, since its package would start it with the machine. @type {Tool} */
export const ETCD = {
  command: "etcd",
  debianPackage: "etcd-server",
  purpose: "stores for kube-apiserver",
  libraries: [],
};

/** Only for `npm run test:cluster`; unpacked, as it would be started with the machine. @type {Tool} */
export const CONTAINERD = {
  command: "containerd",
  debianPackage: "containerd",
  purpose: "runs the containers of the cluster's nodes",
  libraries: [],
};

/** Programs for `npm run test:cluster`, for containerd and the image of upstream's tests. @type {readonly Tool[]} */
export const CLUSTER_TOOLS = [
  RUNC,
  {
    command: "busybox",
    debianPackage: "busybox-static",
    purpose: "is the small system in the image of upstream's tests",
  },
  { command: "curl", debianPackage: "curl", purpose: "is called by upstream's tests in their pods" },
  { command: "wget", debianPackage: "wget", purpose: "is called by upstream's tests in their pods" },
  { command: "dig", debianPackage: "bind9-dnsutils", purpose: "is called by upstream's tests in their pods" },
  { command: "nc.openbsd", debianPackage: "netcat-openbsd", purpose: "is called by upstream's tests in their pods" },
  { command: "iperf", debianPackage: "iperf", purpose: "is called by upstream's tests in their pods" },
  { command: "conntrack", debianPackage: "conntrack", purpose: "is called by upstream's tests in their pods" },
  { command: "socat", debianPackage: "socat", purpose: "forwards ports to pods for upstream's tests" },
];

/** Only for the benchmark. @type {readonly Tool[]} */
export const BENCH_TOOLS = [
  { command: "iperf3", debianPackage: "iperf3", purpose: "measures throughput between pods" },
];

/** Tools that build the plugin's executable. @type {readonly Tool[]} */
export const COMPILER = [
  { command: "gcc", debianPackage: "gcc", purpose: "compiles the plugin's executable" },
  { command: "musl-gcc", debianPackage: "musl-tools", purpose: "brings the C library that the executable contains" },
  { command: "pip3", debianPackage: "python3-pip", purpose: "fetches the sources of the executable's engine" },
];

/** Tools that build and try the executable for arm64 on another machine. @type {readonly Tool[]} */
export const CROSS_TOOLS = [
  {
    command: "aarch64-linux-gnu-gcc",
    debianPackage: "gcc-aarch64-linux-gnu",
    purpose: "compiles the plugin's executable for arm64",
  },
  { command: "qemu-aarch64", debianPackage: "qemu-user", purpose: "executes it" },
];

/** Tools that boot other kernels, and build User Mode Linux. @type {readonly Tool[]} */
export const EMULATORS = [
  { command: "qemu-system-x86_64", debianPackage: "qemu-system-x86", purpose: "boots kernels for x64" },
  { command: "qemu-system-aarch64", debianPackage: "qemu-system-arm", purpose: "boots kernels for arm64" },
  { command: "depmod", debianPackage: "kmod", purpose: "lists the modules of these kernels" },
  ...["make", "flex", "bison", "bc"].map((name) => ({
    command: name,
    debianPackage: name,
    purpose: "builds User Mode Linux",
  })),
  { command: "xz", debianPackage: "xz-utils", purpose: "unpacks its sources" },
  { command: "g++", debianPackage: "g++", purpose: "brings the headers of the C library" },
];

/** Directories that Debian keeps out of a user's PATH. */
export const SYSTEM_DIRECTORIES = ["/usr/sbin", "/sbin"];

/** The user's cache of what is unpacked or compiled. */
export const CACHE = path.join(process.env["XDG_CACHE_HOME"] || path.join(os.homedir(), ".cache"), "drawbridge");

/** Returns the directory of an unpacked package. @param {string} debianPackage */
function unpackedDirectory(debianPackage) {
  return path.join(CACHE, `debian-${debianPackage}`);
}

/** The directories of the machine's programs that are searched after PATH. */
export const TOOL_DIRECTORIES = [
  ...SYSTEM_DIRECTORIES,
  ...[...SERVERS, ...VIEWERS, ETCD, CONTAINERD]
    .filter(({ libraries }) => libraries !== undefined)
    .flatMap(({ debianPackage }) =>
      ["usr/sbin", "usr/bin"].map((directory) => path.join(unpackedDirectory(debianPackage), directory)),
    ),
];

/**
 * @typedef {{ kind: "complete" }
 *   | { kind: "install", tools: readonly Tool[], packages: readonly string[] }
 *   | { kind: "go-on", reason: string }
 *   | { kind: "fail", reason: string }} ToolDecision
 */

/**
 * Decides about the tools a task needs: nothing, install them, continue without them, or give up.
 *
 * Without root the kernel tests are skipped and need no tools, so the task continues.
 *
 * @param {readonly Tool[]} tools
 * @param {{ has: (command: string) => boolean, isRoot: boolean }} machine `has("apt-get")` is asked too
 * @returns {ToolDecision}
 */
export function decideTools(tools, machine) {
  const missing = tools.filter((tool) => !machine.has(tool.command));
  if (missing.length === 0) return { kind: "complete" };
  const packages = [...new Set(missing.map((tool) => tool.debianPackage))];
  const names = missing.map((tool) => tool.command).join(", ");
  if (!machine.isRoot) {
    return {
      kind: "go-on",
      reason: `not root, and ${names} missing (Debian: ${packages.join(", ")}); what needs the kernel will be skipped`,
    };
  }
  if (!machine.has("apt-get")) {
    return {
      kind: "fail",
      reason:
        `missing: ${names}, and this machine has no apt-get to install them with. Install them with its own package ` +
        `manager (Debian calls the packages ${packages.join(", ")}), then try again.`,
    };
  }
  return { kind: "install", tools: missing, packages };
}

/**
 * Makes sure that the tools exist; installs them with apt-get when root.
 *
 * @param {readonly Tool[]} tools
 * @throws {SetupFailure} when they are missing and cannot be installed
 */
export function ensureTools(tools) {
  const decision = decideTools(tools, { has: isInPath, isRoot: process.getuid?.() === 0 });
  switch (decision.kind) {
    case "complete":
      return;
    case "go-on":
      return say(decision.reason);
    case "fail":
      throw new SetupFailure(decision.reason);
    case "install":
      for (const tool of decision.tools) {
        const verb = tool.libraries === undefined ? "installing" : "unpacking";
        say(`${verb} ${tool.debianPackage} for \`${tool.command}\`: ${tool.purpose}`);
      }
      install(installedPackages(decision.tools));
      for (const { debianPackage, libraries } of decision.tools) if (libraries !== undefined) unpack(debianPackage);
      return checkThatTheyCame(decision.tools);
  }
}

/**
 * Returns the packages to install for some tools: their own, or the libraries of an unpacked one.
 *
 * @param {readonly Tool[]} tools
 * @returns {readonly string[]}
 */
export function installedPackages(tools) {
  return [...new Set(tools.flatMap(({ debianPackage, libraries }) => libraries ?? [debianPackage]))];
}

/** @param {readonly string[]} packages */
function install(packages) {
  if (packages.length === 0) return;
  const command = ["install", "--yes", "--no-install-recommends", "--no-upgrade", ...packages];
  fetchByApt(command, packages, process.cwd());
}

/** @param {string} debianPackage */
function unpack(debianPackage) {
  const directory = unpackedDirectory(debianPackage);
  rmSync(directory, { recursive: true, force: true });
  makeWhole(directory, (unfinished) => {
    extract(unfinished, (place) => fetchByApt(["download", debianPackage], [debianPackage], place));
  });
}

/**
 * Returns the directory of unpacked packages of any architecture. Their package lists are apt's in the user's cache,
 * so the machine's own apt does not learn of that architecture.
 *
 * @param {readonly string[]} packages with or without a version: `musl-dev`, `libc6=2.36-9`
 * @param {string} architecture as `process.arch`
 */
export function unpackedForeign(packages, architecture) {
  const directory = `${unpackedDirectory(packages.join("+"))}-${architecture}`;
  if (existsSync(directory)) return directory;
  makeWhole(directory, (unfinished) => {
    const apt = path.join(unfinished, "apt");
    const name = architecture === "x64" ? "amd64" : architecture;
    const options = foreignOptions(apt, name);
    extract(unfinished, (place) => {
      for (const command of [["update"], ["download", ...packages]]) {
        const { status, output } = aptGet([...options, ...command], place);
        if (status !== 0) {
          throw new SetupFailure(`apt-get could not fetch ${packages.join(", ")} for ${name}:\n${output}`);
        }
      }
    });
    rmSync(apt, { recursive: true });
  });
  return directory;
}

/**
 * Returns the options by which apt-get works for another architecture, with a state of its own.
 *
 * @param {string} apt the directory of that state, which is made
 * @param {string} architecture as Debian calls it
 * @returns {readonly string[]}
 */
export function foreignOptions(apt, architecture) {
  for (const part of ["state/lists/partial", "cache/archives/partial"]) {
    mkdirSync(path.join(apt, part), { recursive: true });
  }
  writeFileSync(path.join(apt, "state/status"), "");
  return Object.entries({
    "Dir::State": `${apt}/state`,
    "Dir::State::status": `${apt}/state/status`,
    "Dir::Cache": `${apt}/cache`,
    "APT::Architecture": architecture,
    "APT::Architectures::": architecture,
    "APT::Sandbox::User": "root",
  }).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
}

/**
 * Extracts packages into a directory.
 *
 * @param {string} directory
 * @param {(place: string) => void} download puts the packages' files, and nothing else, into a place
 */
function extract(directory, download) {
  const place = path.join(directory, "download");
  mkdirSync(place);
  download(place);
  for (const file of readdirSync(place)) {
    const failure = `dpkg-deb could not unpack ${file}: try again with more room in ${CACHE}`;
    outputOf("dpkg-deb", ["--extract", path.join(place, file), directory], failure);
  }
  rmSync(place, { recursive: true });
}

/**
 * @param {readonly string[]} command of apt-get
 * @param {readonly string[]} packages
 * @param {string} cwd
 */
function fetchByApt(command, packages, cwd) {
  if (!hasPackageLists()) aptGet(["update"], cwd);
  let result = aptGet(command, cwd);
  if (result.status !== 0) {
    // Outdated lists name package files that the mirror has replaced since.
    aptGet(["update"], cwd);
    result = aptGet(command, cwd);
  }
  if (result.status === 0) return;
  const lastWords = result.output.trim().split("\n").slice(-5).join("\n  ");
  throw new SetupFailure(
    `apt-get could not fetch ${packages.join(", ")}:\n  ${lastWords}\n` +
      `Check the network and /etc/apt, run \`apt-get update && apt-get install ${packages.join(" ")}\`, then try again.`,
  );
}

/**
 * @param {readonly string[]} args
 * @param {string} cwd the directory for downloads
 * @returns {{ status: number | null, output: string }}
 */
function aptGet(args, cwd) {
  say(`apt-get ${args.join(" ")}`);
  const result = spawnSync("apt-get", ["-q", "-o", "DPkg::Lock::Timeout=120", ...args], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" },
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
  return { status: result.status, output: result.error?.message ?? result.stdout + result.stderr };
}

/** @param {readonly Tool[]} tools */
function checkThatTheyCame(tools) {
  const absent = tools.filter((tool) => !isInPath(tool.command));
  if (absent.length === 0) return;
  const packages = [...new Set(absent.map((tool) => tool.debianPackage))].join(" ");
  throw new SetupFailure(
    `apt-get holds ${packages} for installed, but ${absent.map((tool) => tool.command).join(", ")} cannot be found. ` +
      `Run \`apt-get install --reinstall ${packages}\`, then try again.`,
  );
}

function hasPackageLists() {
  try {
    return readdirSync("/var/lib/apt/lists").some((file) => file.includes("_Packages"));
  } catch {
    return false;
  }
}

/** @param {string} command */
function isInPath(command) {
  const directories = [...(process.env["PATH"] ?? "").split(path.delimiter), ...TOOL_DIRECTORIES];
  return directories.some((directory) => directory !== "" && existsSync(path.join(directory, command)));
}
