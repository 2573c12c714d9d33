import { spawnSync } from "node:child_process";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { buildEtcd, buildKubernetes } from "../../cluster/programs.ts";

/**
 * `npm run test:apiserver`: tests the API source with the kube-apiserver of test clusters, once on Debian's etcd, which
 * is too old for watch-list, and once on theirs. All serve the loopback of a network namespace that ends with them.
 */
const PROJECT = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
/** Runs in the namespace, whose loopback is down at first. */
const INSIDE = 'ip link set lo up && exec "$@"';

function check(kubernetes: string, etcd: string, args: readonly string[]): number {
  const checks = path.join(PROJECT, "test/apiserver/real/checks.ts");
  const mocha = [path.join(PROJECT, "node_modules/mocha/bin/mocha.js"), checks, ...args];
  const { status } = spawnSync("unshare", ["--net", "--", "sh", "-c", INSIDE, "sh", process.execPath, ...mocha], {
    cwd: PROJECT,
    env: { ...process.env, KUBE_APISERVER: path.join(kubernetes, "kube-apiserver"), ETCD: etcd },
    stdio: "inherit",
  });
  return status ?? 1;
}

function main(args: readonly string[]): number {
  const say = (line: string): void => void process.stderr.write(`test:apiserver: ${line}\n`);
  const kubernetes = buildKubernetes(["kube-apiserver"], say).directory;
  const etcd = path.join(buildEtcd(say).directory, "etcd");
  return Math.max(check(kubernetes, "etcd", args), check(kubernetes, etcd, args));
}

process.exitCode = main(process.argv.slice(2));
