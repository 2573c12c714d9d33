import assert from "node:assert/strict";
import { type Environment, requestedAttachment } from "../../../cni/environment.ts";
import { assertRefusal } from "../../support/cni/cni.ts";

const complete = { CNI_CONTAINERID: "c1", CNI_NETNS: "/run/netns/c1", CNI_IFNAME: "eth0" };

function withArguments(text: string): Environment {
  return { ...complete, CNI_ARGS: text };
}

describe("cni/environment", () => {
  describe("missing variables (P4)", () => {
    const verbs = [
      { verb: "ADD", required: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"] },
      { verb: "CHECK", required: ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"] },
      { verb: "DEL", required: ["CNI_CONTAINERID", "CNI_IFNAME"] },
    ] as const;
    for (const { verb, required } of verbs) {
      for (let mask = 1; mask < 1 << required.length; mask++) {
        const missing = required.filter((_, bit) => (mask & (1 << bit)) !== 0);
        it(`${verb} without ${missing.join(", ")} names exactly these, whether unset or empty`, () => {
          for (const absent of [undefined, ""]) {
            const environment = { ...complete, ...Object.fromEntries(missing.map((name) => [name, absent])) };
            assertRefusal(() => requestedAttachment(environment, verb), {
              code: 4,
              says: [`required env variables [${missing.join(",")}] missing`],
            });
          }
        });
      }
    }
  });

  describe("values (P6)", () => {
    const badIds = ["../x", "a/b", ".a", "-a", "a\n", "ä", "x".repeat(201)];
    for (const id of badIds) {
      it(`refuses the container id ${JSON.stringify(id).slice(0, 20)}`, () => {
        assertRefusal(() => requestedAttachment({ ...complete, CNI_CONTAINERID: id }, "DEL"), {
          code: 4,
          says: ["invalid characters in containerID", "CNI_CONTAINERID", JSON.stringify(id.slice(0, 150)).slice(1, -1)],
        });
      });
    }

    it("accepts a container id of 200 letters, digits, dots, dashes and underscores", () => {
      const id = `0Az_.-${"x".repeat(194)}`;
      assert.equal(requestedAttachment({ ...complete, CNI_CONTAINERID: id }, "ADD").containerId, id);
    });

    const badNames = [
      "0123456789abcdef",
      ".",
      "..",
      "a/b",
      "a:b",
      "a\n",
      "a\u2003",
      "a\0",
      "é".repeat(8),
      // The kernel turns it into eth0 (dev_alloc_name), so the interface would not be found again.
      "eth%d",
      "%",
      // The kernel refuses both (sysctl_dev_name_is_allowed), but only after the bridge has been made.
      "all",
      "default",
    ];
    for (const name of badNames) {
      it(`refuses the interface name ${JSON.stringify(name)}`, () => {
        assertRefusal(() => requestedAttachment({ ...complete, CNI_IFNAME: name }, "ADD"), {
          code: 4,
          says: [`CNI_IFNAME: ${JSON.stringify(name)} is not an interface name; expected 1 to 15 bytes`],
        });
      });
    }
  });

  describe("CNI_ARGS (P13)", () => {
    it("refuses an unknown key and names it, unless IgnoreUnknown is true", () => {
      assertRefusal(() => requestedAttachment(withArguments("A=1"), "ADD"), {
        code: 4,
        says: ["CNI_ARGS", '["A"]', "IgnoreUnknown"],
      });
      for (const flag of ["1", "true", "TRUE"]) {
        assert.equal(requestedAttachment(withArguments(`A=1;IgnoreUnknown=${flag}`), "ADD").arguments.ip, undefined);
      }
      for (const flag of ["0", "false", "yes", ""]) {
        assertRefusal(() => requestedAttachment(withArguments(`IgnoreUnknown=${flag};A=1`), "ADD"), {
          code: 4,
          says: ['["A"]'],
        });
      }
    });

    for (const text of ["A=1=2", "A", "=1=", ";", "MAC=1;", ";MAC=1", "IgnoreUnknown=1;x"]) {
      it(`refuses the pair in ${JSON.stringify(text)}`, () => {
        assertRefusal(() => requestedAttachment(withArguments(text), "ADD"), {
          code: 4,
          says: ["CNI_ARGS: invalid pair"],
        });
      });
    }

    it("reads MAC and IP, which are absent when empty and whose names are case-sensitive", () => {
      const { mac, ip } = requestedAttachment(withArguments("MAC=0a:58:0a:f4:01:07;IP=10.244.1.7"), "ADD").arguments;
      assert.deepEqual([mac, ip], ["0a:58:0a:f4:01:07", "10.244.1.7"]);
      const empty = requestedAttachment(withArguments("MAC=;IP="), "ADD").arguments;
      assert.deepEqual([empty.mac, empty.ip], [undefined, undefined]);
      assertRefusal(() => requestedAttachment(withArguments("mac=x"), "ADD"), { code: 4, says: ['["mac"]'] });
    });

    it("reads a pod from its pairs in any order, since containerd's map has none", () => {
      const pairs = ["K8S_POD_UID=ab-12", "K8S_POD_NAME=pod-0", "K8S_POD_NAMESPACE=ns", "IgnoreUnknown=1"];
      for (const ordered of [pairs, pairs.toReversed()]) {
        const { pod } = requestedAttachment(withArguments(ordered.join(";")), "ADD").arguments;
        assert.deepEqual(pod, { namespace: "ns", name: "pod-0", uid: "ab-12" });
      }
    });

    const notPods = [
      "K8S_POD_NAME=a",
      "K8S_POD_NAMESPACE=a",
      "K8S_POD_NAMESPACE=../x;K8S_POD_NAME=a",
      "K8S_POD_NAMESPACE=A;K8S_POD_NAME=a",
      "K8S_POD_NAMESPACE=a;K8S_POD_NAME=a\nb",
      `K8S_POD_NAMESPACE=a;K8S_POD_NAME=${"a".repeat(254)}`,
      "K8S_POD_NAMESPACE=;K8S_POD_NAME=",
    ];
    for (const text of notPods) {
      it(`finds no pod in ${JSON.stringify(text).slice(0, 60)}`, () => {
        assert.equal(requestedAttachment(withArguments(text), "ADD").arguments.pod, undefined);
      });
    }

    it("drops an invalid uid of a pod", () => {
      for (const uid of ["a b", "x".repeat(65), "a/b", ""]) {
        const { pod } = requestedAttachment(
          withArguments(`K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=${uid}`),
          "ADD",
        ).arguments;
        assert.deepEqual(pod, { namespace: "a", name: "b", uid: "" });
      }
    });
  });
});
