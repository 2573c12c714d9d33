import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { ApiConnection } from "./connection.ts";
import { PageReader } from "./page.ts";
import { OK } from "./reading.ts";
import type { Listed } from "./resources.ts";
import { WatchLines } from "./watch_lines.ts";

/** What came of a probe: whether the server is well, and for how many seconds it wants to be left alone. */
export interface ProbeResult {
  readonly isWell: boolean;
  readonly retryAfter: number | undefined;
}

/** A watch that is refused by an event is refused at once. */
const WATCH_HOLDS = 200;
/** A server with much to do lets requests queue: one that answers by then is slow and not ill. */
const PATIENCE = 10_000;

/**
 * Asks a server for as little as shows that it lists and that watches hold: one object, and a watch from there.
 *
 * @param done told once, after ten seconds at the latest
 * @returns what ends it: after that nothing is told
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
  const orFail = (action: () => void): void => {
    try {
      action();
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      fail();
    }
  };
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
