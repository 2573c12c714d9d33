import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { type Face, faceOf, runVerb } from "../../../cni/plugin.ts";
import type { Environment } from "../../../cni/environment.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { assertRefusal, ipamInput, networkInput } from "../../support/cni/cni.ts";
import { fakeNode } from "../../support/cni/fake_node.ts";

describe("cni/plugin face", () => {
  const faces: readonly (readonly [string, Face])[] = [
    ["drawbridge", "drawbridge"],
    ["/opt/cni/bin/drawbridge", "drawbridge"],
    ["/opt/cni/bin/drawbridge-ipam", "drawbridge-ipam"],
    ["drawbridge-ipam", "drawbridge-ipam"],
    ["./loopback", "loopback"],
    ["/loopback/bridge", "drawbridge"],
    ["bridge", "drawbridge"],
    ["", "drawbridge"],
    ["/opt/cni/bin/", "drawbridge"],
    ["LOOPBACK", "drawbridge"],
  ];
  for (const [argv0, face] of faces) {
    it(`${JSON.stringify(argv0)} answers as ${face}`, () => {
      assert.equal(faceOf(argv0), face);
    });
  }
});

describe("cni/plugin verbs", () => {
  const directory = useTemporaryDirectory();

  function run(face: Face, verb: string, input: unknown, environment: Environment = {}): string {
    const node = fakeNode(directory());
    const output = runVerb(node, face, verb, {
      self: face,
      environment: {
        CNI_CONTAINERID: "c1",
        CNI_IFNAME: "eth0",
        CNI_NETNS: "/run/netns/does-not-exist",
        ...environment,
      },
      stdin: typeof input === "string" ? input : JSON.stringify(input),
    });
    assert.deepEqual(node.escapes, []);
    return output;
  }

  function stored(changes: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
    return { ...ipamInput({ dataDir: `${directory()}/networks`, ...changes }), runDir: `${directory()}/run` };
  }

  for (const verb of ["check", "add", "ADD ", "x".repeat(1000)]) {
    it(`refuses the verb ${JSON.stringify(verb.slice(0, 20))} with code 4 (P3)`, () => {
      assertRefusal(() => run("drawbridge", verb, networkInput()), {
        code: 4,
        says: [`unknown CNI_COMMAND: ${verb.slice(0, 64)}; expected ADD, CHECK, DEL, GC, STATUS or VERSION`],
      });
    });
  }

  it("refuses CHECK, GC and STATUS of a configuration whose version does not have them, with code 1 (P8)", () => {
    for (const face of ["drawbridge", "drawbridge-ipam", "loopback"] as const) {
      for (const cniVersion of [undefined, "0.1.0", "0.3.1"]) {
        assertRefusal(() => run(face, "CHECK", { ...stored(), cniVersion }), {
          code: 1,
          says: ["config version does not allow CHECK", "expected 0.4.0 or later"],
        });
      }
      for (const cniVersion of [undefined, "0.4.0", "1.0.0"]) {
        for (const verb of ["GC", "STATUS"]) {
          assertRefusal(() => run(face, verb, { ...stored(), cniVersion }), {
            code: 1,
            says: [`config version does not allow ${verb}`, "expected 1.1.0 or later"],
          });
        }
      }
    }
    assertRefusal(() => run("drawbridge", "CHECK", { ...stored(), cniVersion: "0.4.0" }), { code: 8, says: [] });
  });

  it("refuses the node's own namespace with code 8, whatever path leads to it (P14)", () => {
    for (const netns of ["/proc/self/ns/net", "/proc/thread-self/ns/net", `/proc/${process.pid}/ns/net`]) {
      for (const verb of ["ADD", "DEL"]) {
        assertRefusal(() => run("drawbridge", verb, stored(), { CNI_NETNS: netns }), {
          code: 8,
          says: [netns, "should not be the same"],
        });
      }
    }
  });

  it("accepts the node's own namespace when CNI_NETNS_OVERRIDE is true", () => {
    for (const override of ["1", "true", "TRUE"]) {
      // The fake kernel has no namespaces, so it refuses to enter one.
      assertRefusal(
        () => run("drawbridge", "ADD", stored(), { CNI_NETNS: "/proc/self/ns/net", CNI_NETNS_OVERRIDE: override }),
        {
          code: 8,
          says: ["enter network namespace /proc/self/ns/net: ENOSYS"],
        },
      );
    }
    assertRefusal(
      () => run("drawbridge", "ADD", stored(), { CNI_NETNS: "/proc/self/ns/net", CNI_NETNS_OVERRIDE: "0" }),
      {
        code: 8,
        says: ["should not be the same"],
      },
    );
  });

  it("loopback needs no type, and its DEL no namespace (P5)", () => {
    assert.equal(run("loopback", "DEL", { name: "cni-loopback" }, { CNI_NETNS: "" }), "");
    assert.equal(run("loopback", "DEL", { name: "cni-loopback" }), "");
  });

  it("drawbridge-ipam allocates with the subnet's prefix length and without an interface, and releases again", () => {
    const input = stored({ routes: [{ dst: "0.0.0.0/0" }] });
    const output = run("drawbridge-ipam", "ADD", input);
    assert.deepEqual(JSON.parse(output), {
      cniVersion: "1.1.0",
      ips: [
        { address: "10.244.1.2/24", gateway: "10.244.1.1" },
        { address: "fd00:244:1::2/64", gateway: "fd00:244:1::1" },
      ],
      routes: [{ dst: "0.0.0.0/0" }],
    });
    assert.ok(output.startsWith('{\n    "cniVersion"'));
    assert.equal(existsSync(`${directory()}/networks/pods/10.244.1.2`), true);
    assertRefusal(() => run("drawbridge-ipam", "ADD", input), {
      code: 104,
      says: ["duplicate allocation is not allowed"],
    });
    assert.equal(run("drawbridge-ipam", "DEL", input, { CNI_NETNS: "" }), "");
    assert.equal(run("drawbridge-ipam", "DEL", input), "");
    assert.equal(existsSync(`${directory()}/networks/pods/10.244.1.2`), false);
  });
});
