import { parseAddress } from "../../kernel/ip/address.ts";
import type { Clock } from "../lib/clock.ts";
import type { HealthAnswer } from "./health_check/health_check.ts";
import type { HttpListener, ListeningAddress } from "../http/http_listener.ts";
import { Listeners } from "../http/listeners.ts";
import type { ServiceFollower } from "./service_follower.ts";

/** kube-proxy's `metricsBindAddress`. Only the node itself can ask there. */
const PLACES: readonly ListeningAddress[] = [
  { family: 4, address: parseAddress("127.0.0.1"), port: 10_249 },
  { family: 6, address: parseAddress("::1"), port: 10_249 },
];
const RETRIES = [30_000, 30_000] as const;

/**
 * Answers `/proxyMode` as kube-proxy does in its mode nftables (installProxyModeHandler of cmd/kube-proxy/app), once
 * the rules of Services are in force: upstream tests and tools that inspect a node learn there who serves Services, and
 * how.
 *
 * A port that another program has is left to it and tried again without a message, since kube-proxy may still be
 * running. The same applies to an address that the kernel does not have.
 */
export function proxyMode(listener: HttpListener, clock: Clock): ServiceFollower {
  const listeners = new Listeners({ clock, open: (place) => listener.listen(place, answer), retries: RETRIES });
  return {
    rulesInForce: () => listeners.replace([], PLACES),
    stop: () => listeners.stop(),
  };
}

function answer(url: string): HealthAnswer {
  const [path] = url.split("?", 1);
  const headers = { "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff" };
  if (path === "/proxyMode") return { status: 200, headers, body: "nftables" };
  return { status: 404, headers, body: "expected /proxyMode\n" };
}
