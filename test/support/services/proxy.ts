import { Signal } from "../../../policyd/lib/signal.ts";
import type { Commit } from "../../../policyd/ruleset/difference.ts";
import { ServiceProxy, type ServiceProxyParts } from "../../../policyd/services/service_proxy.ts";
import { FakeClock } from "../fake_clock.ts";

type Parts = Partial<Omit<ServiceProxyParts, "ruleset">> & {
  readonly ruleset?: Partial<ServiceProxyParts["ruleset"]>;
};

/** Returns the Services of a node, n1 where nothing else is given, whose ruleset takes all claims and commits nothing. */
export function serviceProxy({ ruleset, ...parts }: Parts = {}): ServiceProxy {
  return new ServiceProxy({
    nodeName: "n1",
    clock: new FakeClock(),
    nodePortAddresses: [],
    refuseExternalIps: false,
    ...parts,
    ruleset: { claim: () => {}, provide: () => {}, committed: new Signal<Commit>(), isReconciled: false, ...ruleset },
  });
}
