/** The port on which the pods serve. */
export const PORT = 8080;
const SERVER = `require("net").createServer((socket) => socket.on("error", () => {}).end("ok")).listen(${PORT})`;

/** Where the pods run, and with which image. */
export interface Placing {
  readonly image: string;
  readonly namespace: string;
  /** One or two nodes. */
  readonly nodes: readonly string[];
}

const LABELS = { "app.kubernetes.io/managed-by": "drawbridge-check" };

/**
 * Returns the objects of a check: a namespace that admits only pods without privileges, a client and a server on the
 * first node, a server on the second one, and a Service of both.
 */
export function checkObjects({ image, namespace, nodes }: Placing): object {
  const metadata = (name: string, labels = {}) => ({ name, namespace, labels: { ...LABELS, ...labels } });
  const pod = (name: string, role: string, node: string): object => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: metadata(name, { role }),
    spec: {
      // Without the scheduler, each node is tried whatever its taints and its free capacity are.
      nodeName: node,
      tolerations: [{ operator: "Exists" }],
      serviceAccountName: "check",
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: "RuntimeDefault" } },
      containers: [
        {
          name: "check",
          image,
          imagePullPolicy: "IfNotPresent",
          command: ["node", "-e", SERVER],
          ports: [{ containerPort: PORT }],
          readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 1 },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
        },
      ],
    },
  });
  return {
    apiVersion: "v1",
    kind: "List",
    items: [
      {
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: namespace, labels: { ...LABELS, "pod-security.kubernetes.io/enforce": "restricted" } },
      },
      // The control plane makes the account "default" only after a while.
      { apiVersion: "v1", kind: "ServiceAccount", metadata: metadata("check"), automountServiceAccountToken: false },
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: metadata("server"),
        spec: {
          type: "NodePort",
          ipFamilyPolicy: "PreferDualStack",
          selector: { role: "server" },
          ports: [{ port: 80, targetPort: PORT }],
        },
      },
      ...nodes.flatMap((node, i) => [
        ...(i === 0 ? [pod("client", "client", node)] : []),
        pod(i === 0 ? "server-same-node" : "server-other-node", "server", node),
      ]),
    ],
  };
}

/** Returns a policy of the servers: one that closes them, or one that opens them for the client. */
export function serverPolicy(namespace: string, name: "closed" | "opened"): object {
  const allowed = { from: [{ podSelector: { matchLabels: { role: "client" } } }], ports: [{ port: PORT }] };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace, labels: LABELS },
    spec: { podSelector: { matchLabels: { role: "server" } }, ingress: name === "closed" ? [] : [allowed] },
  };
}
