import assert from "node:assert/strict";
import { manifestObjects } from "./manifest_grants.ts";

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string; readonly host?: string };
}

interface Container {
  readonly image: string;
  readonly command?: readonly string[];
  readonly args: readonly string[];
  readonly ports: readonly { readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly securityContext: {
    readonly runAsUser: number;
    readonly allowPrivilegeEscalation: boolean;
    readonly readOnlyRootFilesystem: boolean;
    readonly capabilities: { readonly drop: readonly string[]; readonly add: readonly string[] };
  };
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[];
}

/** The fields of a pod template that tests read. Another test checks its schema. */
export interface PodTemplate {
  readonly serviceAccountName: string;
  readonly priorityClassName: string;
  readonly dnsPolicy: string;
  readonly hostNetwork?: boolean;
  readonly hostPID?: boolean;
  readonly hostIPC?: boolean;
  readonly tolerations: readonly unknown[];
  readonly securityContext: unknown;
  readonly initContainers?: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly {
    readonly name: string;
    readonly hostPath?: { readonly path: string; readonly type: string };
    readonly configMap?: { readonly name: string };
  }[];
}

interface DaemonSetSpec {
  readonly selector: { readonly matchLabels: unknown };
  readonly updateStrategy: unknown;
  readonly template: { readonly metadata: { readonly labels: unknown }; readonly spec: PodTemplate };
}

/** Returns the only DaemonSet of a manifest. */
export function daemonSet(text: string): { readonly spec: DaemonSetSpec; readonly pod: PodTemplate } {
  const [found, ...others] = manifestObjects(text).filter(({ kind }) => kind === "DaemonSet");
  assert.ok(found !== undefined && others.length === 0);
  const spec = found["spec"] as DaemonSetSpec;
  return { spec, pod: spec.template.spec };
}
