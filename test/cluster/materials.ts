import path from "node:path";
import type { Materials } from "./cluster.ts";
import { writeImages } from "./images/images.ts";
import { CACHE } from "./place.ts";
import { buildContainerd, buildPrograms, buildSctp, kubernetesSource } from "./programs.ts";

/** Builds the programs that the cache lacks, and writes the images that nodes need. */
export function makeMaterials(say: (line: string) => void): Materials {
  const { kubernetes, coredns, etcd } = buildPrograms(say);
  const images = writeImages(path.join(CACHE, "images"), {
    kubernetes: kubernetes.directory,
    version: kubernetes.version,
    kubernetesSource: kubernetesSource(),
    coredns: coredns.directory,
    sctp: buildSctp(say),
  });
  return {
    version: kubernetes.version,
    pause: images.pause,
    images: images.archives,
    programs: kubernetes.directory,
    program: (name) => path.join({ etcd, coredns }[name]?.directory ?? kubernetes.directory, name),
    containerd2: () => buildContainerd(say).directory,
  };
}
