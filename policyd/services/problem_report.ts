import { namespaceOf } from "../../objects/namespace_of.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import type { CompiledService } from "./elements/compile_service.ts";
import type { ServiceObserver } from "./service_observer.ts";
import { shortList } from "../../objects/printable.ts";

const MOST_SHOWN = 5;

/** Logs the parts of a Service that are not served, each once for as long as it lasts. */
export function problemReport(logger: Logger, events: NoticeSink): ServiceObserver {
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
  } satisfies ServiceObserver);
}

function problemsOf(key: string, { problems, ignoredEndpoints }: CompiledService): readonly string[] {
  if (ignoredEndpoints.length === 0) return problems;
  const list = shortList(ignoredEndpoints, MOST_SHOWN, formatAddress);
  return [...problems, `Service ${key}: endpoints' addresses: ${list}; expected ones that a machine can have`];
}
