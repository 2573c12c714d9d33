import { isMap, isSeq, parse, parseAllDocuments, stringify } from "yaml";
import { SetupFailure } from "../failure.mjs";

/** @typedef {import("./files.mjs").Release} Release */
/** @typedef {Readonly<Record<string, string>>} Files the text of each, by path */
/** @typedef {import("yaml").Document} Document */
/** @typedef {readonly (string | number)[]} Place where a value is in an object */

/**
 * Marks Helm's language: a text that begins so becomes `{{- … }}` on its line as a list's element, as a key or within a
 * text, and `{{ … }}` as a value.
 */
const MARK = "HELM ";
const END = `${MARK}end`;
const CONFIGURATION = ".Values.configuration";
const WITHOUT_SERVICES = `(eq (toString ${CONFIGURATION}.services) "false")`;
const FLOW_LEDGER = `${CONFIGURATION}.flowLedger`;
const KUBECONFIG = "kubelet-kubeconfig";
const IMAGE = `${MARK}.Values.image.repository }}{{ if .Values.image.tag }}:{{ .Values.image.tag }}{{ else }}@{{ .Values.image.digest }}{{ end`;
const WITH_KUBECONFIG = `(not ${CONFIGURATION}.apiServer)`;

/** The values beside the fields of the configuration, each with its comment. */
const VALUES = (/** @type {Release} */ { repository, digest }) => `# The image. A tag takes the place of the digest.
image:
  repository: ${repository}
  digest: ${digest}
  tag: ""
  pullPolicy: IfNotPresent
# Whether an admission policy restricts the right that clearNetworkUnavailable needs to the daemon's own Node (Kubernetes 1.30).
ownNodeStatus: false
# { type: Localhost, localhostProfile: drawbridge.json } with the profile on every node.
seccompProfile:
  type: RuntimeDefault
# The fields of PolicydConfiguration. With apiServer nothing of the kubelet is mounted, and kubeletKubeconfig is mounted as a file;
# services: false leaves kube-proxy's port to it; flowLedger keeps its ledger on the node. The directory examples has those of the
# overlays.
configuration:
`;

/** Refuses the fields of the configuration whose values the pod would have to repeat in its probes and mounts. */
const REFUSAL = `{{- range list "cniBinDirectory" "cniConfDirectory" "flowLedgerDirectory" "healthAddress" "kubeconfig" "objectsDirectory" "socketPath" "stateDirectory" }}
{{- if hasKey $${CONFIGURATION} . }}
{{- fail (printf "configuration.%s: the pod of this chart has the default; set it by kustomize, with a patch of the pod" .) }}
{{- end }}
{{- end }}
`;

/** The pod, in the DaemonSet. */
const POD = ["spec", "template", "spec"];
const CONTAINER = [...POD, "containers", 0];
const FLOWS = "/var/lib/cni/drawbridge-flows";

/**
 * Returns the files of a Helm chart that installs what the kustomize base does, with values for what overlays change.
 *
 * @param {Release} release
 * @param {string} install the text of install.yaml
 * @param {string} admissionPolicy the text of the component own-node-status
 * @param {ReadonlyMap<string, string>} overlays the text of the configuration of each
 * @returns {Files}
 */
export function chartFiles(release, install, admissionPolicy, overlays) {
  const objects = parseAllDocuments(install).map((document) => ({ kind: String(document.get("kind")), document }));
  const map = objects.find(({ kind }) => kind === "ConfigMap")?.document;
  const { head, fields } = configuration(String(map?.getIn(["data", "policyd.yaml"])));
  /** @type {Record<string, string>} */
  const files = {
    "Chart.yaml": stringify({
      apiVersion: "v2",
      name: "drawbridge",
      description: "A Kubernetes network add-on: pods on a Linux bridge, Services and NetworkPolicies in nftables",
      type: "application",
      version: release.version,
      appVersion: release.version,
    }),
    "values.yaml": VALUES(release) + stringify(fields).replace(/^(?=.)/gm, "  "),
    "templates/admission_policy.yaml":
      "{{- if .Values.ownNodeStatus }}\n" +
      admissionPolicy.replace("serviceaccount:kube-system:", "serviceaccount:{{ .Release.Namespace }}:") +
      "{{- end }}\n",
  };
  for (const { kind, document } of objects) {
    edit(kind, document, head);
    files[`templates/${kind.toLowerCase()}.yaml`] = (kind === "ConfigMap" ? REFUSAL : "") + templateOf(document);
  }
  for (const [name, text] of overlays) {
    files[`examples/${name}.yaml`] = stringify({ configuration: configuration(text).fields });
  }
  return files;
}

/**
 * Returns the version and kind of a configuration, as text, and its fields.
 *
 * @param {string} text
 */
function configuration(text) {
  const { apiVersion, kind, ...fields } = /** @type {Record<string, unknown>} */ (parse(text));
  return { head: stringify({ apiVersion, kind }), fields };
}

/**
 * Puts marks into an object of the base in place of what values decide.
 *
 * @param {string} kind
 * @param {Document} document
 * @param {string} head of the configuration
 */
function edit(kind, document, head) {
  const set = (/** @type {Place} */ place, /** @type {unknown} */ value) =>
    document.setIn(place, document.createNode(value));
  document.setIn(["metadata", "name"], "drawbridge");
  if (document.hasIn(["metadata", "namespace"])) document.setIn(["metadata", "namespace"], `${MARK}.Release.Namespace`);
  switch (kind) {
    case "ClusterRole": {
      const rule = { apiGroups: [""], resources: ["nodes/status"], verbs: ["patch"] };
      return append(document, ["rules"], `${CONFIGURATION}.clearNetworkUnavailable`, rule);
    }
    case "ClusterRoleBinding":
      return set(["subjects", 0, "namespace"], `${MARK}.Release.Namespace`);
    case "ConfigMap":
      return set(["data", "policyd.yaml"], `${head}${MARK}toYaml ${CONFIGURATION} | nindent 4\n`);
    case "DaemonSet":
      for (const [place, value] of podEdits(document)) set(place, value);
      surround(document, [...CONTAINER, "volumeMounts"], WITH_KUBECONFIG);
      surround(document, [...POD, "volumes"], WITH_KUBECONFIG);
      append(document, [...CONTAINER, "volumeMounts"], FLOW_LEDGER, { name: "flows", mountPath: FLOWS });
      append(document, [...POD, "volumes"], FLOW_LEDGER, {
        name: "flows",
        hostPath: { path: FLOWS, type: "DirectoryOrCreate" },
      });
  }
}

/**
 * Returns the values that the DaemonSet gets, by their places.
 *
 * @param {Document} document
 * @returns {readonly (readonly [Place, unknown])[]}
 */
function podEdits(document) {
  const path = `${MARK}${CONFIGURATION}.kubeletKubeconfig | default "/etc/kubernetes"`;
  const type = `${MARK}ternary "File" "DirectoryOrCreate" (hasKey ${CONFIGURATION} "kubeletKubeconfig")`;
  const mounts = [...CONTAINER, "volumeMounts"];
  const volumes = [...POD, "volumes"];
  const port = [...CONTAINER, "ports", 0, "containerPort"];
  const probes = ["startupProbe", "livenessProbe", "readinessProbe"].map((probe) => [...CONTAINER, probe, "httpGet"]);
  const onLoopback = { [`${MARK}if ${WITHOUT_SERVICES}`]: null, host: "127.0.0.1", [END]: null };
  return [
    // The configuration has a fixed name here: a pod is replaced when this changes.
    [
      ["spec", "template", "metadata", "annotations"],
      { "checksum/configuration": `${MARK}toYaml ${CONFIGURATION} | sha256sum` },
    ],
    [[...volumes, indexOf(document, volumes, "configuration"), "configMap", "name"], "drawbridge"],
    [[...POD, "securityContext", "seccompProfile"], `${MARK}toJson .Values.seccompProfile`],
    [[...CONTAINER, "image"], IMAGE],
    [[...CONTAINER, "imagePullPolicy"], `${MARK}.Values.image.pullPolicy`],
    [port, `${MARK}ternary 9874 ${String(document.getIn(port))} ${WITHOUT_SERVICES}`],
    ...probes.map((place) => /** @type {const} */ ([place, { ...objectAt(document, place), ...onLoopback }])),
    [[...mounts, indexOf(document, mounts, KUBECONFIG), "mountPath"], path],
    [[...volumes, indexOf(document, volumes, KUBECONFIG), "hostPath"], { path, type }],
  ];
}

/** @param {Document} document @param {Place} place */
function objectAt(document, place) {
  const node = document.getIn(place);
  if (!isMap(node)) throw new SetupFailure(`install.yaml has no object at ${place.join(".")}`);
  return /** @type {object} */ (node.toJSON());
}

/** @param {Document} document @param {Place} place */
function itemsAt(document, place) {
  const node = document.getIn(place);
  if (!isSeq(node)) throw new SetupFailure(`install.yaml has no list at ${place.join(".")}`);
  return node.items;
}

/**
 * Returns the index of the element with a name.
 *
 * @param {Document} document
 * @param {Place} place of the list
 * @param {string} name
 */
function indexOf(document, place, name) {
  const found = itemsAt(document, place).findIndex((item) => isMap(item) && item.get("name") === name);
  if (found === -1) throw new SetupFailure(`install.yaml has no ${name} at ${place.join(".")}`);
  return found;
}

/**
 * Makes the kubelet's part of a list depend on a condition.
 *
 * @param {Document} document
 * @param {Place} place of the list
 * @param {string} condition
 */
function surround(document, place, condition) {
  const at = indexOf(document, place, KUBECONFIG);
  const items = itemsAt(document, place);
  const [item] = items.splice(at, 1);
  items.splice(at, 0, document.createNode(`${MARK}if ${condition}`), item, document.createNode(END));
}

/**
 * Appends an element that depends on a condition to a list.
 *
 * @param {Document} document
 * @param {Place} place of the list
 * @param {string} condition
 * @param {object} element
 */
function append(document, place, condition, element) {
  itemsAt(document, place).push(...[`${MARK}if ${condition}`, element, END].map((each) => document.createNode(each)));
}

/** Returns the text of a template. @param {Document} document with marks */
function templateOf(document) {
  return document
    .toString({ lineWidth: 0 })
    .replace(/^---\n/, "")
    .replace(new RegExp(`^ *(?:- |\\? )?"?${MARK}(.*?)"?(?::(?: null)?)?$`, "gm"), "{{- $1 }}")
    .replace(new RegExp(`: ${MARK}(.*)$`, "gm"), ": {{ $1 }}");
}
