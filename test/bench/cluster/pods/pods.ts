import { copyFileSync, mkdirSync } from "node:fs";
import path from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { writeArchive } from "../../../cluster/images/archive.ts";
import { run } from "../../../cluster/run.ts";
import type { Lab } from "../../../lab/lab.ts";
import { peerAdvice, peerPlugins, peerVersion } from "../../../support/cni/peer.ts";
import { compared, type Row } from "../../row.ts";
import { median } from "../../statistics.ts";
import type { Plan } from "../plan.ts";
import { type Attacher, goPlugins, PEER_PLUGINS, PLUGIN_ONLY, PLUGIN_WITH_POLICYD, podObjects } from "./attachers.ts";
import { ContainerdNode, type Image } from "./containerd_node.ts";

const BUSYBOX = "/bin/busybox";
const FOREVER = "2147483647";
/** A pause in which the links of removed pods are freed. */
const SETTLE_MILLISECONDS = 500;

/** The measurements of one round. */
interface Measurement {
  /** Milliseconds from the first request until the last sandbox was ready. */
  readonly start: number;
  /** Milliseconds of the processor, of containerd, its shims, runc and the plugins. */
  readonly startProcessor: number;
  /** Milliseconds until all of them had been stopped. */
  readonly stop: number;
}

interface Side {
  readonly title: string;
  readonly node: ContainerdNode;
  readonly isOnHostNetwork: boolean;
}

/**
 * Compares starting and stopping pods at once by a real containerd, with our plugin, with our plugin and policyd, with
 * Go's plugins, and as the base pods on the node's own network, which no plugin attaches. Each has a node and a
 * containerd of its own; the order changes from round to round.
 */
export async function comparePods(lab: Lab, plan: Plan, progress: (step: string) => void): Promise<readonly Row[]> {
  const directory = peerPlugins(PEER_PLUGINS);
  if (directory === undefined) throw new Error(`${PEER_PLUGINS.join(", ")} are needed: ${peerAdvice()}`);
  const image = pauseImage(lab);
  const names = Array.from({ length: plan.pods }, (_, number) => `pod-${number}`);
  const prepare = async (attacher: Attacher): Promise<Side> => {
    progress(`starts containerd for ${attacher.title}`);
    const node = await ContainerdNode.start(lab, attacher.name, image);
    attacher.install(lab, node, podObjects(names));
    return { title: attacher.title, node, isOnHostNetwork: false };
  };
  const peer = await prepare(goPlugins(directory));
  const ours = await prepare(PLUGIN_ONLY);
  const withPolicyd = await prepare(PLUGIN_WITH_POLICYD);
  const base: Side = { ...peer, title: "no plugin", isOnHostNetwork: true };
  const sides = [ours, peer, withPolicyd, base];
  const found = new Map<Side, Measurement[]>(sides.map((side) => [side, []]));
  for (let round = -1; round < plan.podRounds; round++) {
    for (const place of sides.keys()) {
      const side = sides[(place + round + sides.length) % sides.length] ?? ours;
      progress(`round ${round + 1} of ${plan.podRounds}, ${side.title}`);
      const measured = await measureOnce(side, names);
      // In the first round everything is read from the disk and the bridge is made.
      if (round >= 0) found.get(side)?.push(measured);
    }
  }
  const of = (side: Side): readonly Measurement[] => found.get(side) ?? [];
  const baseline = of(base);
  const version = peerVersion(path.join(directory, "bridge")) ?? "of an unknown version";
  const against = `${peer.title} ${version}`;
  const rowsFor = (side: Side): readonly Row[] => {
    const row = (what: string, valueOf: (one: Measurement) => number): Row => {
      const pairs = of(side).map((one, round) => ({
        ours: valueOf(one),
        peer: valueOf(of(peer)[round] ?? one),
      }));
      const remark = `without a plugin ${median(baseline.map(valueOf)).toFixed(0)} ms; ${containerdVersion()}`;
      return { ...compared(`${plan.pods} pods at once, ${side.title}: ${what}`, "ms", against, pairs), remark };
    };
    return [
      row("until all sandboxes are ready", ({ start }) => start),
      row("processor time of the node", ({ startProcessor }) => startProcessor),
      row("until all are stopped", ({ stop }) => stop),
    ];
  };
  for (const node of new Set(sides.map((side) => side.node))) node[Symbol.dispose]();
  return [...rowsFor(ours), ...rowsFor(withPolicyd)];
}

async function measureOnce({ node, isOnHostNetwork }: Side, names: readonly string[]): Promise<Measurement> {
  const { runtime, cgroup } = node;
  const before = cgroup.processorMilliseconds();
  const begun = performance.now();
  const request = { cgroupParent: cgroup.podsParent, isOnHostNetwork };
  const ids = await Promise.all(names.map((name) => runtime.run({ name, uid: `uid-${name}`, ...request })));
  const start = performance.now() - begun;
  const startProcessor = cgroup.processorMilliseconds() - before;
  const stopping = performance.now();
  await Promise.all(ids.map((id) => runtime.stop(id)));
  const stop = performance.now() - stopping;
  await Promise.all(ids.map((id) => runtime.remove(id)));
  await wait(SETTLE_MILLISECONDS);
  return { start, startProcessor, stop };
}

/** Returns an image of one static program that sleeps. */
function pauseImage(lab: Lab): Image {
  const root = path.join(lab.scratch, "pause-root");
  mkdirSync(root, { recursive: true });
  copyFileSync(BUSYBOX, path.join(root, "busybox"));
  const image = { archive: path.join(lab.scratch, "pause.tar"), name: "drawbridge.dev/pause:bench" };
  writeArchive(image.archive, root, [image.name], { entrypoint: ["/busybox", "sleep", FOREVER] });
  return image;
}

function containerdVersion(): string {
  const [, , version = "of an unknown version"] = run("containerd", ["--version"]).trim().split(" ");
  return `containerd ${version}`;
}
