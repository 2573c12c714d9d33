import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { delayDeviceMac, delayDeviceName, hostInterfaceName } from "../../../../attachment/names_and_macs.ts";
import { decideShaping, shapingSteps } from "../../../../cni/wiring/shaping.ts";
import { useTemporaryDirectory } from "../../../support/ipam/address_store.ts";
import { attachment, sha256 } from "../../../support/cni/cni.ts";
import { callOn } from "../../../support/daemon/fake_call.ts";
import { FakeKernel } from "../../../support/daemon/fake_kernel.ts";

const limit = { rate: 20e6, burst: 2 ** 32 };
const both = { IngressRate: 20e6, IngressBurst: 2 ** 32, EgressRate: 20e6, EgressBurst: 2 ** 32 };
const DEVICE = delayDeviceName(sha256, "c1", "eth0");

function operations(limits: Parameters<typeof decideShaping>[0]): readonly string[] {
  const shaping = decideShaping(limits, attachment(), 1500, sha256);
  const steps = shapingSteps(shaping, "default/a", 7, shaping.fromPod === undefined ? undefined : 8);
  return steps.map(({ request }) => request.operation.replace(/ \(kernel.*/, ""));
}

describe("cni/shaping", () => {
  const directory = useTemporaryDirectory();

  it("the delay device is named after the host end, and has a MAC address of its own", () => {
    assert.equal(DEVICE.slice(3), hostInterfaceName(sha256, "c1", "eth0").slice(3));
    assert.match(DEVICE, /^dbi[0-9a-f]{12}$/);
    assert.match(delayDeviceMac(sha256, DEVICE), /^be(:[0-9a-f]{2}){5}$/);
    assert.equal(delayDeviceName(sha256, "dbvdbv", "eth0"), `dbi${sha256("dbvdbv:eth0").slice(0, 12)}`);
  });

  it("the device's limit for what the pod sends is set before the redirection, and the host end limits what it receives", () => {
    assert.deepEqual(operations({ ingress: limit, egress: limit }), [
      "change link 8",
      "limit what link 8 sends to 2500000 bytes/s",
      "change link 8",
      "make a place for classifiers on link 7",
      "redirect what link 7 receives to link 8",
      "limit what link 7 sends to 2500000 bytes/s",
    ]);
    assert.deepEqual(operations({ ingress: limit, egress: undefined }), ["limit what link 7 sends to 2500000 bytes/s"]);
    assert.equal(operations({ ingress: undefined, egress: limit }).length, 5);
  });

  it("W1: limits are set after the link is made and before the pod's end gets addresses, and the record has them", () => {
    const kernel = new FakeKernel(directory());
    callOn(kernel, directory(), "ADD", undefined, { runtimeConfig: { bandwidth: both } });
    const { journal } = kernel;
    const created = journal.findIndex((event) => event.startsWith("create dbv"));
    const device = journal.indexOf(`create ${DEVICE}`);
    const lastLimit = journal.lastIndexOf("request 36");
    const loopback = journal.indexOf("request 20", lastLimit);
    assert.ok(0 <= created && created < device && device < lastLimit && lastLimit < loopback, journal.join(", "));
    const record: unknown = JSON.parse(
      readFileSync(path.join(directory(), "run/attachments/pods/c1:eth0.json"), "utf8"),
    );
    assert.ok(typeof record === "object" && record !== null && "bandwidth" in record);
    assert.deepEqual(record.bandwidth, {
      ingressRate: 20e6,
      ingressBurst: 2e6,
      egressRate: 20e6,
      egressBurst: 2e6,
    });
  });

  it("an ADD and a DEL without limits ask nothing about traffic control", () => {
    const kernel = new FakeKernel(directory());
    for (const verb of ["ADD", "DEL"] as const) {
      callOn(kernel, directory(), verb, undefined, { bypassBridge: false });
      assert.deepEqual(
        kernel.journal.filter((event) => /request (36|44)|dbi/.test(event)),
        [],
      );
      assert.deepEqual(
        kernel.questions.filter(({ subject }) => subject.includes("dbi")),
        [],
      );
    }
  });
});
