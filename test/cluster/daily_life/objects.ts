/** The port of the servers and of their Services. */
export const PORT = 8080;
/** The image of the load program. */
export const LOAD_IMAGE = "localhost/load:1";
/** The namespace of everything that a run makes. */
export const NAMESPACE = "daily-life";
/** The directory on each node to which generators write. */
export const LOAD_DIRECTORY = "/var/log/load";

/** The seconds for which a deleted server still answers. */
export const LEAVING = 8;

const RATE = 40;

/** Returns the servers' objects: ten pods that come and go, and one on the first node that stays. */
export function servers(firstNode: string): readonly object[] {
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
    deployment("web", 10, {}),
    deployment("steady", 1, { nodeSelector: { "kubernetes.io/hostname": firstNode } }),
    service("web"),
    service("steady"),
    {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name: "web", namespace: NAMESPACE },
      spec: { minAvailable: 5, selector: { matchLabels: { app: "web" } } },
    },
  ];
}

/** Returns a DaemonSet with a generator in a pod on every node. */
export function podGenerators(fresh: readonly string[], kept: readonly string[]): object {
  return {
    apiVersion: "apps/v1",
    kind: "DaemonSet",
    metadata: { name: "load", namespace: NAMESPACE },
    spec: {
      selector: { matchLabels: { app: "load" } },
      template: {
        metadata: { labels: { app: "load" } },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [
            {
              name: "load",
              image: LOAD_IMAGE,
              imagePullPolicy: "Never",
              args: generatorArguments("pod", fresh, kept),
              volumeMounts: [{ name: "records", mountPath: LOAD_DIRECTORY }],
            },
          ],
          volumes: [{ name: "records", hostPath: { path: LOAD_DIRECTORY, type: "DirectoryOrCreate" } }],
        },
      },
    },
  };
}

/** Returns the arguments of a generator, which writes to NAME.ndjson. */
export function generatorArguments(name: string, fresh: readonly string[], kept: readonly string[]): readonly string[] {
  return [
    "make",
    `--output=${LOAD_DIRECTORY}/${name}.ndjson`,
    `--rate=${RATE}`,
    ...fresh.map((address) => `--new=${address}`),
    ...kept.map((address) => `--kept=${address}`),
  ];
}

/**
 * Returns a Deployment whose servers end correctly: a server answers until its endpoint is known to be leaving, and
 * then closes its connections.
 */
function deployment(name: string, replicas: number, more: object): object {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name } },
        spec: {
          ...more,
          terminationGracePeriodSeconds: LEAVING + 10,
          topologySpreadConstraints: [
            {
              maxSkew: 1,
              topologyKey: "kubernetes.io/hostname",
              whenUnsatisfiable: "ScheduleAnyway",
              labelSelector: { matchLabels: { app: name } },
            },
          ],
          containers: [
            {
              name: "server",
              image: LOAD_IMAGE,
              imagePullPolicy: "Never",
              args: ["serve", `${PORT}`],
              readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 1 },
              lifecycle: { preStop: { sleep: { seconds: LEAVING } } },
            },
          ],
        },
      },
    },
  };
}

function service(name: string): object {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace: NAMESPACE },
    spec: { selector: { app: name }, ipFamilyPolicy: "PreferDualStack", ports: [{ port: PORT, targetPort: PORT }] },
  };
}
