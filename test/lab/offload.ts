import assert from "node:assert/strict";
import { isFeatureActive, openEthtoolSocket, switchFeatureOff } from "../../kernel/ethtool.ts";
import type { LabNamespace } from "./namespace.ts";

/** Makes the kernel do what a link otherwise leaves to the next device, by the names of features as in `ethtool -k`. */
export function withoutOffload(namespace: LabNamespace, link: string, features: readonly string[]): void {
  const { index } = namespace.link(link);
  const ethtool = namespace.inside(() => openEthtoolSocket(namespace.calls));
  try {
    for (const feature of features) {
      ethtool.socket.request(switchFeatureOff(ethtool, index, feature));
      assert.ok(!isFeatureActive(ethtool, index, feature), `${feature} of ${link} stays on`);
    }
  } finally {
    ethtool.socket.close();
  }
}
