/** The label of a pod of an Indexed Job, of which each index runs once. */
export const COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index";

/** Labels that controllers put on pods in addition to those of the template. */
export const CONTROLLER_LABELS: readonly string[] = [
  "pod-template-hash",
  "rollouts-pod-template-hash",
  // The API server copies these from the node (PodTopologyLabels, Kubernetes 1.35).
  "topology.kubernetes.io/region",
  "topology.kubernetes.io/zone",
  "controller-revision-hash",
  "pod-template-generation",
  "statefulset.kubernetes.io/pod-name",
  "apps.kubernetes.io/pod-index",
  "job-name",
  "controller-uid",
  "batch.kubernetes.io/job-name",
  "batch.kubernetes.io/controller-uid",
  COMPLETION_INDEX,
];

/** Matches labels that Istio, Linkerd, JobSet and KubeRay put on pods; a template may have some of them itself. */
export const INJECTED_LABELS =
  /^(?:security\.istio\.io\/tlsMode|service\.istio\.io\/canonical-(?:name|revision)|topology\.istio\.io\/network|linkerd\.io\/(?:control-plane-ns|workload-ns|proxy-[a-z]+)|(?:jobset\.sigs\.k8s|ray)\.io\/.+)$/;
