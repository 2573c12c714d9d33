import type { Address } from "../../kernel/ip/address.ts";
import type { ContainerPort, Controller, Pod } from "../model.ts";
import { expectName, expectPort, expectPortName, readAnnotations, readLabels } from "../name.ts";
import { type Reader, expectAddress } from "./reader.ts";
import { LONGEST_UID, readNamespacedMetadata } from "./metadata.ts";
import { PROTOCOLS } from "../protocol.ts";

const PHASES = ["Pending", "Running", "Succeeded", "Failed", "Unknown"] as const;

/** The most named ports of a Pod, which stay in memory. */
const MOST_PORTS = 512;

/** The kubelet's annotation of the Pod that mirrors a static pod (kubernetes pkg/kubelet/types/pod_update.go). */
const MIRROR_ANNOTATION = "kubernetes.io/config.mirror";

/**
 * Reads a v1 Pod. An invalid address or port is omitted and reported.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readPod(object: Reader): Pod {
  const { reader, namespace, name, key, isTerminating } = readNamespacedMetadata(object);
  const [spec, status] = [object.object("spec"), object.object("status")];
  const nodeName = spec.get("nodeName");
  return Object.freeze({
    kind: "Pod",
    key,
    name,
    namespace,
    uid: reader.optionalString("uid", LONGEST_UID) ?? "",
    staticUid: reader.attempt(() => reader.object("annotations").optionalString(MIRROR_ANNOTATION, LONGEST_UID)),
    labels: readLabels(reader, "labels"),
    annotations: readAnnotations(reader),
    controller: readController(reader),
    addresses: readAddresses(status),
    nodeName: nodeName === undefined || nodeName === "" ? undefined : expectName(nodeName, spec.path("nodeName")),
    hostNetwork: spec.boolean("hostNetwork", false),
    phase: status.oneOfOrEmpty("phase", PHASES, "Pending"),
    isTerminating,
    ports: readPorts(spec),
  });
}

/** Returns the owner that is marked as the controller. */
function readController(metadata: Reader): Controller | undefined {
  const [controller] = metadata.eachObject("ownerReferences", (owner) =>
    owner.boolean("controller", false)
      ? Object.freeze({ kind: owner.string("kind"), name: expectName(owner.get("name"), owner.path("name")) })
      : undefined,
  );
  return controller;
}

/** Reads `podIPs`, or the older `podIP` where a file has only that. */
function readAddresses(status: Reader): readonly Address[] {
  if (status.get("podIPs") !== undefined) {
    return status.eachObject("podIPs", (entry) => expectAddress(entry.get("ip"), entry.path("ip")));
  }
  const single = status.get("podIP");
  const isAbsent = single === undefined || single === "";
  const address = isAbsent ? undefined : status.attempt(() => expectAddress(single, status.path("podIP")));
  return Object.freeze(address === undefined ? [] : [address]);
}

/**
 * Reads the first {@link MOST_PORTS} named ports, and reports that there are more. Of the init containers only native
 * sidecars count; the others end before there is traffic.
 */
function readPorts(spec: Reader): readonly ContainerPort[] {
  const sidecars = spec.eachObject("initContainers", (container) =>
    container.optionalString("restartPolicy") === "Always" ? readNamedPorts(container) : undefined,
  );
  const ports = [...spec.eachObject("containers", readNamedPorts), ...sidecars].flat();
  if (ports.length > MOST_PORTS)
    spec.tell(`${spec.path("containers")}: ${ports.length} named ports; only the first ${MOST_PORTS} count`);
  return Object.freeze(ports.slice(0, MOST_PORTS));
}

function readNamedPorts(container: Reader): readonly ContainerPort[] {
  return container.eachObject("ports", (port) => {
    const protocol = port.oneOfOrEmpty("protocol", PROTOCOLS, "TCP");
    const number = expectPort(port.get("containerPort"), port.path("containerPort"));
    const name = port.get("name");
    // Policies and Services refer to ports without a name by number.
    if (name === undefined || name === "") return undefined;
    return Object.freeze({ name: expectPortName(name, port.path("name")), protocol, port: number });
  });
}
