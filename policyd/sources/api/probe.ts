import { attempt } from "../../../kernel/error.ts";
import type { Cancel, Clock } from "../../lib/clock.ts";
import type { ApiConnection } from "./connection/connection.ts";
import { PageReader } from "./page.ts";
import { OK } from "./reading.ts";
import type { Listed } from "./resources.ts";
import { WatchLines } from "./watch_lines.ts";

/** The result of a probe: whether the server is healthy, and for how many seconds it wants no further request. */
export interface ProbeResult {
  readonly isWell: boolean;
  readonly retryAfter: number | undefined;
}

/** Milliseconds after which a watch counts as accepted: a refusal by an event comes at once. */
const WATCH_HOLDS = 200;
/** The longest wait in milliseconds. A busy server queues requests: one that answers by then is slow, not unhealthy. */
const PATIENCE = 10_000;

/**
 * Checks with the smallest requests that a server lists and watches hold: a list of one object, and a watch from it.
 *
 * @param done called once, after ten seconds at the latest
 * @returns a function that cancels the probe; after that `done` is not called
 */
export function probe(
  connection: ApiConnection,
  clock: Clock,
  resource: Listed,
  done: (result: ProbeResult) => void,
): Cancel {
  let leave: Cancel = () => {};
  const end = (): void => {
    patience();
    leave();
  };
  const finish = (isWell: boolean, retryAfter?: number): void => {
    end();
    done({ isWell, retryAfter });
  };
  const fail = (): void => finish(false);
  const patience = clock.after(PATIENCE, fail);
  const orFail = (action: () => void): void => attempt(action, fail);
  const watch = (resourceVersion: string): void => {
    const lines = new WatchLines();
    let holds: Cancel = () => {};
    const query = new URLSearchParams({ watch: "1", resourceVersion, timeoutSeconds: "1" }).toString();
    const leaveWatch = connection.get(`${resource.path}?${query}`, {
      answered: (status, retryAfter) => {
        if (status !== OK) return finish(false, retryAfter);
        holds = clock.after(WATCH_HOLDS, () => finish(true));
      },
      data: (chunk) =>
        orFail(() => {
          if ([...lines.push(chunk)].some(({ type }) => type === "error")) fail();
        }),
      ended: fail,
      failed: fail,
    });
    leave = () => {
      holds();
      leaveWatch();
    };
  };
  const page = new PageReader(resource);
  leave = connection.get(`${resource.path}?limit=1`, {
    answered: (status, retryAfter) => {
      if (status !== OK) finish(false, retryAfter);
    },
    data: (chunk) => orFail(() => void [...page.push(chunk)]),
    ended: () => orFail(() => watch(page.end().resourceVersion)),
    failed: fail,
  });
  return end;
}
