import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/**
 * `npm run test:apiserver`: tests the API source with the real kube-apiserver, which is built here as a Go module; once
 * on Debian's etcd, which is too old for watch-list, and once on an etcd that is built here as well. All serve the
 * loopback of a network namespace that ends with them.
 */
const PROJECT = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
const HERE = path.join(PROJECT, "test/apiserver/real");
const BUILT = path.join(PROJECT, "dist/apiserver");
/** The path of Go in its own packages. */
const GO = "/usr/local/go/bin/go";
/** The programs, by the folder of their go.mod. */
const PROGRAMS = [
  { name: "kube-apiserver", source: "k8s.io/kubernetes/cmd/kube-apiserver" },
  { name: "etcd", source: "go.etcd.io/etcd/server/v3" },
] as const;
/** Runs in the namespace, whose loopback is down at first. */
const INSIDE = 'ip link set lo up && exec "$@"';

/** Builds a program, and prints the command and its output. @returns the exit code of go */
function build({ name, source }: (typeof PROGRAMS)[number]): number {
  const args = ["build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", path.join(BUILT, name), source];
  process.stderr.write(`test:apiserver: in test/apiserver/real/${name}: go ${args.join(" ")}\n`);
  const { status, error } = spawnSync("nice", ["-n", "19", existsSync(GO) ? GO : "go", ...args], {
    cwd: path.join(HERE, name),
    env: { ...process.env, GOTOOLCHAIN: "local", GOFLAGS: "-buildvcs=false" },
    stdio: "inherit",
  });
  if (error !== undefined) process.stderr.write(`test:apiserver: ${error.message}\n`);
  return status ?? 1;
}

function check(etcd: string, args: readonly string[]): number {
  const mocha = [path.join(PROJECT, "node_modules/mocha/bin/mocha.js"), path.join(HERE, "checks.ts"), ...args];
  const { status } = spawnSync("unshare", ["--net", "--", "sh", "-c", INSIDE, "sh", process.execPath, ...mocha], {
    cwd: PROJECT,
    env: { ...process.env, KUBE_APISERVER: path.join(BUILT, "kube-apiserver"), ETCD: etcd },
    stdio: "inherit",
  });
  return status ?? 1;
}

function main(args: readonly string[]): number {
  for (const program of PROGRAMS) {
    const code = build(program);
    if (code !== 0) return code;
  }
  return Math.max(check("etcd", args), check(path.join(BUILT, "etcd"), args));
}

process.exitCode = main(process.argv.slice(2));
