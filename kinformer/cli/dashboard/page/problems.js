// The problems of the cluster: a line for each cause, with the owner at the top, the worst first.

import { since } from "./clock.js";
import { Counters } from "./levels.js";
import { element, number } from "./words.js";

const SEVERITIES = [["critical", "critical", "bad"], ["error", "errors", "bad"], ["warning", "warnings", "busy"]];
const TONES = new Map(SEVERITIES.map(([name, , tone]) => [name, tone]));

export class Problems {
  constructor(store, filter, href) {
    Object.assign(this, { store, filter, href });
    this.list = document.getElementById("problem-list");
    this.nothing = document.getElementById("no-problems");
    this.leftOut = document.getElementById("left-out");
    this.counted = document.getElementById("problem-count");
    this.counters = new Counters(document.getElementById("severities"), filter, SEVERITIES);
    this.items = [];
    this.version = this.began = this.drawn = null;
    this.shown = false;
  }

  show() {
    this.shown = true;
    this.read();
  }

  hide() {
    this.shown = false;
  }

  get about() {
    return this.store.report?.problems;
  }

  // The list is asked for again when the report has another version of it.
  async read() {
    const { about, store } = this;
    if (!this.shown || !about) return;
    if (this.version !== about.version || this.began !== store.report.began) {
      const before = [this.version, this.began];
      [this.version, this.began] = [about.version, store.report.began];
      try {
        const answer = await store.get("problems");
        this.items = answer.items.map((problem) => ({ ...problem, ns: problem.owner.namespace, level: problem.severity,
          text: [problem.owner.kind, problem.owner.namespace, problem.owner.name, problem.key, problem.reason, problem.message, problem.severity].join(" ").toLowerCase() }));
        this.more = answer.more;
        this.drawn = null;
      } catch {  // the banner says why, and the next report tries again
        [this.version, this.began] = before;
        return;
      }
    }
    this.draw();
  }

  draw() {
    if (!this.shown) return;
    const { about } = this, away = this.store.lost?.since ?? about?.unknown.since;  // since when nothing is known
    const state = JSON.stringify([this.began, about, away, this.filter.state]);
    if (this.drawn === state) return;
    this.drawn = state;
    const fitting = this.items.filter((problem) => this.filter.fits(problem));
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.focus : "";
    this.list.replaceChildren(...fitting.map((problem) => this.line(problem)));
    if (focused) [...this.list.querySelectorAll("[data-focus]")].find((anchor) => anchor.dataset.focus === focused)?.focus({ preventScroll: true });
    const total = this.items.length + (this.more ?? 0);
    this.counted.textContent = !total ? "" : fitting.length === total ? number.format(total) : `${number.format(fitting.length)} of ${number.format(total)}`;
    this.counters.draw((severity) => about?.counts[severity] ?? 0);
    this.nothing.hidden = fitting.length > 0;
    this.nothing.replaceChildren(total ? "Nothing matches the filter." : away ? since(away, { before: about?.unknown.words, after: "." })
      : about?.synced ? about.verdict : "Looking …");
    this.leftOut.hidden = !about?.left_out;
    this.leftOut.textContent = about?.left_out ?? "";
  }

  line(problem) {
    const { owner } = problem, name = `${owner.kind} ${owner.key}`, place = `${problem.rule} ${name}`;
    const other = problem.resource && problem.key && (problem.resource !== owner.resource || problem.key !== owner.key);
    const link = (resource, key, words, focus, tab = "summary") => (resource
      ? element("a", { href: resource === "informers" ? "#/health" : this.href({ resource, key }, tab), "data-focus": focus }, words) : element("span", {}, words));
    const informer = owner.kind === "Informer", itself = problem.count === 1 && problem.unit !== "replicas" && problem.key === owner.key;
    const hit = itself || informer ? "" : `${number.format(problem.count)} ${problem.count === 1 ? problem.unit.replace(/s$/, "") : problem.unit} `;
    return element("li", {},
      element("span", { class: `pill ${TONES.get(problem.severity) ?? ""}` }, problem.severity),
      element("p", { class: "cause" }, element("span", { class: "quiet" }, `${owner.kind}${owner.namespace ? ` in ${owner.namespace}` : ""}`),
        link(informer ? "informers" : owner.resource, owner.key, owner.name, place)),
      element("b", { class: `status ${TONES.get(problem.severity) ?? ""}` }, problem.reason),
      element("p", { class: "hit" }, hit,
        other && !informer ? link(problem.resource, problem.key, problem.key.split("/").at(-1), `${place} ${problem.key}`) : null),
      since(problem.since),
      element("p", { class: "quiet message" }, problem.message));
  }

  // To the next or previous problem.
  move(by) {
    const links = [...this.list.querySelectorAll(".cause a")], at = links.findIndex((anchor) => anchor.closest("li").contains(document.activeElement));
    links[Math.min(links.length - 1, Math.max(0, at < 0 ? 0 : at + by))]?.focus();
    return links.length > 0;
  }
}
