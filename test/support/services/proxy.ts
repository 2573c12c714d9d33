import type { Logger } from "../../../policyd/log/logger.ts";
import { Signal } from "../../../policyd/lib/signal.ts";
import type { Commit } from "../../../policyd/ruleset/difference.ts";
import { ServiceProxy, type ServiceProxyParts } from "../../../policyd/services/service_proxy.ts";
import { problemReport } from "../../../policyd/services/problem_report.ts";
import { FakeClock } from "../fake_clock.ts";
import { recordingLogger } from "../recording_logger.ts";
import { recordingNotices } from "../recording_notices.ts";

type Parts = Partial<Omit<ServiceProxyParts, "ruleset">> & {
  readonly ruleset?: Partial<ServiceProxyParts["ruleset"]>;
  readonly logger?: Logger;
};

/** Returns the Services of a node, n1 where nothing else is given, whose ruleset takes all claims and commits nothing. */
export function serviceProxy({ ruleset, logger = recordingLogger(), ...parts }: Parts = {}): ServiceProxy {
  return new ServiceProxy({
    nodeName: "n1",
    clock: new FakeClock(),
    nodePortAddresses: [],
    refuseExternalIps: false,
    ...parts,
    followers: [problemReport(logger, recordingNotices()), ...(parts.followers ?? [])],
    ruleset: { claim: () => {}, provide: () => {}, committed: new Signal<Commit>(), isReconciled: false, ...ruleset },
  });
}
