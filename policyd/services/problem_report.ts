import { namespaceOf } from "../../objects/namespace_of.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import type { CompiledService } from "./elements/compile_service.ts";
import type { ServiceFollower } from "./service_follower.ts";
import { shortList } from "../../objects/printable.ts";
import { familiesOf } from "./elements/frontends.ts";

const MOST_SHOWN = 5;

type ServiceLog = Required<Pick<ServiceFollower, "compiled" | "removed">>;

/** Reports the parts of Services that are not served; each is logged once for as long as it lasts. */
export function problemReport(
  logger: Logger,
  events: NoticeSink,
): ServiceLog & Required<Pick<ServiceFollower, "problems">> {
  const reported = new Map<string, ReadonlySet<string>>();
  return Object.freeze({
    compiled: (service, compiled) => {
      const { key } = service;
      const before = reported.get(key);
      const problems = new Set(problemsOf(key, compiled));
      for (const problem of problems) {
        if (before?.has(problem) === true) continue;
        logger.warn("part of a Service is not served", { reason: problem }, namespaceOf(key));
        events.tell({ regarding: service, reason: "ServiceNotServed", note: problem });
      }
      if (problems.size === 0) reported.delete(key);
      else reported.set(key, problems);
    },
    removed: (key) => reported.delete(key),
    problems: () => [...reported.values()].flatMap((problems) => [...problems]),
  } satisfies ServiceFollower);
}

/** Returns why parts of a Service are not served. */
function problemsOf(key: string, { problems, ignoredEndpoints }: CompiledService): readonly string[] {
  if (ignoredEndpoints.length === 0) return problems;
  const list = shortList(ignoredEndpoints, MOST_SHOWN, formatAddress);
  return [...problems, `Service ${key}: endpoints' addresses: ${list}; expected ones that a machine can have`];
}

/**
 * Warns once about each Service with externalIPs: anyone who may write a Service can use them to take traffic to any
 * address (CVE-2020-8554). For nodes that do not refuse them.
 */
export function servedExternalIpWarning(logger: Logger, events: NoticeSink): ServiceLog {
  const warned = new Set<string>();
  return Object.freeze({
    compiled: (service) => {
      const { key, externalIps } = service;
      if (externalIps.length === 0 || familiesOf(service).length === 0 || warned.has(key)) return;
      warned.add(key);
      const shown = externalIps.slice(0, MOST_SHOWN).map(formatAddress).join(", ");
      const count = externalIps.length;
      logger.warn(
        "a Service takes traffic to its externalIPs; set refuseExternalIPs to ignore them",
        {
          service: key,
          externalIPs: shown,
          count,
        },
        namespaceOf(key),
      );
      const list = shortList(externalIps, MOST_SHOWN, formatAddress);
      const note = `Service ${key}: spec.externalIPs: takes traffic to ${list}; set refuseExternalIPs to ignore them`;
      events.tell({ regarding: service, reason: "ExternalIPsServed", note });
    },
    // A Service that is created again under the same name gets a new warning.
    removed: (key) => warned.delete(key),
  } satisfies ServiceLog);
}
