/**
 * Calls from JavaScript into WebAssembly for numcodecs, whose own code makes them of text with `Function`.
 *
 * The page's content security policy allows no code made of text. `build.mjs` puts this in the place of what does.
 */

interface WireType {
  readonly name: string;
  toWireType(destructors: unknown[] | null, value: unknown): unknown;
  fromWireType(value: unknown): unknown;
}

interface Parts {
  readonly humanName?: string;
  readonly throwBindingError: (text: string) => void;
  readonly invoker: (fn: unknown, ...values: unknown[]) => unknown;
  readonly fn: unknown;
  readonly runDestructors: (destructors: unknown[]) => void;
  readonly retType: WireType;
  readonly [name: string]: unknown;
}

/**
 * Return a function that takes the values of `names` and returns the one that the text behind them describes.
 *
 * It converts its arguments, calls, and converts the result; values in memory of WebAssembly are freed in between.
 */
export function callerOf(names: readonly string[]): (...values: unknown[]) => (...given: unknown[]) => unknown {
  const text = names[names.length - 1]!;
  const keepsList = text.includes("var destructors = [];");
  const returns = text.includes("var ret =") || text.includes("return ret");
  return (...values) => {
    const parts = Object.fromEntries(names.slice(0, -1).map((name, at) => [name, values[at]])) as unknown as Parts;
    const types: WireType[] = [];
    while (`argType${types.length}` in parts) types.push(parts[`argType${types.length}`] as WireType);
    return (...given) => {
      if (given.length !== types.length) {
        parts.throwBindingError(
          `function ${parts.humanName ?? ""} called with ${given.length} arguments, expected ${types.length}`,
        );
      }
      const destructors = keepsList ? [] : null;
      const wired = types.map((type, at) => type.toWireType(destructors, given[at]));
      const result = parts.invoker(parts.fn, ...wired);
      if (destructors !== null) parts.runDestructors(destructors);
      wired.forEach((value, at) => {
        const free = parts[`arg${at}Wired_dtor`];
        if (destructors === null && typeof free === "function") free(value);
      });
      return returns ? parts.retType.fromWireType(result) : undefined;
    };
  };
}
