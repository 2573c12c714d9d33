import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import process from "node:process";
import type { Finding } from "../../../policyd/problems/diagnose.ts";
import { type Configuration, configurationOf, DRAWBRIDGE, LAB_BRIDGE } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { CLI_DIRECTORY } from "../cli/program.ts";

const MAIN = `${CLI_DIRECTORY}/drawbridge.js`;

/** A running `node doctor --probe`. */
export interface ProbeRun {
  readonly child: ChildProcess;
  readonly outcome: Promise<{
    readonly code: number | null;
    readonly signal: NodeJS.Signals | null;
    readonly findings: readonly Finding[];
    readonly unseen: readonly { readonly check: string; readonly reason: string }[];
    readonly errors: string;
  }>;
}

/**
 * Starts `node doctor --probe` on a node of a lab, whose plugin has this configuration.
 *
 * @param launcher a command line that runs it, which is appended to it
 */
export function startProbe(
  lab: Lab,
  wired: WiredNode,
  overrides: Configuration,
  socket: string,
  launcher: readonly string[] = [],
): ProbeRun {
  const { node } = wired;
  const [configurations, programs] = [`${lab.scratch}/${node.name}-net.d`, `${lab.scratch}/${node.name}-bin`];
  if (mkdirSync(configurations, { recursive: true }) !== undefined) {
    mkdirSync(programs);
    symlinkSync(DRAWBRIDGE, `${programs}/drawbridge`);
  }
  const { cniVersion, name, ...entry } = configurationOf(wired, overrides);
  const list = JSON.stringify({ cniVersion, name, plugins: [entry] });
  writeFileSync(`${configurations}/10-drawbridge.conflist`, list);
  const places = ["--cni-conf-directory", configurations, "--cni-bin-directory", programs, "--socket", socket];
  const state = ["--data-directory", node.dataDir, "--state-directory", node.runDir, "--bridge", LAB_BRIDGE];
  const args = [MAIN, "node", "doctor", "--probe", "--only", "probe,foreign-drops", "-o", "json", ...places, ...state];
  const child = node.inside(() =>
    spawn("env", [...launcher, process.execPath, ...args], { stdio: ["ignore", "pipe", "pipe"] }),
  );
  const texts = { out: "", errors: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => (texts.out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (texts.errors += text));
  return {
    child,
    outcome: new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        const report: unknown = texts.out === "" ? { findings: [], unseen: [] } : JSON.parse(texts.out);
        const { findings, unseen } = report as Awaited<ProbeRun["outcome"]>;
        resolve({ code, signal, findings, unseen, errors: texts.errors });
      });
    }),
  };
}
