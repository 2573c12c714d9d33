import { createSocket } from "node:dgram";
import { connect, createServer, isIPv6, type Socket } from "node:net";
import process from "node:process";
import type { LoadReport, LoadTarget } from "./steady_load.ts";

/**
 * Runs as the program of steady_load.ts: `serve PORT` echoes TCP; `load FLOWS PER_SECOND HOST PORT...` keeps flows open
 * and opens new connections; `knock PER_SECOND HOST PORT...` tries to connect where it is denied, by TCP and UDP. Each
 * prints "ready", continues until its standard input ends, and then prints a line about what it did.
 */
const PAUSE_MILLISECONDS = 100;
const TICK_MILLISECONDS = 5;
/** The longest wait for connections that have begun: several retransmissions of a SYN. */
const LAST_MILLISECONDS = 10_000;
/** The kernel's own limit in a new namespace (net.core.somaxconn). */
const BACKLOG = 4096;
/**
 * The largest number of new connections at once: on a busy machine fewer are begun, so that the descriptors suffice.
 */
const MOST_OPEN = 500;
const MESSAGE = Buffer.alloc(64, 1);
/** A time long enough for two SYNs. */
const KNOCK_MILLISECONDS = 1500;

const [role, ...rest] = process.argv.slice(2);

function ready(): void {
  process.stdout.write("ready\n");
}

function atEnd(action: () => void): void {
  process.stdin.on("end", action).resume();
}

/** Runs an action this many times a second, and catches up after delays. @returns a function that ends it */
function repeat(perSecond: number, action: () => void): () => void {
  const start = performance.now();
  let done = 0;
  const timer = setInterval(() => {
    for (; done < ((performance.now() - start) / 1000) * perSecond; done++) action();
  }, TICK_MILLISECONDS);
  return () => clearInterval(timer);
}

function serve(port: number): void {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on("error", () => {}).pipe(socket);
  });
  // A connection that finds the queue full waits for a retransmission, which on a busy machine must not appear as a
  // gap.
  server.listen({ port, host: "::", backlog: BACKLOG }, ready);
}

function load(targets: readonly LoadTarget[], flows: number, perSecond: number): void {
  const report = { exchanges: Array.from({ length: flows }, () => 0), opened: 0, answered: 0, longest: 0 };
  const failures: Record<string, number> = {};
  const fail = (reason: string): void => void (failures[reason] = (failures[reason] ?? 0) + 1);
  const targetOf = (number: number): LoadTarget => targets[number % targets.length] ?? { host: "::1", port: 1 };
  const open = new Set<Socket>();
  const began = performance.now();
  for (let flow = 0; flow < flows; flow++) {
    const socket = connect({ ...targetOf(flow), noDelay: true });
    let pending = 0;
    const send = (): void => {
      pending = MESSAGE.length;
      socket.write(MESSAGE);
    };
    socket.on("connect", send).on("data", (data) => {
      pending -= data.length;
      if (pending > 0) return;
      report.exchanges[flow] = (report.exchanges[flow] ?? 0) + 1;
      setTimeout(send, PAUSE_MILLISECONDS);
    });
    socket.on("error", (error) => {
      if (report.exchanges[flow] === 0) throw error;
      fail(`flow: ${error.message}`);
    });
    socket.on("close", () => fail("flow: closed"));
  }
  const stop = repeat(perSecond, () => {
    if (open.size >= MOST_OPEN) return;
    const start = performance.now();
    let isAnswered = false;
    const { host, port } = targetOf(report.opened++);
    const socket = connect({ host, port, noDelay: true });
    open.add(socket);
    socket
      .on("connect", () => void socket.write(MESSAGE))
      .once("data", () => {
        report.answered++;
        isAnswered = true;
        report.longest = Math.max(report.longest, performance.now() - start);
        socket.end();
      });
    socket.on("error", ({ message }) => {
      const reason = isAnswered ? `after the answer: ${message}` : message;
      fail(`${reason}, to ${host} port ${port}`);
    });
    socket.on("close", () => void open.delete(socket));
  });
  const whenAllFlow = setInterval(() => {
    if (report.exchanges.some((count) => count === 0)) return;
    clearInterval(whenAllFlow);
    ready();
  }, TICK_MILLISECONDS);
  atEnd(() => {
    stop();
    const rate = Math.round((1000 * report.opened) / (performance.now() - began));
    const before = [...report.exchanges];
    const end = performance.now() + LAST_MILLISECONDS;
    const timer = setInterval(() => {
      const stuck = report.exchanges.filter((count, flow) => count <= (before[flow] ?? 0)).length;
      if ((open.size > 0 || stuck > 0) && performance.now() < end) return;
      clearInterval(timer);
      const result: LoadReport = { ...report, perSecond: rate, failures, unanswered: open.size, stuck };
      process.stdout.write(`${JSON.stringify(result)}\n`);
    }, TICK_MILLISECONDS);
  });
}

function knock(targets: readonly LoadTarget[], perSecond: number): void {
  const report = { attempts: 0, answered: 0 };
  const answered = (): void => void report.answered++;
  const datagrams = { 4: createSocket("udp4"), 6: createSocket("udp6") };
  // A refusal arrives as an ICMP message, which is not an answer.
  for (const socket of Object.values(datagrams)) socket.on("error", () => {}).on("message", answered);
  const stop = repeat(perSecond, () => {
    const { host = "::1", port = 1 } = targets[report.attempts++ % targets.length] ?? {};
    const socket = connect({ host, port, timeout: KNOCK_MILLISECONDS }, answered);
    socket.on("error", () => {}).on("timeout", () => socket.destroy());
    datagrams[isIPv6(host) ? 6 : 4].send(MESSAGE, port, host, () => {});
  });
  ready();
  atEnd(() => {
    stop();
    process.stdout.write(`${JSON.stringify(report)}\n`);
  });
}

function targetsIn(words: readonly string[]): readonly LoadTarget[] {
  const [host, port, ...others] = words;
  return host === undefined ? [] : [{ host, port: Number(port) }, ...targetsIn(others)];
}

if (role === "serve") serve(Number(rest[0]));
else if (role === "load") load(targetsIn(rest.slice(2)), Number(rest[0]), Number(rest[1]));
else knock(targetsIn(rest.slice(1)), Number(rest[0]));
