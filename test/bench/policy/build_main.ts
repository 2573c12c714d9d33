import { monitorEventLoopDelay } from "node:perf_hooks";
import process from "node:process";
import { setTimeout as wait } from "node:timers/promises";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { type BuildMeasurement, type BuildOrder, parseOrder } from "./build.ts";
import {
  attachmentOf,
  baseManifests,
  benchPods,
  benchPolicies,
  changeTo,
  localPolicy,
  policyManifest,
} from "./cluster.ts";
import { Ours } from "./ours.ts";

const MEGABYTE = 1e6;

/** Builds policies in the namespace of its process, which does nothing else. */
async function measure({ size, isBurst, ...order }: BuildOrder): Promise<BuildMeasurement> {
  const base = baseManifests(size).map(changeTo);
  const local = Array.from({ length: size.policies }, (_, number) => localPolicy(number));
  const policies = (order.isLocal ? local : benchPolicies(size)).map(policyManifest).map(changeTo);
  const attachments = benchPods(size)
    .filter(({ isLocal }) => isLocal)
    .map(attachmentOf);
  globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
  const before = process.memoryUsage().rss;
  const turns = monitorEventLoopDelay({ resolution: 1 });
  turns.enable();
  using ours = new Ours({ calls: nodeSyscalls(), inside: (action) => action() });
  await wait(50);
  if (isBurst) await ours.load(base, attachments);
  turns.reset();
  const taken = isBurst ? await ours.change(policies) : await ours.load([...base, ...policies], attachments);
  turns.disable();
  const { rss } = process.memoryUsage();
  return { ...taken, longestTurn: turns.max / 1e6, megabytes: (rss - before) / MEGABYTE };
}

process.stdout.write(JSON.stringify(await measure(parseOrder(process.argv[2] ?? ""))));
