import assert from "node:assert/strict";
import fc from "fast-check";
import {
  parseReply,
  parseRequest,
  type PolicydReply,
  type PolicydRequest,
  replyToJson,
  requestToJson,
} from "../../../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { attachmentRecord } from "../../support/cni/attachment_record.ts";

const name = { network: "drawbridge", containerId: "c0ffee", ifname: "eth0" };

describe("ipam/policyd_messages", () => {
  it("requests and replies are read as they were written", () => {
    const requests: readonly PolicydRequest[] = [
      { type: "register", attachment: attachmentRecord() },
      { type: "unregister", attachment: name },
      { type: "status" },
      { type: "write flows" },
      { type: "policies" },
      { type: "policies", after: "NetworkPolicy shop/db" },
    ];
    for (const request of requests) assert.deepEqual(parseRequest(JSON.stringify(requestToJson(request))), request);
    const status = {
      version: "0.1.0",
      nodeName: "n",
      uptimeSeconds: 3,
      isSynced: true,
      objects: { Pod: 4 },
      attachments: 1,
      problemCount: 1,
      problems: ["x"],
    };
    const replies: readonly PolicydReply[] = [
      { type: "done" },
      { type: "done", isDetached: true },
      { type: "status", status },
      { type: "policies", lines: "{}\n" },
      { type: "policies", lines: "{}\n", next: "NetworkPolicy shop/db" },
      { type: "refused", isTemporary: true, message: "no" },
      { type: "refused", isTemporary: false, message: "no", code: "ERR_HOST_PORT_TAKEN" },
      { type: "refused", isTemporary: true, message: "no", code: "ERR_POD_UNKNOWN" },
    ];
    for (const reply of replies) assert.deepEqual(parseReply(JSON.stringify(replyToJson(reply))), reply);
  });

  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  const refused: readonly (readonly [string, RegExp])[] = [
    ["", /no JSON in 0 characters/],
    ["[]", /message: an object or list; expected an object/],
    ['{"type":"status"}', /version: no number; expected 1: the plugin and policyd must be of one release/],
    ['{"version":2,"type":"status"}', /version: 2; expected 1/],
    [`{"version":${deep},"type":"status"}`, /version: no number/],
    [`{"version":1,"type":${deep}}`, /type: an object or list; expected a string/],
    ['{"version":1,"type":"stop"}', /type: "stop"; expected register, unregister, status, write flows or policies/],
    ['{"version":1,"type":"register"}', /record: nothing; expected an object/],
    ['{"version":1,"type":"register","attachment":{"version":1}}', /expected/],
    [
      JSON.stringify({ version: 1, type: "unregister", attachment: { ...name, network: "../x" } }),
      /network name: "\.\.\/x"/,
    ],
    [
      JSON.stringify({ version: 1, type: "unregister", attachment: { ...name, ifname: "a/b" } }),
      /interface name: "a\/b"/,
    ],
  ];
  for (const [text, message] of refused) {
    it(`DAEMON-05: refuses ${text.slice(0, 60)}`, () => {
      assert.throws(() => parseRequest(text), { code: "ERR_PROTOCOL", message });
    });
  }

  it("DAEMON-05: any JSON is a valid message or one of our errors", () => {
    const parts = fc.record({
      version: fc.constant(1),
      type: fc.constantFrom("register", "unregister", "x"),
      attachment: fc.jsonValue(),
    });
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), parts), (value) => {
        for (const parse of [parseRequest, parseReply]) {
          assert.throws(
            () => parse(JSON.stringify(value)),
            (error) => error instanceof DrawbridgeError && error.code === "ERR_PROTOCOL",
          );
        }
      }),
    );
  });
});
