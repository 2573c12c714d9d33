import type { Namespace } from "../model.ts";
import { frozenLabels, NAMESPACE_NAME, readLabels } from "../name.ts";
import type { Reader } from "./reader.ts";
import { readMetadata, readUid } from "./metadata.ts";

/**
 * Reads a v1 Namespace, and adds the name's label, which every namespace of a cluster has, if a file omits it.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readNamespace(object: Reader): Namespace {
  const { reader, name, isTerminating } = readMetadata(object);
  const labels = readLabels(reader, "labels");
  return Object.freeze({
    kind: "Namespace",
    key: name,
    name,
    uid: readUid(reader),
    labels:
      labels[NAMESPACE_NAME] === name ? labels : frozenLabels(Object.entries({ ...labels, [NAMESPACE_NAME]: name })),
    isTerminating,
  });
}
