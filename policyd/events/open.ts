import { HttpApiWriter } from "../api_write/http_api_writer.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { apiCredentials } from "../sources/open.ts";
import { type EventCounts, EventLog } from "./event_log.ts";
import type { NoticeSink } from "./notice.ts";

/** Reports notices, and counts their outcomes. */
export interface Events extends NoticeSink {
  /** Undefined where there is no API server. */
  counts(): EventCounts | undefined;
  stop(): void;
}

/**
 * Opens the reporting of Events to the API server that the objects come from; notices are ignored where objects come
 * from a directory.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION where no address of an API server is found
 */
export function openEvents(
  configuration: Configuration,
  { syscalls, clock, logger }: Pick<Machine, "syscalls" | "clock" | "logger">,
): Events {
  const { objectsDirectory, nodeName } = configuration;
  if (objectsDirectory !== undefined) return { tell: () => {}, counts: () => undefined, stop: () => {} };
  const writer = new HttpApiWriter(apiCredentials(configuration, syscalls), clock);
  return new EventLog({ writer, nodeName, clock, logger, random: () => Math.random() });
}
