// The summary of an object: its cells, conditions, containers with the reasons of their restarts, labels.

import { since } from "./clock.js";
import { element, meaning } from "./words.js";

export function summary(object, row, about) {
  const metadata = object.metadata ?? {}, made = element("div", { class: "summary" });
  const facts = element("dl", { class: "facts wide" });
  const fact = (name, ...value) => {
    if (value[0]) facts.append(element("div", {}, element("dt", {}, name), element("dd", {}, ...value)));
  };
  (about?.columns ?? []).forEach((name, place) => {
    const cell = row?.c[place];
    if (Array.isArray(cell)) fact(name.toLowerCase(), since(cell[1], { before: cell[0], after: cell[2] }));
    else if (cell && cell !== "<none>") fact(name.toLowerCase(), element("span", { class: ["STATUS", "READY"].includes(name) ? `status ${row.level}` : "" }, cell));
  });
  if (row && ["bad", "busy"].includes(row.level)) fact("reason", element("span", { class: `status ${row.level}` }, row.w ?? ""));
  if (metadata.creationTimestamp) {
    fact("created", since(metadata.creationTimestamp, { after: ` ago (${new Date(metadata.creationTimestamp).toLocaleString()})` }));
  }
  if (metadata.deletionTimestamp) fact("being deleted", since(metadata.deletionTimestamp, { before: "for " }));
  fact("finalizers", (metadata.finalizers ?? []).join(", "));
  fact("message", object.status?.message ?? "");
  fact("uid", metadata.uid);
  fact("resource version", metadata.resourceVersion);
  made.append(facts);
  section(made, "Conditions", conditions(object.status?.conditions));
  section(made, "Containers", containers(object));
  section(made, "Labels", chips(metadata.labels));
  section(made, "Annotations", chips(metadata.annotations));
  return made;
}

function section(holder, title, content) {
  if (content) holder.append(element("h3", {}, title), content);
}

function chips(pairs) {
  const entries = Object.entries(pairs ?? {});
  if (!entries.length) return null;
  return element("ul", { class: "chips" }, ...entries.map(([key, value]) =>
    element("li", {}, element("span", { class: "quiet" }, `${key} `), String(value).length > 300 ? `${String(value).slice(0, 300)}…` : String(value))));
}

function containers(object) {
  const spec = object.spec?.containers ? object.spec : object.spec?.template?.spec ?? {}, status = object.status ?? {};
  const declared = [...list(spec.initContainers).map((container) => [container, "init"]), ...list(spec.containers).map((container) => [container, ""])];
  if (!declared.length) return null;
  const states = new Map([...list(status.initContainerStatuses), ...list(status.containerStatuses)].map((state) => [state.name, state]));
  return element("ul", { class: "lines" }, ...declared.map(([container, role]) => {
    const state = states.get(container.name), [word, more] = Object.entries(state?.state ?? {})[0] ?? [];
    const unready = word === "running" && !role && state.ready === false;
    const shown = unready ? "Running, not ready" : more?.reason ?? (word ? word.charAt(0).toUpperCase() + word.slice(1) : "");
    return element("li", {}, element("b", {}, container.name), role ? element("span", { class: "quiet" }, role) : null,
      element("code", {}, container.image ?? ""), element("span", { class: `status ${unready ? "busy" : meaning(shown)}` }, shown),
      more?.message ? element("p", { class: "quiet" }, more.message) : null, restarts(state));
  }));
}

// How often, of what and when a container ended before.
function restarts(state) {
  if (!state?.restartCount) return null;
  const times = `${state.restartCount} ${state.restartCount === 1 ? "restart" : "restarts"}`, last = state.lastState?.terminated;
  if (!last) return element("p", { class: "quiet" }, times);
  const why = [last.reason, last.signal ? `signal ${last.signal}` : `exit code ${last.exitCode}`].filter(Boolean).join(", ");
  return element("p", {}, `${times}, the last after `, element("b", { class: "status bad" }, why), " ",
    last.finishedAt ? since(last.finishedAt, { after: " ago" }) : "", last.message ? `: ${last.message}` : "");
}

// Most are good when they are true; those of nodes under pressure, and failures, when they are not.
const ILL_IF_TRUE = /Pressure$|Unavailable$|^(Failed|ReplicaFailure|FailureTarget|Stalled|Degraded|DisruptionTarget)$/;

function conditions(value) {
  if (!list(value).length) return null;
  return element("ul", { class: "lines conditions" }, ...value.map((condition) => {
    const well = (condition.status === "True") !== ILL_IF_TRUE.test(condition.type);
    return element("li", {}, element("b", {}, String(condition.type ?? "")),
      element("span", { class: `status ${condition.status === "Unknown" ? "busy" : well ? "good" : "bad"}` }, String(condition.status ?? "")),
      condition.lastTransitionTime ? element("span", { class: "quiet" }, since(condition.lastTransitionTime, { before: "for " })) : null,
      element("span", { class: "quiet" }, [condition.reason, condition.message].filter(Boolean).join(": ")));
  }));
}

function list(value) {
  return Array.isArray(value) ? value : [];
}
