/**
 * Returns containerd's configuration (version 2 of its format, which containerd 1.6 and 2 read).
 *
 * @param pause the image of a sandbox
 * @param mayRaiseOomScores false where CAP_SYS_RESOURCE is missing: then no container may get a lower score than containerd
 */
export function containerdConfiguration(pause: string, mayRaiseOomScores: boolean): string {
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
