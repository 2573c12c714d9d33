import { formatAddress } from "../../../kernel/ip/address.ts";
import { buildEtcd, buildKubernetes } from "../../cluster/programs.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import { compared, type Halves, onePairInTurn, type Row } from "../row.ts";
import { sizeText } from "../objects/services.ts";
import { median, quantile } from "../statistics.ts";
import { ControlPlane } from "./control_plane.ts";
import { kubeProxy } from "./kube_proxy.ts";
import type { SizedPlan } from "./plan.ts";
import { policyd } from "./policyd.ts";
import { CHANGE_KINDS, ServiceChanges } from "./service_changes.ts";
import { type Measurement, measureRound } from "./service_round.ts";
import type { ServiceProxy } from "./service_proxy.ts";

type Progress = (step: string) => void;

/**
 * Measures policyd and kube-proxy in turn on one API server: first sync, changes, processor time and memory.
 *
 * Each program has a node of its own and runs while the other one does not; the order changes from round to round.
 */
export async function compareServices(lab: Lab, plan: SizedPlan, progress: Progress): Promise<readonly Row[]> {
  const programs = {
    etcd: buildEtcd(progress),
    kubernetes: buildKubernetes(["kube-apiserver", "kube-proxy"], progress),
  };
  const { node1, node2, router } = twoNodes(lab);
  progress("starts etcd and kube-apiserver");
  const control = await ControlPlane.start(lab, router, formatAddress(node1.routerAddresses[0]), programs);
  await control.addNode("node1", formatAddress(node1.addresses[0]));
  await control.addNode("node2", formatAddress(node2.addresses[0]));
  const changes = new ServiceChanges(control.client, plan);
  progress(`makes ${sizeText(plan)} Services`);
  await changes.fill();
  const ours = policyd(lab, node1.node);
  const peer = kubeProxy(lab, node2.node, "node2", `${programs.kubernetes.directory}/kube-proxy`);
  const measure = async (proxy: ServiceProxy, round: number): Promise<Measurement> => {
    const say = (step: string): void => progress(`round ${round + 1} of ${plan.rounds}, ${proxy.name}: ${step}`);
    const found = await measureRound({ lab, access: control.access, changes, plan }, proxy, say);
    await changes.removeAdded();
    return found;
  };
  const pairs: Halves<Measurement>[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    pairs.push(
      await onePairInTurn(
        round,
        () => measure(ours, round),
        () => measure(peer, round),
      ),
    );
  }
  return rowsOf(pairs, plan, `kube-proxy ${programs.kubernetes.version}`);
}

function rowsOf(measured: readonly Halves<Measurement>[], plan: SizedPlan, against: string): readonly Row[] {
  const row = (title: string, unit: "ms" | "MB", valueOf: (one: Measurement) => number): Row =>
    compared(
      title,
      unit,
      against,
      measured.map(({ ours, peer }) => ({ ours: valueOf(ours), peer: valueOf(peer) })),
    );
  const steady = `${plan.changesPerSecond} changes/s, ${plan.seconds} s`;
  return [
    row(`first sync of ${sizeText(plan)} Services`, "ms", ({ sync }) => sync),
    row("first sync: processor time with children", "ms", ({ syncProcessor }) => 1000 * syncProcessor),
    row("first sync: memory at the peak with children", "MB", ({ syncMemory }) => syncMemory.peakWithChildren),
    ...CHANGE_KINDS.map((kind) =>
      row(`${kind}, by itself: stored to kernel`, "ms", ({ single }) => median(single.get(kind) ?? [])),
    ),
    row(`${steady}: stored to kernel, p50`, "ms", (one) => quantile(one.steady, 0.5)),
    row(`${steady}: stored to kernel, p95`, "ms", (one) => quantile(one.steady, 0.95)),
    row(`${steady}: processor time of a change with children`, "ms", ({ steadyProcessor }) => steadyProcessor),
    row(`${steady}: memory at the end, without children`, "MB", ({ memory }) => memory.now),
    row(`${steady}: memory at the peak with children`, "MB", ({ memory }) => memory.peakWithChildren),
  ];
}
