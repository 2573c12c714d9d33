/** The used part of the library. Imported by its own name, all of its 6 MB would be in every bundle. */
export { KubeConfig } from "@kubernetes/client-node";
