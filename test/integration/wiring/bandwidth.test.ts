import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { iproute } from "../../kernel/iproute.ts";
import { add, type CallOutcome, type Configuration } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { receivedBytes, Streams } from "../../lab/stream.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { hostInterfaceOf, podResult } from "../../support/cni/add_result.ts";
import { roundsFor } from "../../support/long_form.ts";

const SECONDS = roundsFor("seconds of load", 1, 5);
const WARM_UP_MILLISECONDS = 300;
/** Bytes that may arrive before the stream itself: neighbour discovery and the opening of a connection. */
const HANDSHAKE = 1000;
const TOLERANCE = 0.1;
const MOST_ATTEMPTS = 5;
const MOST_WINDOWS = 20;
const SAMPLE_MILLISECONDS = 50;
/** Bytes that may be on their way between bucket and counter: one packet of segments. */
const UNDER_WAY = 65536;
const DEFAULT_BURST = 2 ** 32 - 1;
const BURST_SECONDS = 0.1;

interface Reading {
  readonly bytes: number;
  readonly seconds: number;
}

/** Returns what has arrived since the stopwatch was started. */
type Stopwatch = () => Reading;

interface Pod {
  readonly pod: LabPod;
  readonly hostInterface: string;
  readonly v4: string;
  readonly v6: string;
}

/** Returns a limit in both directions as containerd sends it. */
function limited(rate: number): Configuration {
  return {
    runtimeConfig: {
      bandwidth: {
        IngressRate: rate,
        IngressBurst: DEFAULT_BURST,
        EgressRate: rate,
        EgressBurst: DEFAULT_BURST,
      },
    },
  };
}

function attached(pod: LabPod, outcome: CallOutcome): Pod {
  const result = podResult(outcome);
  const [v4, v6] = result.ips.map(({ address }) => address.split("/")[0] ?? "");
  assert.ok(v4 !== undefined && v6 !== undefined);
  return { pod, hostInterface: hostInterfaceOf(result), v4, v6 };
}

describe("bandwidth of pods", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let streams: Streams;
  let peer: Pod;
  let other: Pod;
  const pods = new Map<number, Pod>();

  before(async function () {
    lab = suiteLab(this, "bandwidth");
    wired = twoNodes(lab).node1;
    streams = new Streams();
    const attach = (name: string, overrides?: Configuration): Pod => {
      const pod = lab.pod(name);
      return attached(pod, add(wired, pod, overrides));
    };
    peer = attach("peer");
    other = attach("other");
    for (const megabits of [1, 20, 200]) pods.set(megabits, attach(`limited-${megabits}`, limited(megabits * 1e6)));
    await Promise.all([peer, other, ...pods.values()].map(({ pod }) => streams.serve(pod)));
  });

  after(async () => await streams?.close());

  /** Bytes that wait in the token bucket of a link of the node. */
  function backlog(link: string): number {
    const bucket = iproute(wired.node, "tc", `-s qdisc show dev ${link}`).find(({ kind }) => kind === "tbf");
    return Number(bucket?.["backlog"]);
  }

  /**
   * Measures which share of the rate arrives at the receiver of a limited stream.
   *
   * The function asserts throughout that the rate is not exceeded, because that holds whatever the machine does. The
   * rate is reached only while the sender keeps the bucket busy and the kernel has a processor to empty it: a guest
   * that stood still for longer than the burst has lost what it could have sent. So the function repeats a measurement
   * in which less arrived.
   */
  async function measure(
    rate: number,
    link: string,
    receiver: LabPod,
    start: () => () => Promise<void>,
  ): Promise<number> {
    let share = 0;
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      // Bytes that wait since the attempt before would count as sent in this one.
      while (backlog(link) > 0) await pause(SAMPLE_MILLISECONDS);
      const stop = start();
      try {
        const whole = await arrival(receiver);
        while (backlog(link) === 0) assertBound(rate, whole());
        await pause(WARM_UP_MILLISECONDS);
        const steady = stopwatch(receiver);
        await pause(SECONDS * 1000);
        const part = steady();
        assertBound(rate, whole());
        share = (part.bytes * 8) / part.seconds / rate;
        if (share >= 1 - TOLERANCE) break;
      } finally {
        await stop();
      }
    }
    return share;
  }

  /** Returns the last stopwatch that was started before anything of the stream arrived. */
  async function arrival(receiver: LabPod): Promise<Stopwatch> {
    for (;;) {
      const clock = stopwatch(receiver);
      await pause(1);
      if (clock().bytes > HANDSHAKE) return clock;
    }
  }

  function assertBound(rate: number, { bytes, seconds }: Reading): void {
    const allowed = (rate / 8) * (seconds + BURST_SECONDS) + UNDER_WAY;
    assert.ok(
      bytes <= allowed,
      `${bytes} bytes in ${seconds} s from the start, the burst included; expected ${allowed} at most`,
    );
  }

  function stopwatch(receiver: LabPod): Stopwatch {
    const start = performance.now();
    const before = receivedBytes(receiver, "eth0");
    return () => {
      const bytes = receivedBytes(receiver, "eth0") - before;
      return { bytes, seconds: (performance.now() - start) / 1000 };
    };
  }

  function assertRate(share: number): void {
    assert.ok(Math.abs(share - 1) <= TOLERANCE, `${(share * 100).toFixed(1)} % of the rate`);
  }

  function podOf(megabits: number): Pod {
    const found = pods.get(megabits);
    assert.ok(found !== undefined);
    return found;
  }

  const delayDevice = ({ hostInterface }: Pod): string => hostInterface.replace(/^dbv/, "dbi");

  async function measureFrom(megabits: number, protocol: "tcp" | "udp", family: "v4" | "v6"): Promise<number> {
    const limitedPod = podOf(megabits);
    return measure(megabits * 1e6, delayDevice(limitedPod), peer.pod, () =>
      streams.send(limitedPod.pod, protocol, peer[family], offered(megabits)),
    );
  }

  async function measureTo(megabits: number, protocol: "tcp" | "udp", family: "v4" | "v6"): Promise<number> {
    const limitedPod = podOf(megabits);
    return measure(megabits * 1e6, limitedPod.hostInterface, limitedPod.pod, () =>
      streams.send(peer.pod, protocol, limitedPod[family], offered(megabits)),
    );
  }

  /** Returns the bytes to send per second: one and a half times the limit. */
  const offered = (megabits: number): number => (megabits * 1e6 * 1.5) / 8;

  for (const megabits of [20, 200]) {
    for (const protocol of ["tcp", "udp"] as const) {
      it(`W1: ${protocol.toUpperCase()} from a pod limited to ${megabits} Mbit/s arrives at that rate, over ${SECONDS} s`, async () => {
        assertRate(await measureFrom(megabits, protocol, "v4"));
      });

      it(`W1: ${protocol.toUpperCase()} to a pod limited to ${megabits} Mbit/s arrives at that rate, over ${SECONDS} s`, async () => {
        assertRate(await measureTo(megabits, protocol, "v4"));
      });
    }
  }

  it("W1: IPv6 from and to a limited pod arrives at the rate of its limit", async () => {
    assertRate(await measureFrom(20, "tcp", "v6"));
    assertRate(await measureTo(20, "tcp", "v6"));
  });

  it("W1: packets of segments larger than the burst do not stall a rate of 1 Mbit/s", async () => {
    // A second of this rate is some 80 frames, and a burst saved up in a pause is a tenth of them. With so few frames a
    // share of more than 1 proves nothing; measure() has checked the bound from the stream's start, the burst included.
    for (const share of [await measureFrom(1, "tcp", "v4"), await measureTo(1, "tcp", "v4")]) {
      assert.ok(share >= 1 - TOLERANCE, `${(share * 100).toFixed(1)} % of the rate`);
    }
  });

  it("W1: a pod that may administer its network cannot lift its limit", async () => {
    const { pod } = podOf(20);
    pod.exec("tc", ["qdisc", "replace", "dev", "eth0", "root", "pfifo", "limit", "10000"]);
    pod.exec("ip", ["link", "set", "eth0", "mtu", "9000", "txqueuelen", "10000"]);
    assertRate(await measureFrom(20, "udp", "v4"));
    assertRate(await measureTo(20, "tcp", "v4"));
  });

  it("W1: frames from a limited pod pass the bridge's hooks as from its own port, and never pass the netdev ingress hook", async () => {
    const { pod, hostInterface } = podOf(20);
    wired.node.exec(
      "nft",
      ["-f", "-"],
      [
        `table bridge seen { chain c { type filter hook prerouting priority -300; iifname ${hostInterface} counter; }; }`,
        `table netdev seen { chain c { type filter hook ingress device ${hostInterface} priority 0; counter; }; }`,
      ].join("\n"),
    );
    const stop = streams.send(pod, "tcp", peer.v4);
    await pause(500);
    await stop();
    const packets = (family: string): number => {
      const listed = wired.node.exec("nft", ["list", "table", family, "seen"]);
      return Number(/counter packets (\d+)/.exec(listed)?.[1]);
    };
    assert.ok(packets("bridge") > 10, `${packets("bridge")} frames`);
    assert.equal(packets("netdev"), 0);
  });

  it("W2: while one pod is at its limit in both directions, streams between other pods are not limited", async () => {
    const { pod, v4 } = podOf(20);
    const stops = [
      streams.send(pod, "udp", peer.v4, offered(20)),
      streams.send(peer.pod, "udp", v4, offered(20)),
      streams.send(peer.pod, "tcp", other.v6),
    ];
    try {
      // The other pods reach ten times the limit in one of these windows; a busy machine may not let them in each.
      let [fastest, whileLimited] = [0, 0];
      for (let window = 0; window < MOST_WINDOWS && fastest < 200e6; window++) {
        const clock = stopwatch(other.pod);
        await pause(500);
        const { bytes, seconds } = clock();
        whileLimited = backlog(podOf(20).hostInterface);
        if (whileLimited > 0) fastest = Math.max(fastest, (bytes * 8) / seconds);
      }
      assert.ok(whileLimited > 0 && fastest >= 200e6, `${(fastest / 1e6).toFixed(0)} Mbit/s`);
      for (const { hostInterface } of [peer, other]) {
        const printed = wired.node.exec("tc", ["qdisc", "show", "dev", hostInterface]).trim();
        assert.match(printed, /^qdisc noqueue 0: root refcnt \d+ *\nqdisc clsact ffff: parent ffff:fff1$/);
      }
    } finally {
      await Promise.all(stops.map((stop) => stop()));
    }
  });
});
