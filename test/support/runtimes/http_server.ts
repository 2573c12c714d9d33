import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import type { Lab, LabPod } from "../../lab/lab.ts";

/**
 * Makes a pod answer HTTP requests for `/name` with its name, on a port of both families, until the process is killed.
 *
 * The server is busybox, and may start before the pod has addresses.
 */
export function serveName(lab: Lab, pod: LabPod, port: number): ChildProcess {
  const directory = `${lab.scratch}/www-${pod.name}`;
  mkdirSync(directory);
  writeFileSync(`${directory}/name`, pod.name);
  const args = ["httpd", "-f", "-p", String(port), "-h", directory];
  return pod.inside(() => spawn("busybox", args, { stdio: "ignore" }));
}
