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
    this.previous = element("button", { type: "button", class: "button", onclick: () => this.turn() }, "Previous run");
    this.told = element("p", { class: "quiet", role: "status" });
    this.made = element("div", { class: "logs" }, element("div", {}, this.choice, this.previous, this.told), this.log);
    this.key = "";
    this.reading = null;  // what stops the reading; null if it has ended
    document.addEventListener("visibilitychange", () => { if (this.key) document.hidden ? this.stop() : this.begin(); });
  }

  // Shows the log of a pod. For the same pod only the containers are brought up to date, and a log that has ended goes on.
  show(key, pod) {
    const fresh = this.key !== key, containers = containersOf(pod), was = this.choice.value;
    this.key = key;
    this.choice.replaceChildren(...containers.map((one) => new Option(one.role ? `${one.name} (${one.role})` : one.name, one.name)));
    const ill = containers.find((one) => !one.role && !one.ready) ?? containers.find((one) => !one.role);
    this.choice.value = !fresh && containers.some((one) => one.name === was) ? was : ill?.name ?? "";
    this.restarts = new Map(containers.map((one) => [one.name, one.restarts]));
    if (fresh) this.previous.setAttribute("aria-pressed", "false");
    this.offer();
    if (fresh || (!this.reading && !this.isPrevious)) {
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
    return this.previous.getAttribute("aria-pressed") === "true";
  }

  turn() {
    this.previous.setAttribute("aria-pressed", String(!this.isPrevious));
    this.begin();
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
    this.batches = [];
    this.count = this.size = this.forgotten = 0;
    this.log.replaceChildren();
    this.tell("");
  }

  async begin() {
    this.stop();
    this.offer();
    const reading = this.reading = new AbortController();
    const query = { key: this.key, ...(this.choice.value ? { container: this.choice.value } : {}), previous: this.isPrevious };
    let fresh = true;
    try {
      const answer = await this.store.ask("logs", query, { signal: reading.signal });
      for await (const one of documents(answer.body)) {
        if (this.reading !== reading) return;
        if (fresh) this.empty();
        fresh = false;
        if (one.lines) this.add(one.lines);
        else this.tell(one.end ? `The log cannot be read: ${one.end}` : "The log has ended.", Boolean(one.end));
      }
    } catch (error) {
      if (this.reading === reading) this.tell(`The log cannot be read: ${error.message}`, true);
    }
    if (this.reading === reading) this.reading = null;
  }

  // A reader at the end stays there; one who has scrolled up stays at the same lines.
  add(lines) {
    const { log } = this, atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 30;
    const made = element("span", {}, `${lines.join("\n")}\n`);
    this.batches.push({ made, count: lines.length, size: made.textContent.length });
    this.count += lines.length;
    this.size += made.textContent.length;
    log.append(made);
    while (this.batches.length > 1 && (this.count > LINES || this.size > CHARACTERS)) {
      const first = this.batches.shift();
      this.count -= first.count;
      this.size -= first.size;
      this.forgotten += first.count;
      first.made.remove();
    }
    if (this.forgotten) this.tell(`The last ${number.format(this.count)} lines.`);
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  tell(words, failed = false) {
    this.told.textContent = words;
    this.told.className = failed ? "quiet failed" : "quiet";
  }
}

function containersOf(pod) {
  const spec = pod.spec ?? {}, status = pod.status ?? {};
  const states = new Map(["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"].flatMap((name) => status[name] ?? [])
    .map((one) => [one.name, one]));
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
