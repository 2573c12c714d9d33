import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";

const STARTING = 30_000;
/** The longest time that the browser may take for one answer. */
const ANSWERING = 20_000;

/** A page in a browser, with the functions that tests use. */
export interface Page {
  /** Returns the value of an expression, as JSON represents it. */
  ask(expression: string): Promise<unknown>;
  /** Moves the mouse to the middle of the first element of a selector, and clicks it. */
  click(selector: string): Promise<void>;
  /** Types into the element that has the focus. */
  type(text: string): Promise<void>;
  /** Sets the colour scheme that the reader prefers. */
  prefer(scheme: "light" | "dark"): Promise<void>;
  /** Returns a picture of the visible part, as PNG. */
  picture(): Promise<Buffer>;
  /** The addresses that the page requested in addition to its own, and its messages on the console and its refusals. */
  readonly requests: readonly string[];
  readonly messages: readonly string[];
}

/** A Chromium without a window, controlled by the DevTools protocol. */
export interface Browser {
  open(url: string, width: number, height: number): Promise<Page>;
  close(): Promise<void>;
}

type Parameters = Readonly<Record<string, unknown>>;
type Listener = (method: string, parameters: Parameters) => void;

/** Starts Debian's `chromium` with a profile of its own, which holds nothing of the user's. */
export async function startBrowser(): Promise<Browser> {
  const profile = mkdtempSync(path.join(os.tmpdir(), "drawbridge-chromium-"));
  const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"];
  const child = spawn(
    "chromium",
    [...options, "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"],
    { stdio: ["ignore", "ignore", "pipe"], env: { PATH: process.env["PATH"], HOME: profile, LANG: "C.UTF-8" } },
  );
  const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
  const close = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
    rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  };
  try {
    const session = await Session.open(await addressIn(child.stderr));
    return { open: (url, width, height) => openPage(session, url, width, height), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Returns the address where Chromium listens, which it prints on its standard error. */
function addressIn(words: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`chromium did not start:\n${text}`)), STARTING);
    words.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      const [, url] = /DevTools listening on (ws:\S+)/.exec(text) ?? [];
      if (url === undefined) return;
      clearTimeout(timer);
      resolve(url);
    });
    words.on("end", () => reject(new Error(`chromium ended:\n${text}`)));
  });
}

/** A session of the DevTools protocol: numbered requests and their answers, and events in between. */
class Session {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, { resolve: (value: Parameters) => void; reject: (error: Error) => void }>();
  readonly #listeners = new Map<string, Listener>();
  #last = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => this.#take(String(data)));
  }

  static open(url: string): Promise<Session> {
    const socket = new WebSocket(url);
    return new Promise((resolve, reject) => {
      socket.addEventListener("open", () => resolve(new Session(socket)));
      socket.addEventListener("error", () => reject(new Error(`no connection to ${url}`)));
    });
  }

  listen(sessionId: string, listener: Listener): void {
    this.#listeners.set(sessionId, listener);
  }

  call(method: string, params: Parameters = {}, sessionId?: string): Promise<Parameters> {
    const id = ++this.#last;
    this.#socket.send(JSON.stringify({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) }));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), ANSWERING);
      this.#waiting.set(id, {
        resolve: (value) => (clearTimeout(timer), resolve(value)),
        reject: (error) => (clearTimeout(timer), reject(error)),
      });
    });
  }

  #take(text: string): void {
    const message = JSON.parse(text) as {
      readonly id?: number;
      readonly method?: string;
      readonly params?: Parameters;
      readonly result?: Parameters;
      readonly error?: { readonly message: string };
      readonly sessionId?: string;
    };
    const { id, method, params = {}, result = {}, error, sessionId = "" } = message;
    if (id === undefined) return this.#listeners.get(sessionId)?.(method ?? "", params);
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) waiting?.resolve(result);
    else waiting?.reject(new Error(error.message));
  }
}

async function openPage(session: Session, url: string, width: number, height: number): Promise<Page> {
  const { targetId } = await session.call("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await session.call("Target.attachToTarget", { targetId, flatten: true });
  if (typeof sessionId !== "string") throw new TypeError("a session has a name");
  const call = (method: string, params?: Parameters): Promise<Parameters> => session.call(method, params, sessionId);
  const requests: string[] = [];
  const messages: string[] = [];
  const loaded = new Promise<void>((resolve) => {
    session.listen(sessionId, (method, params) => {
      if (method === "Page.loadEventFired") resolve();
      if (method === "Network.requestWillBeSent") requests.push((params["request"] as { url: string }).url);
      if (method === "Runtime.consoleAPICalled" || method === "Runtime.exceptionThrown")
        messages.push(JSON.stringify(params));
      if (method === "Log.entryAdded") messages.push((params["entry"] as { text: string }).text);
    });
  });
  for (const domain of ["Page", "Network", "Runtime", "Log"]) await call(`${domain}.enable`);
  await call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  await call("Page.navigate", { url });
  await loaded;
  const ask = async (expression: string): Promise<unknown> => {
    const { result, exceptionDetails } = await call("Runtime.evaluate", {
      expression,
      returnByValue: true,
      awaitPromise: true,
    });
    if (exceptionDetails !== undefined) throw new Error(JSON.stringify(exceptionDetails));
    return (result as { value?: unknown }).value;
  };
  return {
    ask,
    click: async (selector) => {
      const place = await ask(
        `(() => { const one = document.querySelector(${JSON.stringify(selector)}); if (!one) return null;` +
          `one.scrollIntoView({ block: "nearest", inline: "nearest" });` +
          `const { left, top, width, height } = one.getBoundingClientRect(); return [left + width / 2, top + height / 2]; })()`,
      );
      if (!Array.isArray(place)) throw new Error(`nothing is ${selector}`);
      const [x, y] = place as readonly number[];
      for (const type of ["mouseMoved", "mousePressed", "mouseReleased"]) {
        await call("Input.dispatchMouseEvent", {
          type,
          x,
          y,
          button: "left",
          clickCount: type === "mouseMoved" ? 0 : 1,
        });
      }
    },
    type: async (text) => void (await call("Input.insertText", { text })),
    prefer: async (value) =>
      void (await call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] })),
    picture: async () => {
      const { data } = await call("Page.captureScreenshot", { format: "png" });
      return Buffer.from(String(data), "base64");
    },
    requests,
    messages,
  };
}
