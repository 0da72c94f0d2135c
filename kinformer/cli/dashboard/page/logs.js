// The log of a container: its last lines, those that follow, and the log of its previous run. It is read while it is shown.

import { element, number } from "./words.js";

const LINES = 2000, CHARACTERS = 1_000_000;  // kept; older ones are forgotten
const PAUSE = 1000;  // milliseconds between two tries after a log has ended and its pod has changed

export class Logs {
  constructor(store) {
    this.store = store;
    this.log = element("pre", { class: "log", tabIndex: 0 });
    this.log.setAttribute("aria-label", "Log");
    this.choice = element("select", { "aria-label": "Container", onchange: () => this.begin() });
    this.previous = toggle("Previous run", () => this.begin());
    this.search = element("input", { type: "search", placeholder: "Search", "aria-label": "Search in the log", oninput: () => this.find() });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.search.value) { this.search.value = ""; this.find(); event.preventDefault(); }
      if (event.key !== "Escape" || event.defaultPrevented) event.stopPropagation();  // the keys of the page are letters here
    });
    this.pause = toggle("Pause", () => this.goOn());
    this.wrap = toggle("Wrap", (pressed) => this.log.classList.toggle("whole", !pressed));
    this.wrap.setAttribute("aria-pressed", "true");
    this.told = element("p", { class: "quiet", role: "status" });
    this.made = element("div", { class: "logs" }, element("div", {}, this.choice, this.previous, this.search, this.pause, this.wrap, this.told), this.log);
    this.key = "";
    this.reading = null;  // what stops the reading; null if it has ended
    document.addEventListener("visibilitychange", () => { 
      if (this.key && document.hidden) this.stop();
      else if (this.key && !isPressed(this.pause)) this.begin();
    });
  }

  // Shows the log of a pod. For the same pod only the containers are brought up to date, and a log that has ended goes on.
  show(key, pod) {
    const fresh = this.key !== key, containers = containersOf(pod), was = this.choice.value;
    this.key = key;
    this.choice.replaceChildren(...containers.map((container) => new Option(container.role ? `${container.name} (${container.role})` : container.name, container.name)));
    const ill = containers.find((container) => !container.role && !container.ready) ?? containers.find((container) => !container.role);
    this.choice.value = !fresh && containers.some((container) => container.name === was) ? was : ill?.name ?? "";
    this.restarts = new Map(containers.map((container) => [container.name, container.restarts]));
    if (fresh) this.previous.setAttribute("aria-pressed", "false");
    this.offer();
    if (fresh || (!this.reading && !this.isPrevious && !isPressed(this.pause))) {
      clearTimeout(this.soon);
      this.soon = setTimeout(() => this.begin(), fresh ? 0 : PAUSE);
    }
    return this.made;
  }

  close() {
    this.stop();
    this.key = "";
    this.empty();
  }

  get isPrevious() {
    return isPressed(this.previous);
  }

  offer() {
    const count = this.restarts.get(this.choice.value) ?? 0;
    this.previous.hidden = !count && !this.isPrevious;
    this.previous.title = `${number.format(count)} ${count === 1 ? "restart" : "restarts"}`;
  }

  stop() {
    clearTimeout(this.soon);
    this.reading?.abort();
    this.reading = null;
  }

  empty() {
    this.held = [];  // lines that came during a pause
    this.count = this.size = this.forgotten = 0;
    this.log.replaceChildren();
    this.tell("");
  }

  async begin() {
    this.stop();
    this.offer();
    this.pause.setAttribute("aria-pressed", "false");
    const reading = this.reading = new AbortController();
    const query = { key: this.key, ...(this.choice.value ? { container: this.choice.value } : {}), previous: this.isPrevious };
    let fresh = true;
    try {
      const answer = await this.store.ask("logs", query, { signal: reading.signal });
      for await (const part of documents(answer.body)) {
        if (this.reading !== reading) return;
        if (fresh) this.empty();
        fresh = false;
        if (part.lines && isPressed(this.pause)) this.hold(part.lines);
        else if (part.lines) this.add(part.lines);
        else this.tell(part.end ? `The log cannot be read: ${part.end}` : "The log has ended.", Boolean(part.end));
      }
    } catch (error) {
      if (this.reading === reading) this.tell(`The log cannot be read: ${error.message}`, true);
    }
    if (this.reading === reading) this.reading = null;
  }

  // A reader at the end stays there; one who has scrolled up stays at the same lines.
  add(lines) {
    const { log } = this, atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 30;
    log.append(...lines.map((text) => this.mark(Object.assign(element("span"), { text }))));
    this.count += lines.length;
    this.size += lines.reduce((sum, line) => sum + line.length + 1, 0);
    for (let first = log.firstChild; this.count > LINES || this.size > CHARACTERS; first = log.firstChild) {
      this.count -= 1;
      this.size -= first.text.length + 1;
      this.forgotten += 1;
      first.remove();
    }
    this.tell();
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  hold(lines) {
    this.held = [...this.held, ...lines].slice(-LINES);
    this.tell();
  }

  goOn() {
    if (isPressed(this.pause)) return;
    if (!this.reading) this.begin();
    else this.add(this.held.splice(0));
    this.log.scrollTop = this.log.scrollHeight;
  }

  // Leaves the lines with the words of the search, and marks these.
  find() {
    for (const made of this.log.children) this.mark(made);
    this.log.scrollTop = this.log.scrollHeight;
    this.tell();
  }

  mark(made) {
    const { text } = made, words = this.search.value.toLowerCase(), small = words ? text.toLowerCase() : "", parts = [];
    let at = 0;
    for (let hit = words ? small.indexOf(words) : -1; hit >= 0; hit = small.indexOf(words, at)) {
      parts.push(text.slice(at, hit), element("mark", {}, text.slice(hit, hit + words.length)));
      at = hit + words.length;
    }
    made.hidden = Boolean(words && !parts.length);
    made.replaceChildren(...parts, `${text.slice(at)}\n`);
    return made;
  }

  // `said` is why or that the log has ended; without it what was said stays.
  tell(said = this.said, failed = said === this.said && this.failed) {
    Object.assign(this, { said, failed });
    const left = this.search.value ? this.log.querySelectorAll(":scope > :not([hidden])").length : 0;
    const words = [this.search.value ? `${number.format(left)} of ${number.format(this.count)} lines` : this.forgotten ? `the last ${number.format(this.count)} lines` : "",
      this.held.length ? `${number.format(this.held.length)} new` : "", said].filter(Boolean).join("; ");
    if (this.told.textContent !== words) this.told.textContent = words;
    this.told.className = failed ? "quiet failed" : "quiet";
  }
}

function toggle(words, turned) {
  const made = element("button", { type: "button", class: "button", onclick: () => {
    made.setAttribute("aria-pressed", String(!isPressed(made)));
    turned(isPressed(made));
  } }, words);
  made.setAttribute("aria-pressed", "false");
  return made;
}

function isPressed(button) {
  return button.getAttribute("aria-pressed") === "true";
}

function containersOf(pod) {
  const spec = pod.spec ?? {}, status = pod.status ?? {};
  const states = new Map(["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"].flatMap((name) => status[name] ?? [])
    .map((state) => [state.name, state]));
  const of = (list, role) => (list ?? []).map(({ name }) => (
    { name, role, ready: states.get(name)?.ready ?? false, restarts: states.get(name)?.restartCount ?? 0 }));
  return [...of(spec.containers, ""), ...of(spec.initContainers, "init"), ...of(spec.ephemeralContainers, "ephemeral")];
}

// The JSON documents of a body, one a line.
async function* documents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) yield JSON.parse(line);
  }
}
