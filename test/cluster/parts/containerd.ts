/**
 * Returns containerd's configuration, in the format's version that each major version itself writes.
 *
 * @param major containerd's major version
 * @param pause the image of a sandbox
 * @param mayRaiseOomScores false without CAP_SYS_RESOURCE: then no container may get a lower score than containerd
 */
export function containerdConfiguration(major: 1 | 2, pause: string, mayRaiseOomScores: boolean): string {
  return major === 1 ? ofVersion2(pause, mayRaiseOomScores) : ofVersion4(pause, mayRaiseOomScores);
}

function ofVersion2(pause: string, mayRaiseOomScores: boolean): string {
  return `version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pause}"
  restrict_oom_score_adj = ${!mayRaiseOomScores}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`;
}

function ofVersion4(pause: string, mayRaiseOomScores: boolean): string {
  return `version = 4
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "${pause}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = ${!mayRaiseOomScores}
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
`;
}
