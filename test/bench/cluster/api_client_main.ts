import type { IncomingMessage } from "node:http";
import https from "node:https";
import process from "node:process";
import { text } from "node:stream/consumers";
import * as v from "valibot";
import type { ApiRequest, Order, Outcome } from "./api_client.ts";
import { monotonicMilliseconds } from "./monotonic.ts";

/** Runs as the process of an {@link ApiClient}: takes orders from its parent and reports outcomes. */
const LARGEST_FAILURE = 300;

const settings = v.parse(
  v.object({ server: v.string(), token: v.string(), authority: v.string() }),
  JSON.parse(process.argv[2] ?? "{}"),
);
const agent = new https.Agent({ keepAlive: true, maxSockets: 64, ca: settings.authority });

process.on("message", (order: Order) => {
  void carryOut(order).then((outcome) => process.send?.(outcome));
});
process.on("disconnect", () => agent.destroy());

async function carryOut({ id, requests, atOnce }: Order): Promise<Outcome> {
  const failures: string[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (;;) {
      const request = requests[next++];
      if (request === undefined) return;
      const failure = await make(request);
      if (failure !== undefined) failures.push(failure);
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, requests.length) }, worker));
  return { id, answered: monotonicMilliseconds(), failures };
}

/** Returns why a request has failed; undefined when it has succeeded. */
async function make({ method, path, object }: ApiRequest): Promise<string | undefined> {
  const body = object === undefined ? undefined : JSON.stringify(object);
  const headers = { Authorization: `Bearer ${settings.token}`, "Content-Type": "application/json" };
  try {
    const request = https.request(new URL(path, settings.server), { method, headers, agent }).end(body);
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once("response", resolve).once("error", reject);
    });
    const { statusCode = 0 } = response;
    const answer = await text(response);
    if (statusCode >= 200 && statusCode < 300) return undefined;
    return `${method} ${path}: ${statusCode} ${answer.slice(0, LARGEST_FAILURE)}`;
  } catch (error) {
    return `${method} ${path}: ${error instanceof Error ? error.message : String(error)}`;
  }
}
