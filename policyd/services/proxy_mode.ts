import { DrawbridgeError } from "../../kernel/error.ts";
import { parseAddress } from "../../kernel/ip/address.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { HealthAnswer } from "./health_check/health_check.ts";
import type { HttpListener, Listening } from "./health_check/http_listener.ts";
import type { ListeningAddress } from "./health_check/listening_addresses.ts";
import type { ServiceFollower } from "./service_follower.ts";

/** kube-proxy's `metricsBindAddress`. Only the node itself can ask there. */
export const PROXY_MODE_PLACES: readonly ListeningAddress[] = [
  { family: 4, address: parseAddress("127.0.0.1"), port: 10_249 },
  { family: 6, address: parseAddress("::1"), port: 10_249 },
];
const RETRY_MILLISECONDS = 30_000;

export interface ProxyModeParts {
  readonly listener: HttpListener;
  readonly clock: Pick<Clock, "after">;
}

/**
 * Answers `/proxyMode` as kube-proxy does in its mode nftables (installProxyModeHandler of cmd/kube-proxy/app), once
 * the rules of Services are in force: upstream tests and tools that inspect a node learn there who serves Services, and
 * how.
 *
 * A port that another program has is left to it and tried again without a message, since kube-proxy may still be
 * running. The same applies to an address that the kernel does not have.
 */
export function proxyMode({ listener, clock }: ProxyModeParts): ServiceFollower {
  const listening = new Set<Listening>();
  const retries = new Map<ListeningAddress, Cancel>();
  let state: "waiting" | "serving" | "stopped" = "waiting";
  const open = async (place: ListeningAddress): Promise<void> => {
    try {
      const opened = await listener.listen(place, answer);
      if (state === "stopped") opened.close();
      else listening.add(opened);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (state !== "stopped") {
        retries.set(
          place,
          clock.after(RETRY_MILLISECONDS, () => void open(place)),
        );
      }
    }
  };
  return {
    nodeChanged: () => {},
    rulesInForce: () => {
      if (state !== "waiting") return;
      state = "serving";
      for (const place of PROXY_MODE_PLACES) void open(place);
    },
    problems: () => [],
    stop: () => {
      state = "stopped";
      for (const cancel of retries.values()) cancel();
      for (const one of listening) one.close();
    },
  };
}

function answer(url: string): HealthAnswer {
  const [path] = url.split("?", 1);
  const headers = { "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff" };
  if (path === "/proxyMode") return { status: 200, headers, body: "nftables" };
  return { status: 404, headers, body: "expected /proxyMode\n" };
}
