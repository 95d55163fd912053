/** Elements of the page, made in one call. */

type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: never) => void);

const SVG = "http://www.w3.org/2000/svg";

function fill(element: Element, attributes: Record<string, Value>, children: readonly Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
}

/** Make an element of HTML; functions among the attributes listen to the event of that name. */
export function h<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  fill(element, attributes, children);
  return element;
}

/** Make an element of SVG. */
export function svg(name: string, attributes: Record<string, Value> = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS(SVG, name) as SVGElement;
  fill(element, attributes, children);
  return element;
}

/** Put new children in the place of an element's old ones. */
export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  fill(element, {}, children);
}

/** Call a function at the next frame, once however often it is asked for. */
export function eachFrame(draw: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}
