const CONFIG_MAPS = 40_000;
const PODS = 2000;
const NAMESPACES = 20;
/** The number of lines of text in each ConfigMap, which makes the list as large as one that a user has sent. */
const LINES = 8;

/** The numbers of objects in the files. */
export const YAML = { configMaps: CONFIG_MAPS, pods: PODS };

/**
 * Returns a list of ConfigMaps as `kubectl get -o yaml` prints it, 52 MB, all of which must be read although none of it
 * matters.
 */
export function* configMapList(): Generator<string> {
  yield "apiVersion: v1\nitems:\n";
  for (let number = 0; number < CONFIG_MAPS; number++) yield configMap(number);
  yield 'kind: List\nmetadata:\n  resourceVersion: ""\n';
}

function configMap(number: number): string {
  const lines = Array.from(
    { length: LINES },
    (_, i) =>
      `    setting.${i}: value ${i} of the settings of program ${number}, which is as long as values of settings are\n`,
  );
  return `- apiVersion: v1
  data:
    config.ini: |
      [section ${number}]
      address = http://program-${number}.example:8080/path # a comment of the file's own
      list = a, b, c
    key: "quoted: ${number}"
${lines.join("")}  kind: ConfigMap
  metadata:
    annotations:
      example.org/description: 'it''s number ${number}'
    creationTimestamp: "2026-01-01T00:00:00Z"
    labels:
      app.kubernetes.io/name: program-${number % 100}
      app.kubernetes.io/version: "1.0"
    name: program-${number}
    namespace: n${number % NAMESPACES}
    resourceVersion: "${1_000_000 + number}"
    uid: 00000000-0000-4000-8000-${String(number).padStart(12, "0")}
`;
}

/** Returns pods without owners, so that each is a line and a column of the matrix, and a policy for each namespace. */
export function* podsWithoutOwners(): Generator<string> {
  for (let number = 0; number < PODS; number++) {
    yield `apiVersion: v1
kind: Pod
metadata:
  name: p${number}
  namespace: n${number % NAMESPACES}
  labels: { app: a${number % (2 * NAMESPACES)}, number: "${number}" }
spec:
  containers:
    - name: server
      image: registry.example/server:1.0
      ports: [{ name: http, containerPort: 8080 }]
status: { phase: Running, podIP: 10.${number >> 8}.${number & 255}.1 }
---
`;
  }
  for (let number = 0; number < NAMESPACES; number++) {
    yield `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: own, namespace: n${number} }
spec:
  podSelector: {}
  ingress: [{ from: [{ podSelector: { matchLabels: { app: a${number} } } }], ports: [{ port: http }] }]
---
`;
  }
}

/**
 * Returns the same number of pods, each with a policy of its own that admits one other pod, so that policies
 * distinguish all of them.
 *
 * @param firstPort the policies admit ports from this one on
 */
export function* podsApart(firstPort: number): Generator<string> {
  for (let number = 0; number < PODS; number++) {
    const namespace = `n${number % NAMESPACES}`;
    yield `apiVersion: v1
kind: Pod
metadata: { name: p${number}, namespace: ${namespace}, labels: { app: a${number} } }
spec: { nodeName: w${number % 20}, containers: [{ name: server, ports: [{ name: http, containerPort: 8080 }] }] }
status: { phase: Running, podIP: 10.${number >> 8}.${number & 255}.1 }
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: q${number}, namespace: ${namespace} }
spec:
  podSelector: { matchLabels: { app: a${number} } }
  ingress:
    - from: [{ podSelector: { matchLabels: { app: a${(number + NAMESPACES) % PODS} } } }]
      ports: [{ port: ${firstPort + (number % 500)} }]
---
`;
  }
}
