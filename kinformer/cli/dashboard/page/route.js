// The address: the view, the filters, the sort, the open object and its tab, so that a link or a reload shows the same.
//
// #/nodes, #/health or #/r/<resource>, and ?text=&labels=&ns=&level=bad&sort=-AGE&open=<resource> <key>&tab=yaml.

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

  // A sort and a level belong to their view, and go with it.
  with(changes) {
    const moved = changes.view !== undefined && changes.view !== this.state.view;
    return { ...this.state, ...(moved ? { sort: "", level: "", open: null } : {}), ...changes };
  }
}

function parse(hash) {
  const [path, ...rest] = hash.slice(2).split("?");
  const asked = new URLSearchParams(rest.join("?"));
  const [resource, ...key] = (asked.get("open") ?? "").split(" ");
  const view = decoded(path);
  return {
    view: view === "health" || view.startsWith("r/") ? view : "nodes",
    text: asked.get("text") ?? "",
    labels: asked.get("labels") ?? "",
    namespace: asked.get("ns") ?? "",
    level: asked.get("level") ?? "",
    sort: asked.get("sort") ?? "",
    open: key.length ? { resource, key: key.join(" ") } : null,
    tab: asked.get("tab") ?? "summary",
  };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }  // a lone %
}

function text({ view, text: words, labels, namespace, level, sort, open, tab }) {
  const asked = new URLSearchParams();
  const entries = { text: words, labels, ns: namespace, level, sort, open: open ? `${open.resource} ${open.key}` : "",
    tab: open && tab !== "summary" ? tab : "" };
  for (const [name, value] of Object.entries(entries)) if (value) asked.set(name, value);
  const query = asked.toString().replaceAll("%2F", "/");
  return `#/${view}${query ? `?${query}` : ""}`;
}
