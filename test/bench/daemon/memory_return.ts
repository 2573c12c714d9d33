import { setTimeout as wait } from "node:timers/promises";
import type { RawObject } from "../../apiserver/storage.ts";
import type { Lab } from "../../lab/lab.ts";
import { benchPods } from "../policy/cluster.ts";
import { found, type Row } from "../row.ts";
import { MeasuredCluster } from "./measured_cluster.ts";
import type { MeasuredDaemon } from "./measured_daemon.ts";
import type { Plan } from "./plan.ts";

/** The largest ratio of memory to that after a start, a minute after its use has ended. */
const GOAL = 1.2;
const MINUTE = 60_000;
/** A start leaves garbage as well: after this time the first trim is over. */
const REST_MILLISECONDS = 40_000;
/** A policy of a thousand addresses has 50 KB: 740 of them are 37 MB. */
const POLICIES = 740;
const ADDRESSES = 1000;
const AT_ONCE = 20;
/** The number of policies that select pods of the node, for which rules and sets are made. */
const OF_OWN_PODS = 10;

/** A small cluster: the objects of a large one would hide what is left over. */
export const SMALL_PLAN: Pick<Plan, "pods" | "services" | "endpoints" | "policies"> = {
  pods: 200,
  services: 50,
  endpoints: 3,
  policies: 20,
};

/**
 * Measures whether a daemon returns its memory: a minute after 37 MB of policies have come and gone, beside a fresh
 * start with the same objects.
 */
export async function memoryReturn(lab: Lab, plan: Plan, progress: (step: string) => void): Promise<readonly Row[]> {
  const small = { ...plan, ...SMALL_PLAN };
  const cluster = await MeasuredCluster.open(lab, small, progress);
  const { current } = await cluster.start();
  await wait(REST_MILLISECONDS);
  const fresh = current.memory().now;
  progress("37 MB of policies come and go");
  const policies = largePolicies(small);
  await applyAll(cluster, policies);
  await untilPolicies(current, (count) => count >= POLICIES);
  const most = current.memory().now;
  await applyAll(
    cluster,
    policies.map((policy) => ({ ...policy, isGone: true })),
  );
  await untilPolicies(current, (count) => count < POLICIES);
  await wait(MINUTE);
  const afterPolicies = current.memory().now;
  await cluster.stop();
  const limit = Math.round(GOAL * fresh);
  const beside = `${fresh.toFixed(0)} MB after a fresh start`;
  return [
    found(
      "a minute after 37 MB of policies came and went",
      "MB",
      afterPolicies,
      limit,
      `${beside}, ${most.toFixed(0)} MB with them`,
    ),
  ];
}

async function applyAll({ server }: MeasuredCluster, objects: readonly RawObject[]): Promise<void> {
  for (let next = 0; next < objects.length; next += AT_ONCE) await server.apply(...objects.slice(next, next + AT_ONCE));
}

async function untilPolicies({ daemon }: MeasuredDaemon, holds: (count: number) => boolean): Promise<void> {
  await daemon.statusWhen(({ objects }) => holds(objects["NetworkPolicy"] ?? 0), "as many policies as meant");
}

function largePolicies(plan: Pick<Plan, "pods" | "policies">): readonly RawObject[] {
  const namespace = benchPods(plan).find(({ isLocal }) => isLocal)?.namespace ?? "default";
  return Array.from({ length: POLICIES }, (_, number) => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: `large-${number}`, namespace },
    spec: {
      podSelector: number < OF_OWN_PODS ? {} : { matchLabels: { app: `nobody-${number}` } },
      policyTypes: ["Ingress"],
      ingress: [
        {
          from: Array.from({ length: ADDRESSES }, (_address, i) => ({
            ipBlock: { cidr: `10.${number & 255}.${(number >> 8) * 4 + (i >> 8)}.${i & 255}/32` },
          })),
          ports: [{ protocol: "TCP", port: 80 }],
        },
      ],
    },
  }));
}
