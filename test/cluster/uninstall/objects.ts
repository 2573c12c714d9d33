/** The namespace of the pods that use the add-on. */
export const NAMESPACE = "uninstall";
/** The label that selects them. */
export const SELECTOR = "app=server";
const PORT = 8080;
const HOST_PORT = 18080;
const IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.43";

/** Returns pods on every node with a host port and a limit of bandwidth, a Service, and a policy. */
export function users(): readonly object[] {
  const labels = { app: "server" };
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
    {
      apiVersion: "apps/v1",
      kind: "DaemonSet",
      metadata: { name: "server", namespace: NAMESPACE },
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels, annotations: { "kubernetes.io/egress-bandwidth": "100M" } },
          spec: {
            terminationGracePeriodSeconds: 1,
            containers: [
              {
                name: "server",
                image: IMAGE,
                imagePullPolicy: "Never",
                args: ["netexec", `--http-port=${PORT}`],
                ports: [{ containerPort: PORT, hostPort: HOST_PORT }],
                readinessProbe: { httpGet: { path: "/", port: PORT } },
              },
            ],
          },
        },
      },
    },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "server", namespace: NAMESPACE },
      spec: {
        type: "NodePort",
        ipFamilyPolicy: "PreferDualStack",
        sessionAffinity: "ClientIP",
        selector: labels,
        ports: [{ port: PORT }],
      },
    },
    {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: "server", namespace: NAMESPACE },
      spec: {
        podSelector: { matchLabels: labels },
        policyTypes: ["Ingress"],
        ingress: [{ from: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": NAMESPACE } } }] }],
      },
    },
  ];
}
