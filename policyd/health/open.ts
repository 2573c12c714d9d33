import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Component, Condition } from "../component.ts";
import { healthListen } from "../configuration/own_ports.ts";
import { type HealthAnswer, isProxyHealthy } from "../services/health_check/health_check.ts";
import { type ReportedServers, reportedServers, servedAddresses } from "../http/reported_servers.ts";
import { conditionsAnswer, healthzAnswer, unknownPath } from "./answers.ts";
import { askEventThread, Liveness } from "./liveness.ts";

/** The daemon's health, over HTTP. */
export interface Health {
  /** Follows the node's own Node object. */
  readonly component: Component;
  /** Starts to serve. The daemon is ready when all these conditions hold and the rules are in force. @param problems of the status */
  serve(conditions: readonly Condition[], problems: () => readonly string[]): void;
  /** Whether the daemon is ready as `/readyz` defines it, even if that is not served; false before {@link serve}. */
  isReady(): boolean;
  /** Adds the thread that waits for the kernel's notifications to the liveness check. */
  watch(events: KernelNotifications): void;
  /** Makes the daemon unready; it continues to answer. */
  stopping(): void;
  /** Stops answering. */
  stop(): void;
}

/** Opens health in the network namespace of this thread; nothing is served yet. */
export function openHealth(configuration: Configuration, { ruleset, clock, logger, nodeName }: Machine): Health {
  const { services, syncPeriod } = configuration;
  const liveness = new Liveness({ clock, ruleset: () => ruleset.status() });
  let lastUpdated: number | undefined;
  let isStopping = false;
  let servers: ReportedServers | undefined;
  let ready: readonly Condition[] | undefined;
  let isEligible = true;
  ruleset.committed.subscribe(() => {
    lastUpdated = clock.time();
  });
  const isHealthy = (): boolean =>
    lastUpdated !== undefined && isProxyHealthy(ruleset.status(), clock.now(), syncPeriod);
  const own: readonly Condition[] = [
    { name: "running", missing: () => (isStopping ? "it is stopping" : undefined) },
    { name: "rules", missing: () => (isHealthy() ? undefined : rulesMissing(ruleset.status().lastError)) },
  ];
  const node = (): HealthAnswer => healthzAnswer({ isHealthy: isHealthy(), isEligible, lastUpdated }, clock.time());
  return {
    component: {
      // As kube-proxy does (ProxyHealthServer.SyncNode): the node gets no new connections if its Node object is deleted, is
      // being deleted, or is about to be by the cluster autoscaler. It is eligible until the object says otherwise, also
      // where it is unschedulable.
      apply: (changes) => {
        for (const change of changes) {
          if (change.kind !== "Node" || change.key !== nodeName) continue;
          isEligible = change.type === "set" && change.object.kind === "Node" && !change.object.isLeaving;
        }
      },
      problems(): readonly string[] {
        return (servers?.problems() ?? []).map(
          (problem) =>
            `healthAddress: ${problem}; policyd retries: stop the program that has it (kube-proxy?) or give another address`,
        );
      },
    },
    serve: (conditions, problems) => {
      const all = [...own, ...conditions];
      ready = all;
      const listen = healthListen(configuration);
      if (listen === undefined) return;
      const paths: Paths = {
        "/livez": (isLoopback) => conditionsAnswer("livez", liveness.conditions(), isLoopback),
        "/readyz": (isLoopback) => conditionsAnswer("readyz", all, isLoopback, problems),
        ...(services ? { "/healthz": node } : {}),
      };
      servers = reportedServers({
        clock,
        onRefused: (fields) => logger.warn("health is not served; it is tried again", fields),
        onOpen: (fields) => logger.info("health is served after all", fields),
        addresses: servedAddresses(listen.address),
        port: listen.port,
        answer: (path, isLoopback) => answerOf(paths, path, isLoopback),
      });
    },
    isReady: () => ready?.every(({ missing }) => missing() === undefined) ?? false,
    watch: (events) => liveness.watch(() => askEventThread(events)),
    stopping: () => {
      isStopping = true;
    },
    stop: () => {
      liveness.stop();
      servers?.stop();
    },
  };
}

type Paths = Readonly<Record<string, (isLoopback: boolean) => HealthAnswer>>;

function answerOf(paths: Paths, url: string, isLoopback: boolean): HealthAnswer {
  const [path = ""] = url.split("?", 1);
  const answer = Object.hasOwn(paths, path) ? paths[path] : undefined;
  return answer === undefined ? unknownPath(Object.keys(paths)) : answer(isLoopback);
}

function rulesMissing(lastError: string | undefined): string {
  return lastError === undefined ? "not in force yet" : `not in force: ${lastError}`;
}
