import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import { readCommandLine } from "../../../policyd/configuration/command_line.ts";
import { type Configuration, readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { KUBELET_KUBECONFIGS } from "../../../policyd/sources/api/connection/api_address.ts";
import { CLUSTER_POLICY_DEFINITION, RESOURCES } from "../../../policyd/sources/api/resources.ts";
import { VERSION } from "../../../policyd/version.ts";
import { daemonSet } from "../../support/daemon/daemon_set.ts";
import { KUSTOMIZATIONS, rendered, requireKubectl } from "../../support/programs/kustomize.ts";
import { INSTALL, manifestGrants, manifestObjects, overlayGrants } from "../../support/daemon/manifest_grants.ts";
import { schemaProblems } from "../../support/programs/openapi.ts";

const install = readFileSync(INSTALL, "utf8");

/** The admission policy and its binding, with the fields that decide whom and what it denies. */
const ADMISSION_POLICY = v.strictTuple([
  v.object({
    metadata: v.object({ name: v.string() }),
    spec: v.object({
      matchConstraints: v.object({ resourceRules: v.array(v.looseObject({})) }),
      matchConditions: v.array(v.strictObject({ name: v.string(), expression: v.string() })),
      failurePolicy: v.string(),
    }),
  }),
  v.object({ spec: v.unknown() }),
]);

/** Returns the configuration that a manifest gives the daemon of a node, by the container's own arguments. */
function configurationOf(text: string): Configuration {
  const configMap = manifestObjects(text).find(({ kind }) => kind === "ConfigMap") as {
    readonly data: Readonly<Record<string, string>>;
  };
  const { containers } = daemonSet(text).pod;
  const args = (containers[0]?.args ?? []).map((arg) => arg.replace("$(NODE_NAME)", "node-1"));
  const { config = "", flags } = readCommandLine(args, VERSION, () => {});
  const file = { path: config, text: configMap.data[config.replace("/etc/drawbridge/", "")] ?? "" };
  return readConfiguration(file, flags);
}

describe("manifests/install.yaml", () => {
  it("DEPLOY-01: is the rendered base", function () {
    requireKubectl(this);
    assert.equal(
      install,
      rendered("manifests/base"),
      "run `kubectl kustomize manifests/base > manifests/install.yaml`",
    );
  });

  it("DEPLOY-02: every field is in Kubernetes' published schema, with its type", () => {
    assert.deepEqual(manifestObjects(install).flatMap(schemaProblems), []);
  });

  it("DEPLOY-03: the daemon may list and watch what it follows and write Events, and nothing else", () => {
    const followed = RESOURCES.map(({ name }) => [name, ["list", "watch"]]);
    const { name, objectName = "" } = CLUSTER_POLICY_DEFINITION;
    const definition = [`${name}/${objectName}`, ["list", "watch"]];
    const written = [["events.events.k8s.io", ["create"]]];
    assert.deepEqual(manifestGrants(), Object.fromEntries([...followed, definition, ...written]));
    const roles = manifestObjects(install).filter(({ kind }) => String(kind).endsWith("Role"));
    assert.equal(roles.length, 1);
  });

  it("DEPLOY-03: the permission to patch Nodes' status is only in the overlay with the field that uses it", () => {
    const overlay = "network-unavailable";
    assert.deepEqual(overlayGrants(overlay), { ...manifestGrants(), "nodes/status": ["patch"] });
    for (const other of readdirSync("manifests/overlays").filter((one) => one !== overlay)) {
      assert.deepEqual(overlayGrants(other), manifestGrants(), other);
    }
  });

  it("DEPLOY-03: own-node-status denies patches by the daemon's account beyond the permission of network-unavailable", () => {
    const text = readFileSync("manifests/components/own-node-status/admission_policy.yaml", "utf8");
    const [policy, binding] = v.parse(ADMISSION_POLICY, manifestObjects(text));
    const { matchConstraints, matchConditions, failurePolicy } = policy.spec;
    assert.deepEqual(
      matchConstraints.resourceRules.map(({ resources, operations }) => [resources, operations]),
      [[["nodes/status"], ["UPDATE"]]],
    );
    const user = `system:serviceaccount:kube-system:${daemonSet(install).pod.serviceAccountName}`;
    assert.deepEqual(matchConditions, [{ name: "drawbridge", expression: `request.userInfo.username == '${user}'` }]);
    assert.equal(failurePolicy, "Fail");
    assert.deepEqual(binding.spec, { policyName: policy.metadata.name, validationActions: ["Deny"] });
  });

  it("DEPLOY-02: the daemon accepts its configuration and its command line, and installs the plugin", () => {
    const { nodeName, installCni, socketPath, cniSourceDirectory } = configurationOf(install);
    assert.deepEqual(
      { nodeName, installCni, socketPath, cniSourceDirectory },
      {
        nodeName: "node-1",
        installCni: true,
        socketPath: "/run/drawbridge/policyd.sock",
        cniSourceDirectory: "/opt/drawbridge/cni",
      },
    );
  });

  it("DEPLOY-05: the container has NET_ADMIN and no other privilege, and cannot write its own root", () => {
    const { pod } = daemonSet(install);
    assert.deepEqual(pod.initContainers ?? [], []);
    assert.deepEqual(
      pod.containers.map(({ securityContext }) => securityContext),
      [
        {
          runAsUser: 0,
          runAsGroup: 0,
          privileged: false,
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          seLinuxOptions: { type: "spc_t" },
          capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] },
        },
      ],
    );
    assert.deepEqual(pod.securityContext, { seccompProfile: { type: "RuntimeDefault" } });
    assert.deepEqual([pod.hostNetwork, pod.hostPID, pod.hostIPC], [true, undefined, undefined]);
  });

  it("DEPLOY-06: the container mounts exactly five directories of the node, those of its configuration", () => {
    const { pod } = daemonSet(install);
    const [{ volumeMounts = [] } = {}] = pod.containers;
    const mounted = volumeMounts.flatMap(({ name, mountPath, readOnly = false }) => {
      const { hostPath } = pod.volumes.find((volume) => volume.name === name) ?? {};
      return hostPath === undefined ? [] : [[hostPath.path, hostPath.type, mountPath, readOnly]];
    });
    assert.deepEqual(mounted, [
      ["/run/drawbridge", "DirectoryOrCreate", "/run/drawbridge", false],
      ["/opt/cni/bin", "DirectoryOrCreate", "/opt/cni/bin", false],
      ["/etc/cni/net.d", "DirectoryOrCreate", "/etc/cni/net.d", false],
      ["/proc/sys/net", "Directory", "/host/proc/sys/net", false],
      // The directory is mounted, so a pod starts without the file and sees when it is replaced. An empty directory
      // does no harm.
      ["/etc/kubernetes", "DirectoryOrCreate", "/etc/kubernetes", true],
    ]);
    const { kubeletKubeconfig, cniBinDirectory, cniConfDirectory, stateDirectory } = configurationOf(install);
    const [place = ""] = KUBELET_KUBECONFIGS;
    assert.equal(kubeletKubeconfig, undefined, "the daemon searches for the kubeconfig");
    assert.deepEqual(
      [stateDirectory, cniBinDirectory, cniConfDirectory, "/host/proc/sys/net", dirname(place)],
      mounted.map(([, , mountPath]) => mountPath),
    );
  });

  it("DEPLOY-07: the daemon runs on every node with the highest priority, and an update affects one node in ten at a time", () => {
    const { spec, pod } = daemonSet(install);
    assert.deepEqual(pod.tolerations, [{ operator: "Exists" }]);
    assert.equal(pod.priorityClassName, "system-node-critical");
    assert.deepEqual(spec.updateStrategy, { type: "RollingUpdate", rollingUpdate: { maxUnavailable: "10%" } });
    assert.equal(pod.dnsPolicy, "Default");
  });

  it("uses the image of this version", () => {
    assert.equal(daemonSet(install).pod.containers[0]?.image, `localhost/drawbridge:${VERSION}`);
  });

  it("every object that it names is in it", () => {
    const objects = manifestObjects(install);
    const named = (kind: string): readonly unknown[] =>
      objects.filter((object) => object["kind"] === kind).map(({ metadata }) => (metadata as { name: string }).name);
    const [binding] = objects.filter(({ kind }) => kind === "ClusterRoleBinding") as {
      readonly roleRef: { readonly name: string };
      readonly subjects: readonly { readonly name: string; readonly namespace: string }[];
    }[];
    const { spec, pod } = daemonSet(install);
    assert.deepEqual(named("ClusterRole"), [binding?.roleRef.name]);
    assert.deepEqual(named("ServiceAccount"), [pod.serviceAccountName]);
    assert.deepEqual(binding?.subjects, [
      { kind: "ServiceAccount", name: pod.serviceAccountName, namespace: "kube-system" },
    ]);
    assert.deepEqual(
      named("ConfigMap"),
      pod.volumes.flatMap(({ configMap }) => (configMap === undefined ? [] : [configMap.name])),
    );
    assert.deepEqual(spec.selector.matchLabels, spec.template.metadata.labels);
  });
});

describe("the overlays of manifests/", () => {
  before(function () {
    requireKubectl(this);
  });

  for (const directory of KUSTOMIZATIONS) {
    it(`DEPLOY-02: ${directory} follows the schema, and the daemon accepts its configuration`, () => {
      const text = rendered(directory);
      assert.deepEqual(manifestObjects(text).flatMap(schemaProblems), []);
      assert.equal(configurationOf(text).installCni, true);
    });

    it(`DEPLOY-02: ${directory} has its health probes where the daemon answers`, () => {
      const text = rendered(directory);
      const { services } = configurationOf(text);
      const [{ ports, startupProbe, livenessProbe, readinessProbe } = {}] = daemonSet(text).pod.containers;
      assert.deepEqual(
        ports?.map(({ containerPort }) => containerPort),
        [services ? 10256 : 9874],
      );
      const at = (path: string): object => ({ path, port: "health", ...(services ? {} : { host: "127.0.0.1" }) });
      assert.deepEqual(
        [startupProbe, livenessProbe, readinessProbe].map((probe) => probe?.httpGet),
        [at("/livez"), at("/livez"), at("/readyz")],
      );
    });
  }

  it("DEPLOY-01: each overlay changes only the fields of its purpose", () => {
    const base = configurationOf(rendered("manifests/base"));
    const changed = Object.fromEntries(
      KUSTOMIZATIONS.slice(1).map((directory) => {
        const configuration = Object.entries(configurationOf(rendered(directory)));
        const inBase: Readonly<Record<string, unknown>> = base;
        const different = configuration.filter(([key, value]) => !isDeepStrictEqual(value, inBase[key]));
        return [directory.replace("manifests/overlays/", ""), different.map(([key]) => key).sort()];
      }),
    );
    assert.deepEqual(changed, {
      k0s: ["kubeletKubeconfig"],
      k3s: ["apiServer"],
      "kube-proxy-kept": ["services"],
      "network-unavailable": ["clearNetworkUnavailable"],
      rke2: ["apiServer"],
      "single-stack-ipv4": ["nodePortAddresses"],
      "single-stack-ipv6": ["metricsAddress", "nodePortAddresses"],
      vxlan: ["encapsulation"],
    });
    assert.equal(configurationOf(rendered("manifests/overlays/kube-proxy-kept")).services, false);
    assert.equal(configurationOf(rendered("manifests/overlays/vxlan")).encapsulation, "always");
  });

  it("DEPLOY-02: the cleanup follows the schema, and runs with the daemon's privileges", () => {
    const text = rendered("manifests/cleanup");
    assert.deepEqual(manifestObjects(text).flatMap(schemaProblems), []);
    const { pod } = daemonSet(text);
    const [{ securityContext: daemons, image } = {}] = daemonSet(install).pod.containers;
    assert.deepEqual(
      pod.initContainers?.map(({ securityContext }) => securityContext),
      [daemons],
    );
    assert.equal(pod.initContainers?.[0]?.image, image);
  });

  /** Returns the base with a component. */
  const withComponent = (component: string): string => {
    const directory = mkdtempSync("manifests/test-");
    try {
      const kustomization = `resources: [../base]\ncomponents: [../components/${component}]\n`;
      writeFileSync(`${directory}/kustomization.yaml`, kustomization);
      return rendered(directory);
    } finally {
      rmSync(directory, { recursive: true });
    }
  };

  for (const component of readdirSync("manifests/components")) {
    it(`DEPLOY-01: the component ${component} fits on the base, and its objects of Kubernetes follow the schema`, () => {
      const objects = manifestObjects(withComponent(component));
      const ofOthers = /^(PodMonitor|ValidatingAdmissionPolicy(Binding)?)$/;
      const known = objects.filter(({ kind }) => !ofOthers.test(String(kind)));
      assert.deepEqual(known.flatMap(schemaProblems), []);
      assert.ok(known.length >= 5, `${known.length} objects`);
    });
  }

  it("the seccomp profile is a component that any overlay can use", () => {
    const { securityContext } = daemonSet(withComponent("seccomp")).pod;
    assert.deepEqual(securityContext, { seccompProfile: { type: "Localhost", localhostProfile: "drawbridge.json" } });
  });

  /** Returns the mount of the kubelet's kubeconfig: the node's path, its type and the mount path. */
  const ofKubelet = (text: string): readonly unknown[] => {
    const { pod } = daemonSet(text);
    const [{ volumeMounts = [] } = {}] = pod.containers;
    return pod.volumes.flatMap(({ name, hostPath }) => {
      const mounts = volumeMounts.filter((mount) => mount.name === name);
      assert.equal(mounts.length, 1, name);
      if (name !== "kubelet-kubeconfig") return [];
      return [[hostPath?.path, hostPath?.type, mounts[0]?.mountPath, mounts[0]?.readOnly]];
    });
  };

  for (const [overlay, apiServer] of [
    ["k3s", "https://127.0.0.1:6444/"],
    ["rke2", "https://127.0.0.1:6443/"],
  ] as const) {
    it(`DEPLOY-14: on ${overlay} the API server answers on every node's own address, and no file of the kubelet is mounted`, () => {
      const text = rendered(`manifests/overlays/${overlay}`);
      assert.deepEqual(ofKubelet(text), []);
      assert.equal(configurationOf(text).apiServer?.href, apiServer);
    });
  }

  it("DEPLOY-14: on k0s the single file is mounted where the daemon looks for it", () => {
    const text = rendered("manifests/overlays/k0s");
    const file = "/var/lib/k0s/kubelet.conf";
    assert.deepEqual(ofKubelet(text), [[file, "File", file, true]]);
    assert.equal(configurationOf(text).kubeletKubeconfig, file);
  });

  for (const [component, file] of [
    ["kubelet-conf-file", "/etc/kubernetes/kubelet.conf"],
    ["var-lib-kubelet-kubeconfig", "/var/lib/kubelet/kubeconfig"],
  ] as const) {
    it(`DEPLOY-14: the component ${component} mounts one file, at a path where the daemon looks for it`, () => {
      assert.deepEqual(ofKubelet(withComponent(component)), [[file, "File", file, true]]);
      assert.ok(KUBELET_KUBECONFIGS.includes(file));
    });
  }
});
