import { styleText } from "node:util";

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_MILLISECONDS = 80;
const CLEAR_LINE = "\r\u001b[K";

/** Shows the present step, on a stream beside the results. */
export interface Progress {
  /** Runs a step under a title; `update` replaces the text after it while it runs. */
  step<T>(title: string, action: (update: (detail: string) => void) => Promise<T> | T): Promise<T>;
}

/** Shows a spinner on a terminal; elsewhere one line per finished step. */
export function streamProgress(stream: NodeJS.WriteStream): Progress {
  return {
    async step(title, action) {
      const start = performance.now();
      let detail = "";
      let frame = 0;
      const draw = (): void => {
        stream.write(`${CLEAR_LINE}${FRAMES[frame++ % FRAMES.length] ?? ""} ${title}${detail && ` ${detail}`}`);
      };
      const timer = stream.isTTY ? setInterval(draw, FRAME_MILLISECONDS) : undefined;
      if (stream.isTTY) draw();
      const finish = (mark: string): void => {
        clearInterval(timer);
        const time = `${Math.round(performance.now() - start)} ms`;
        stream.write(`${stream.isTTY ? CLEAR_LINE : ""}${mark} ${title}${detail && ` ${detail}`} (${time})\n`);
      };
      try {
        const result = await action((text) => {
          detail = text;
          if (stream.isTTY) draw();
        });
        finish(styleText("green", "✓", { stream }));
        return result;
      } catch (error) {
        finish(styleText("red", "✗", { stream }));
        throw error;
      }
    },
  };
}
