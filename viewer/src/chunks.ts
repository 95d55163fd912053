/** Chunks that are being read, those that were read lately, and those that can't be read. */

export interface Chunk {
  readonly data: ArrayLike<number>;
  readonly shape: readonly number[];
  readonly stride: readonly number[];
  readonly bytes: number;
}

export interface Request {
  readonly key: string;
  readonly load: (signal: AbortSignal) => Promise<Chunk>;
}

export interface Progress {
  readonly wanted: number;
  readonly done: number;
  readonly errors: readonly (readonly [string, string])[];
}

interface Consumer {
  requests: ReadonlyMap<string, Request>;
  readonly arrived: (key: string) => void;
}

/** Decoded values within a budget of bytes; what was used longest ago goes first. */
export class Cache {
  private readonly kept = new Map<string, Chunk>();
  private held = 0;
  private readonly budget: number;

  constructor(budget: number) {
    this.budget = budget;
  }

  get bytes(): number {
    return this.held;
  }

  get(key: string): Chunk | undefined {
    const found = this.kept.get(key);
    if (found !== undefined) {
      this.kept.delete(key);
      this.kept.set(key, found);
    }
    return found;
  }

  set(key: string, chunk: Chunk): void {
    this.delete(key);
    this.kept.set(key, chunk);
    this.held += chunk.bytes;
    for (const old of this.kept.keys()) {
      if (this.held <= this.budget || old === key) break;
      this.delete(old);
    }
  }

  private delete(key: string): void {
    this.held -= this.kept.get(key)?.bytes ?? 0;
    this.kept.delete(key);
  }
}

/**
 * Reads the chunks that its consumers want at present, a few at a time.
 *
 * A consumer replaces what it wants with each change of the view; requests that no consumer wants any longer are cancelled.
 */
export class Loader {
  readonly cache: Cache;
  private readonly consumers = new Map<string, Consumer>();
  private readonly running = new Map<string, AbortController>();
  private readonly failed = new Map<string, string>();
  private readonly most: number;
  /** Called whenever progress may have changed. */
  changed: () => void = () => {};

  constructor(budget: number, most: number) {
    this.cache = new Cache(budget);
    this.most = most;
  }

  /** Return a chunk if it was read lately. */
  get(key: string): Chunk | undefined {
    return this.cache.get(key);
  }

  /** Return why a chunk can't be read. */
  error(key: string): string | undefined {
    return this.failed.get(key);
  }

  /** Say what a consumer wants, in order of urgency; `arrived` is called for each chunk that is read or fails. */
  want(name: string, requests: readonly Request[], arrived: (key: string) => void): void {
    this.consumers.set(name, { requests: new Map(requests.map((request) => [request.key, request])), arrived });
    for (const [key, controller] of this.running) {
      if (!this.isWanted(key)) {
        this.running.delete(key);
        controller.abort();
      }
    }
    this.start();
    this.changed();
  }

  /** Read again what could not be read. */
  retry(): void {
    this.failed.clear();
    this.start();
    this.changed();
  }

  /** Count what one consumer wants. */
  progress(name: string): Progress {
    const keys = [...(this.consumers.get(name)?.requests.keys() ?? [])];
    const open = keys.filter((key) => !this.done.has(key) && !this.failed.has(key)).length;
    const errors = keys.flatMap((key) => (this.failed.has(key) ? [[key, this.failed.get(key)!] as const] : []));
    return { wanted: keys.length, done: keys.length - open, errors };
  }

  // chunks may leave the cache after they were drawn, so what has arrived is noted by itself
  private readonly done = new Set<string>();

  private isWanted(key: string): boolean {
    for (const consumer of this.consumers.values()) if (consumer.requests.has(key)) return true;
    return false;
  }

  private start(): void {
    for (const key of this.done) if (!this.isWanted(key)) this.done.delete(key);
    for (const consumer of this.consumers.values()) {
      for (const [key, request] of consumer.requests) {
        if (this.running.size >= this.most) return;
        if (this.running.has(key) || this.failed.has(key) || this.done.has(key)) continue;
        if (this.cache.get(key) !== undefined) this.done.add(key);
        else void this.run(request);
      }
    }
  }

  private async run({ key, load }: Request): Promise<void> {
    const controller = new AbortController();
    this.running.set(key, controller);
    try {
      const chunk = await load(controller.signal);
      if (controller.signal.aborted) return;
      this.cache.set(key, chunk);
      this.done.add(key);
    } catch (error) {
      if (controller.signal.aborted) return;
      this.failed.set(key, reason(error));
    }
    this.running.delete(key);
    for (const consumer of this.consumers.values()) if (consumer.requests.has(key)) consumer.arrived(key);
    this.start();
    this.changed();
  }
}

/** Say why something failed, with the errors behind it. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${reason(error.cause)}`;
}
