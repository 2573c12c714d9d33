import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { SetupFailure, say } from "./failure.mjs";

/**
 * @typedef {object} Tool
 * @property {string} command
 * @property {string} debianPackage
 * @property {string} purpose
 * @property {readonly string[]} [libraries] given for a package that is unpacked and not installed: what it is linked to
 */

/** Tools of the machine that npm cannot bring. They only read back what the kernel holds. @type {readonly Tool[]} */
export const KERNEL_TOOLS = [
  { command: "ip", debianPackage: "iproute2", purpose: "reads back links, addresses and routes" },
  { command: "bridge", debianPackage: "iproute2", purpose: "reads back bridge ports and forwarding entries" },
  { command: "nft", debianPackage: "nftables", purpose: "reads back nftables rulesets" },
];

/** For the tests of completion: scripts of ours run in them, and bash is there. @type {readonly Tool[]} */
export const SHELLS = [
  { command: "zsh", debianPackage: "zsh", purpose: "runs the script that completes our command lines in it" },
  { command: "fish", debianPackage: "fish", purpose: "runs the script that completes our command lines in it" },
];

/**
 * What stands on top of a cluster's network. Installing nginx would have it started with the machine, so its one program
 * is unpacked into the user's cache.
 *
 * @type {readonly Tool[]}
 */
export const SERVERS = [
  { command: "dnsmasq", debianPackage: "dnsmasq-base", purpose: "answers DNS behind a cluster IP" },
  { command: "nginx", debianPackage: "nginx", purpose: "stands for an ingress controller", libraries: ["libssl3"] },
];

/**
 * For what people look at. Installing prometheus would have it started with the machine, so only its programs are unpacked, of which
 * one is used.
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

/** For the tests in which a container runtime calls the plugin. @type {readonly Tool[]} */
export const CONTAINER_TOOLS = [PODMAN, CRUN, RUNC, BUSYBOX];

/** For `npm run image` and the test of what it makes. @type {readonly Tool[]} */
export const IMAGE_TOOLS = [
  { command: "buildah", debianPackage: "buildah", purpose: "makes the container image, out of nothing but our files" },
  PODMAN,
  CRUN,
];

/** For `npm run test:apiserver` alone; unpacked, as it too would be started with the machine. @type {Tool} */
export const ETCD = {
  command: "etcd",
  debianPackage: "etcd-server",
  purpose: "stores for kube-apiserver",
  libraries: [],
};

/** For `npm run test:cluster` and the benchmark; a package of a runtime would have it started with the machine. @type {Tool} */
export const CONTAINERD = {
  command: "containerd",
  debianPackage: "containerd",
  purpose: "runs the containers of the cluster's nodes",
  libraries: [],
};

/** For `npm run test:cluster`: containerd's own helper, and what goes into the image of upstream's tests. @type {readonly Tool[]} */
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

/** Only for the benchmark: throughput, and containers. @type {readonly Tool[]} */
export const BENCH_TOOLS = [
  { command: "iperf3", debianPackage: "iperf3", purpose: "measures throughput between pods" },
  CONTAINERD,
  RUNC,
  BUSYBOX,
];

/** Debian keeps these out of a user's PATH. */
export const SYSTEM_DIRECTORIES = ["/usr/sbin", "/sbin"];

const CACHE = path.join(process.env["XDG_CACHE_HOME"] || path.join(os.homedir(), ".cache"), "drawbridge");

/** Where the program of an unpacked package is. @param {string} debianPackage */
function unpackedDirectory(debianPackage) {
  return path.join(CACHE, `debian-${debianPackage}`);
}

/** Where programs of the machine are found, behind PATH. */
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
 * What to do about the tools a task needs: nothing, install them, go on without them, or give up.
 *
 * Without root there is nothing for them to read, as the kernel tests skip themselves then; so it goes on.
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
 * Sees to it that the tools are there, by apt-get when root.
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
 * What is installed for some tools: their packages, or the libraries of one that is unpacked.
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

/**
 * Unpacks a package, whole or not at all.
 *
 * @param {string} debianPackage
 */
function unpack(debianPackage) {
  mkdirSync(CACHE, { recursive: true });
  const directory = mkdtempSync(path.join(CACHE, "unpack-"));
  try {
    fetchByApt(["download", debianPackage], [debianPackage], directory);
    const [file = ""] = readdirSync(directory);
    const unpacked = path.join(directory, "unpacked");
    const { status } = spawnSync("dpkg-deb", ["--extract", path.join(directory, file), unpacked], { stdio: "ignore" });
    if (status !== 0)
      throw new SetupFailure(`dpkg-deb could not unpack ${file}: try again with more room in ${CACHE}.`);
    rmSync(unpackedDirectory(debianPackage), { recursive: true, force: true });
    renameSync(unpacked, unpackedDirectory(debianPackage));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
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
    // Lists that are too old name package files the mirror has since replaced.
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
 * @param {string} cwd where it downloads to
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
