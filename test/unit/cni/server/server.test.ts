import assert from "node:assert/strict";
import { frame } from "../../../../cni/attachment/message_frame.ts";
import { replyToJson } from "../../../../cni/attachment/policyd_messages.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { DAEMON_MILLISECONDS, type FakeRequest, FakeShims, IDLE_MILLISECONDS, NO_NAMESPACE } from "./fake_shims.ts";

const BEGUN = 254;
const DECLINED = 255;
const DONE = frame(replyToJson({ type: "done" }));
const VERSION: FakeRequest = { environment: { CNI_COMMAND: "VERSION" } };

describe("cni/server", () => {
  let shims: FakeShims;

  beforeEach(() => {
    shims = new FakeShims();
  });

  /** Makes the daemon answer the request with this number, counted from 0. */
  const answer = (index: number): void => {
    const daemon = shims.daemons[index];
    assert.ok(daemon !== undefined, `the daemon was asked ${shims.daemons.length} times only`);
    daemon.answer = DONE;
  };

  afterEach(() => {
    assert.deepEqual([...shims.open], [], "no descriptor outlives the calls");
  });

  describe("one call", () => {
    it("gets the byte that it has begun, its output after its input, and its exit code last", () => {
      const shim = shims.connect(VERSION);
      shims.serve();
      assert.deepEqual(shim.heard, [BEGUN, 0]);
      assert.match(shim.output, /^\{.*"supportedVersions".*\}\n$/s);
    });

    it("ends with 1 and the error as JSON where it fails", () => {
      const shim = shims.connect({ environment: { CNI_COMMAND: "CHECK" } });
      shims.serve();
      assert.deepEqual(shim.heard, [BEGUN, 1]);
      assert.match(shim.output, /"code": ?4,.*CHECK/s);
    });

    it("runs in the network namespace of its shim, although another call has used the thread since", () => {
      const [first, second] = [shims.connectDel("c1"), shims.connectDel("c2")];
      shims.later(() => answer(0));
      shims.later(() => answer(1));
      shims.serve();
      const networks = shims.journal.filter((entry) => entry.startsWith("ask"));
      assert.equal(new Set(networks).size, 2, networks.join());
      assert.deepEqual(
        [first.heard, second.heard],
        [
          [BEGUN, 1],
          [BEGUN, 1],
        ],
      );
    });

    it("SERVER-04: leaves the server outside of the nodes' namespaces when there is nothing more to do", () => {
      shims.connectDel("c1");
      shims.later(() => answer(0));
      shims.serve();
      assert.ok(shims.waitedIn.length > 0);
      assert.deepEqual(new Set(shims.waitedIn), new Set(["home"]));
    });
  });

  describe("a call and its shim", () => {
    it("SERVER-10: a call that its shim has taken back is not begun, and leaves nothing", () => {
      const shim = shims.connect(VERSION);
      shim.isTaken = true;
      shims.serve();
      assert.deepEqual([shim.heard, shim.output], [[], ""]);
      assert.ok(!shims.journal.includes("node"));
    });

    it("SERVER-10: a call is taken before it waits for another one of its container, and before it is declined", () => {
      const first = shims.connectDel("c1");
      const second = shims.connectDel("c1");
      const elsewhere = shims.connect({ ...VERSION, mounts: 7n });
      shims.later(() => {
        assert.deepEqual([first.isTaken, second.isTaken, elsewhere.isTaken], [true, true, true]);
        assert.deepEqual(second.heard, []);
        answer(0);
      });
      shims.later(() => answer(1));
      shims.serve();
      assert.deepEqual(second.heard, [BEGUN, 1]);
    });

    it("SERVER-11: hundreds of silent connections hold up no call, and are closed after a second", () => {
      const silent = Array.from({ length: 300 }, () => shims.connect({ ...VERSION, isSilent: true }));
      const shim = shims.connect(VERSION);
      shims.later(() => {
        assert.deepEqual([shim.heard, shims.now], [[BEGUN, 0], 0]);
        assert.equal([...shims.open.values()].filter((what) => what === "client").length, 100);
      });
      shims.serve();
      assert.ok(silent.every(({ heard }) => heard.length === 0));
    });

    it("SERVER-11: a connection that sends its request late is served then", () => {
      const shim = shims.connect({ ...VERSION, isSilent: true });
      shims.later(() => (shim.isSilent = false));
      shims.serve();
      assert.deepEqual(shim.heard, [BEGUN, 0]);
    });
  });

  describe("a call that is left to the plugin", () => {
    const left: readonly (readonly [what: string, request: FakeRequest])[] = [
      ["in another mount namespace", { ...VERSION, mounts: 7n }],
      ["in a mount namespace that cannot be read", { ...VERSION, mounts: NO_NAMESPACE }],
      ["without CNI_COMMAND", { environment: {} }],
      ["with an empty CNI_COMMAND", { environment: { CNI_COMMAND: "" } }],
      ["with a relative CNI_NETNS", { environment: { CNI_COMMAND: "DEL", CNI_NETNS: "run/netns/a" } }],
    ];
    for (const [what, request] of left) {
      it(`SERVER-01: a call ${what} is declined before any of it is done`, () => {
        const shim = shims.connect(request);
        shims.serve();
        assert.deepEqual(shim.heard, [DECLINED]);
        assert.equal(shim.output, "");
        assert.ok(!shims.journal.includes("node"));
      });
    }

    it("a call with a standard input that is too long is left to the plugin, which reports it", () => {
      const shim = shims.connect({ ...VERSION, stdin: " ".repeat(4 * 1024 * 1024 + 1) });
      shims.serve();
      assert.deepEqual([shim.heard, shim.output], [[], ""]);
    });

    it("SERVER-06: a server whose executable was replaced declines the next call and ends", () => {
      const before = shims.connect(VERSION);
      let after: { readonly heard: readonly number[] } | undefined;
      shims.later(() => {
        shims.isCurrent = false;
        after = shims.connect(VERSION);
        shims.connect(VERSION);
      });
      shims.serve();
      assert.deepEqual([before.heard, after?.heard], [[BEGUN, 0], [DECLINED]]);
      assert.equal(shims.now, 0, "the server does not wait until it is idle");
    });
  });

  describe("calls at once", () => {
    it("SERVER-07: calls of other containers run beside one that waits, and those of its container wait in their order", () => {
      const first = shims.connectDel("c1");
      const second = shims.connectDel("c1");
      const third = shims.connectDel("c1");
      const other = shims.connectDel("c2");
      shims.later(() => {
        assert.deepEqual([first.heard, second.heard, third.heard, other.heard], [[BEGUN], [], [], [BEGUN]]);
        answer(1);
      });
      shims.later(() => {
        assert.deepEqual([first.heard, other.heard], [[BEGUN], [BEGUN, 1]]);
        answer(0);
      });
      shims.later(() => {
        assert.deepEqual([second.heard, third.heard], [[BEGUN], []]);
        answer(2);
      });
      shims.later(() => answer(3));
      shims.serve();
      for (const shim of [first, second, third, other]) assert.deepEqual(shim.heard, [BEGUN, 1]);
    });

    it("SERVER-07: a DEL that blocks in the kernel is declined while other calls wait, and done otherwise", () => {
      const blocking: FakeRequest = {
        environment: { CNI_COMMAND: "DEL", CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0" },
        stdin: JSON.stringify({ cniVersion: "1.1.0", name: "n", runDir: "/nowhere/run" }),
      };
      const before = shims.connect(blocking);
      const quick = shims.connectDel("c2");
      const last = shims.connect(blocking);
      shims.later(() => answer(0));
      shims.serve();
      assert.deepEqual([before.heard, quick.heard, last.heard], [[DECLINED], [BEGUN, 1], [BEGUN, 1]]);
    });

    it("SERVER-05: beside a hundred waiting calls the next one is declined, unless one of its container waits", () => {
      const waiting = Array.from({ length: 100 }, (_, i) => shims.connectDel(`c${i}`));
      const further = shims.connectDel("c100");
      const queued = shims.connectDel("c0");
      shims.later(() => {
        for (const { heard } of waiting) assert.deepEqual(heard, [BEGUN]);
        assert.deepEqual([further.heard, queued.heard], [[DECLINED], []]);
      });
      shims.serve();
      assert.deepEqual(queued.heard, [BEGUN, 1]);
    });

    it("SERVER-08: a waiting call continues when its time is over, and an idle server ends a minute after the last call", () => {
      const shim = shims.connectDel("c1");
      shims.serve();
      assert.deepEqual(shim.heard, [BEGUN, 1]);
      assert.equal(shims.now, DAEMON_MILLISECONDS + IDLE_MILLISECONDS);
    });
  });

  describe("a shim that is killed", () => {
    it("SERVER-03: before the server handles it: nothing is done", () => {
      const shim = shims.connectDel("c1");
      shim.isAlive = false;
      shims.serve();
      assert.deepEqual([shim.heard, shims.journal, shim.output], [[], [], ""]);
    });

    it("SERVER-03: while it waits in the queue of its container: nothing of it is done, and the next call is", () => {
      shims.connectDel("c1");
      const killed = shims.connectDel("c1");
      const last = shims.connectDel("c1");
      shims.later(() => {
        killed.isAlive = false;
        answer(0);
      });
      shims.later(() => answer(1));
      shims.serve();
      assert.deepEqual([killed.heard, last.heard], [[], [BEGUN, 1]]);
      assert.equal(shims.daemons.length, 2);
    });

    it("SERVER-07: while its call waits for the daemon: the call stops, and the next one of its container begins", () => {
      const killed = shims.connectDel("c1");
      const next = shims.connectDel("c1");
      shims.later(() => {
        assert.deepEqual(next.heard, []);
        killed.isAlive = false;
      });
      shims.later(() => {
        assert.deepEqual(next.heard, [BEGUN]);
        assert.deepEqual([...shims.open.values()].filter((what) => what === "daemon").length, 1);
        answer(1);
      });
      shims.serve();
      assert.deepEqual([killed.heard, killed.output, next.heard], [[BEGUN], "", [BEGUN, 1]]);
      assert.equal(shims.now, IDLE_MILLISECONDS, "the server does not wait for the daemon's time to end");
    });

    it("its call stops even when the daemon has answered at the same time", () => {
      const killed = shims.connectDel("c1");
      shims.later(() => {
        answer(0);
        killed.isAlive = false;
      });
      shims.serve();
      assert.deepEqual([killed.heard, killed.output], [[BEGUN], ""]);
    });
  });

  describe("a malformed request", () => {
    const malformed: readonly (readonly [what: string, request: FakeRequest])[] = [
      ["bytes of another protocol", { message: new TextEncoder().encode("GET / HTTP/1.1\r\n") }],
      ["nothing", { message: new Uint8Array() }],
      ["a message that was cut", { ...VERSION, failure: -Errno.EMSGSIZE }],
      ["too few descriptors", { ...VERSION, descriptors: 2 }],
      ["no descriptor", { ...VERSION, descriptors: 0 }],
      ["one descriptor too many", { ...VERSION, descriptors: 4 }],
    ];
    for (const [what, request] of malformed) {
      it(`${what}: the connection and its descriptors are closed, and the next call is done`, () => {
        const bad = shims.connect(request);
        const good = shims.connect(VERSION);
        shims.serve();
        assert.deepEqual([bad.heard, good.heard], [[], [BEGUN, 0]]);
      });
    }
  });

  it("an output that cannot be written ends the connection without an exit code", () => {
    const shim = shims.connect(VERSION);
    shim.isFull = true;
    const next = shims.connect(VERSION);
    shims.serve();
    assert.deepEqual([shim.heard, next.heard], [[BEGUN], [BEGUN, 0]]);
  });

  describe("its end", () => {
    it("SERVER-08: comes when no descriptors are left, without a busy loop", () => {
      const served = shims.connect(VERSION);
      shims.later(() => (shims.isFull = true));
      const late = shims.connect(VERSION);
      shims.later(() => shims.connect(VERSION));
      shims.serve();
      assert.deepEqual(
        [served.heard, late.heard],
        [
          [BEGUN, 0],
          [BEGUN, 0],
        ],
      );
    });

    it("SERVER-07: by an alarm is set again for each call that continues, and never while there is nothing to do", () => {
      shims.connectDel("c1");
      shims.connectDel("c2");
      shims.later(() => (answer(0), answer(1)));
      shims.serve();
      // The server takes two calls and begins them, then both continue in one turn.
      assert.ok(shims.alarms >= 7, `${shims.alarms}`);
    });

    it("SERVER-08: comes after the configured number of calls, when calls under way and those of their containers have ended", () => {
      const first = shims.connectDel("c1");
      const second = shims.connect(VERSION);
      const queued = shims.connectDel("c1");
      const late = shims.connect(VERSION);
      const ofContainer = shims.connectDel("c1");
      shims.later(() => answer(0));
      shims.later(() => answer(1));
      shims.later(() => answer(2));
      shims.serve({ calls: 3 });
      assert.deepEqual(
        [first.heard, second.heard, queued.heard, late.heard, ofContainer.heard],
        [[BEGUN, 1], [BEGUN, 0], [BEGUN, 1], [DECLINED], [BEGUN, 1]],
      );
      assert.equal(shims.now, 0);
    });
  });
});
