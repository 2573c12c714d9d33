/** Calls its subscribers each time something has happened. */
export class Signal<T = void> {
  readonly #subscribers: ((value: T) => void)[] = [];

  /** Adds a function, which is called each time after those that subscribed before. */
  subscribe(subscriber: (value: T) => void): void {
    this.#subscribers.push(subscriber);
  }

  /** Calls all subscribers. An exception of one is a bug: it reaches the caller, and the next ones are not called. */
  emit(value: T): void {
    for (const subscriber of this.#subscribers) subscriber(value);
  }
}
