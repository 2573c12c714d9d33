/** Returns a Pod as YAML, with its document separator. @param labels as in a flow mapping */
export function pod(namespace: string, name: string, address: string, labels: string, node: string): string {
  return `---
apiVersion: v1
kind: Pod
metadata: { name: ${name}, namespace: ${namespace}, labels: { ${labels} } }
spec: { nodeName: ${node}, containers: [{ name: c, ports: [{ name: sql, containerPort: 5432 }] }] }
status: { phase: Running, podIPs: [{ ip: ${address} }] }`;
}
