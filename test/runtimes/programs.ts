/** A program that calls the plugin like a container runtime, and the parameters of its build with Go. */
export interface Program {
  /** The name of its executable, and of the fixture with its calls. */
  readonly name: string;
  /** The folder below test/runtimes. */
  readonly folder: string;
  /** The file that pins its modules. */
  readonly module: string;
  readonly tags?: string;
  /** The runtime that it represents, with the versions of the libraries in the module file. */
  readonly title: string;
}

export const CRIO: Program = {
  name: "crio",
  folder: "ocicni",
  module: "go.mod",
  title: "CRI-O: ocicni 0.5.0 on libcni 1.3.0",
};
export const OLD_CRIO: Program = {
  name: "crio_1_24",
  folder: "ocicni",
  module: "crio-1.24.mod",
  tags: "crio_1_24",
  title: "CRI-O 1.24: ocicni 0.3.0 on libcni 1.0.1",
};
export const CONTAINERD: Program = {
  name: "containerd",
  folder: "go-cni",
  module: "go.mod",
  title: "containerd: go-cni 1.1.14 on libcni 1.3.1",
};
export const OLD_CONTAINERD: Program = {
  name: "containerd_1_6",
  folder: "go-cni",
  module: "containerd-1.6.mod",
  title: "containerd 1.6: go-cni 1.1.6 on libcni 1.1.2",
};

export const PROGRAMS: readonly Program[] = [CRIO, OLD_CRIO, CONTAINERD, OLD_CONTAINERD];
