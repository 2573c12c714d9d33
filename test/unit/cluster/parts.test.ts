import assert from "node:assert/strict";
import { containerdConfiguration } from "../../cluster/parts/containerd.ts";
import { controlPlane } from "../../cluster/parts/control_plane.ts";
import { kubeadmConfiguration } from "../../cluster/parts/kubeadm.ts";
import { clusterDns, kubeletArguments } from "../../cluster/parts/kubelet.ts";
import { inOrder, planNodes, PREFIXES, type Settings } from "../../cluster/settings.ts";

const IPV4: Settings = { nodes: 2, firstFamily: 4, isDualStack: false, containerd: 1 };
const IPV6_FIRST: Settings = { nodes: 3, firstFamily: 6, isDualStack: true, containerd: 1 };

describe("test/cluster/parts", () => {
  it("list the prefixes of the first family first, and only those in a single-stack cluster", () => {
    assert.deepEqual(inOrder(IPV4, PREFIXES.pods), ["10.244.0.0/16"]);
    assert.deepEqual(inOrder(IPV6_FIRST, PREFIXES.pods), ["fd00:244::/56", "10.244.0.0/16"]);
  });

  it("place each node in a zone of its own, with an address of each family", () => {
    assert.deepEqual(
      planNodes(IPV6_FIRST).map(({ name, addresses, zone }) => [name, addresses[4], addresses[6], zone]),
      [
        ["node1", "192.0.2.11", "2001:db8:107::11", "zone1"],
        ["node2", "192.0.2.12", "2001:db8:107::12", "zone2"],
        ["node3", "192.0.2.13", "2001:db8:107::13", "zone3"],
      ],
    );
  });

  it("give the kubelet both addresses of its node, the first family's first", () => {
    const [node] = planNodes(IPV6_FIRST);
    assert.ok(node !== undefined);
    assert.ok(kubeletArguments(IPV6_FIRST, node).includes("--node-ip=2001:db8:107::11,192.0.2.11"));
    assert.ok(kubeletArguments(IPV4, node).includes("--node-ip=192.0.2.11"));
  });

  it("agree on the Services' ranges, and on the DNS Service's address within the first of them", () => {
    const [node] = planNodes(IPV6_FIRST);
    assert.ok(node !== undefined);
    const services = "fd00:96::/112,10.96.0.0/16";
    const programs = controlPlane(IPV6_FIRST, node).filter(({ args }) =>
      args.includes(`--service-cluster-ip-range=${services}`),
    );
    assert.deepEqual(
      programs.map(({ name }) => name),
      ["kube-apiserver", "kube-controller-manager"],
    );
    assert.ok(kubeadmConfiguration(IPV6_FIRST, "v1.37.2", node).includes(`serviceSubnet: ${services}`));
    assert.equal(clusterDns(IPV6_FIRST), "fd00:96::a");
    assert.equal(clusterDns(IPV4), "10.96.0.10");
  });

  it("configure containerd in the format of its own major version, with the sandbox's image in either", () => {
    const [old, next] = ([1, 2] as const).map((major) =>
      containerdConfiguration(major, "registry.test/pause:3", false),
    );
    assert.match(old ?? "", /^version = 2\n[^]*grpc\.v1\.cri"\]\n {2}sandbox_image = "registry\.test\/pause:3"/);
    assert.match(next ?? "", /^version = 4\n[^]*pinned_images\]\n {2}sandbox = "registry\.test\/pause:3"/);
    for (const text of [old, next]) assert.match(text ?? "", /restrict_oom_score_adj = true/);
  });
});
