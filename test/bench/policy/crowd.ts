import { type BenchPod, benchPod, type BenchPolicy, teamOf } from "./cluster.ts";

/**
 * Many policies on one pod. Each has selectors of its own, for which there is one pod each of its two peers, and only
 * the last one allows the client.
 */
export interface Crowd {
  readonly client: BenchPod;
  readonly server: BenchPod;
  readonly pods: readonly BenchPod[];
  readonly policies: readonly BenchPolicy[];
}

const SERVER = 0;
const CLIENT = 1;

/** @param count of policies; 0 leaves both pods open */
export function crowd(count: number): Crowd {
  const server = benchPod(SERVER);
  const client = benchPod(CLIENT, { role: "y0" });
  const policies = Array.from({ length: count }, (_, number): BenchPolicy => {
    // The client's policy comes last, whatever order names are sorted in.
    const place = count - 1 - number;
    return {
      name: `crowd-${String(number).padStart(6, "0")}`,
      namespace: server.namespace,
      app: server.labels.app,
      near: { tier: `x${place}` },
      far: { team: teamOf(CLIENT), role: `y${place}` },
    };
  });
  const peers = Array.from({ length: count }, (_, place) => [
    { ...benchPod(1000 + 2 * place, { app: "peer", tier: `x${place}` }), namespace: server.namespace },
    { ...benchPod(1001 + 2 * place, { app: "peer", role: `y${place}` }), namespace: client.namespace },
  ]).flat();
  return { client, server, pods: [server, client, ...peers], policies };
}
