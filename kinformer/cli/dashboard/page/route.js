// The address: the view, the filters, the sort, the open object and its tab, so that a link or a reload shows the same.
//
// #/problems, #/changes, #/nodes, #/health or #/r/<resource>, and ?text=&labels=&ns=&level=bad&kind=Pod&noise=1&sort=-AGE&open=<resource> <key>&tab=yaml.

const VIEWS = ["problems", "changes", "nodes", "health"];

export class Route extends EventTarget {
  constructor() {
    super();
    this.state = parse(location.hash);
    addEventListener("hashchange", () => {
      this.state = parse(location.hash);
      this.dispatchEvent(new CustomEvent("change", { detail: { typed: true } }));
    });
  }

  // A step that the browser's back button undoes; `replace` is for what is typed letter by letter.
  go(changes, { replace = false } = {}) {
    this.state = this.with(changes);
    const address = text(this.state);
    if (address !== location.hash) history[replace ? "replaceState" : "pushState"](null, "", address);
    this.dispatchEvent(new CustomEvent("change", { detail: { typed: false } }));
  }

  href(changes) {
    return text(this.with(changes));
  }

  // A sort, a level, a kind and the noise belong to their view, and go with it.
  with(changes) {
    const moved = changes.view !== undefined && changes.view !== this.state.view;
    return { ...this.state, ...(moved ? { sort: "", level: "", kind: "", noise: false, open: null } : {}), ...changes };
  }
}

function parse(hash) {
  const [path, ...rest] = hash.slice(2).split("?");
  const asked = new URLSearchParams(rest.join("?"));
  const [resource, ...key] = (asked.get("open") ?? "").split(" ");
  const view = decoded(path);
  return {
    view: VIEWS.includes(view) || view.startsWith("r/") ? view : "problems",
    text: asked.get("text") ?? "",
    labels: asked.get("labels") ?? "",
    namespace: asked.get("ns") ?? "",
    level: asked.get("level") ?? "",
    kind: asked.get("kind") ?? "",
    noise: asked.has("noise"),
    sort: asked.get("sort") ?? "",
    open: key.length ? { resource, key: key.join(" ") } : null,
    tab: asked.get("tab") ?? "summary",
  };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }  // a lone %
}

function text({ view, text: words, labels, namespace, level, kind, noise, sort, open, tab }) {
  const asked = new URLSearchParams();
  const entries = { text: words, labels, ns: namespace, level, kind, noise: noise ? "1" : "", sort, open: open ? `${open.resource} ${open.key}` : "",
    tab: open && tab !== "summary" ? tab : "" };
  for (const [name, value] of Object.entries(entries)) if (value) asked.set(name, value);
  const query = asked.toString().replaceAll("%2F", "/");
  return `#/${view}${query ? `?${query}` : ""}`;
}
