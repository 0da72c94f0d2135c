// Small helpers: elements without markup, ages, sizes, and what a status word means.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const UNITS = [["y", 31536000], ["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

// As kubectl writes them: two units where the first is small.
export function age(seconds) {
  if (!(seconds >= 0)) return seconds > -2 ? "0s" : "";
  const whole = Math.floor(seconds);
  if (whole < 120) return `${whole}s`;
  for (let place = 0; place < UNITS.length - 1; place += 1) {
    const [unit, size] = UNITS[place], [smaller, small] = UNITS[place + 1];
    const count = Math.floor(whole / size);
    if (count >= 2 || (count === 1 && unit !== "m" && unit !== "h")) {
      const rest = Math.floor((whole % size) / small);
      return count < 10 && rest ? `${count}${unit}${rest}${smaller}` : `${count}${unit}`;
    }
  }
  return `${whole}s`;
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let place = 0;
  while (count >= 1000 && place < units.length - 1) { count /= 1000; place += 1; }
  return `${count >= 100 || place === 0 ? Math.round(count) : count.toFixed(1)} ${units[place]}`;
}

export const number = new Intl.NumberFormat("en");

const MEANINGS = {
  good: "Running Ready Active Bound Available True Healthy Complete watching",
  busy: "Pending ContainerCreating PodInitializing Creating Terminating Suspended Released Unknown listing starting backing_off",
  bad: "Failed Error CrashLoopBackOff ImagePullBackOff ErrImagePull NotReady OOMKilled Evicted Lost False "
    + "CreateContainerConfigError InvalidImageName RunContainerError StartError forbidden unauthorized absent stopped",
  over: "Completed Succeeded",
};
const MEANING = new Map(Object.entries(MEANINGS).flatMap(([kind, words]) => words.split(" ").map((word) => [word, kind])));

// good, busy, bad, over, or "" where a word says nothing of the kind.
export function meaning(word) {
  const first = String(word).split(",")[0];
  if (first.startsWith("Init:")) return /^\d/.test(first.slice(5)) ? "busy" : "bad";
  return MEANING.get(first) ?? "";
}

const PART = /^\s*(?:(!)\s*([\w./-]+)|([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)|([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)|([\w./-]+))\s*(?:,|$)/;

// A label selector as kubectl takes it, as a function of labels; throws where it cannot be read.
export function parseSelector(text) {
  const tests = [];
  let rest = text;
  while (rest.trim()) {
    const found = PART.exec(rest);
    if (!found) throw new Error(`cannot read “${rest.trim()}”`);
    const [whole, , absent, set, verb, list, equal, sign, value, present] = found;
    if (absent) tests.push((labels) => !Object.hasOwn(labels, absent));
    else if (set) {
      const values = new Set(list.split(",").map((one) => one.trim()));
      tests.push(verb === "in" ? (labels) => Object.hasOwn(labels, set) && values.has(labels[set]) : (labels) => !values.has(labels[set]));
    } else if (equal) {
      tests.push(sign === "!=" ? (labels) => labels[equal] !== value : (labels) => labels[equal] === value);
    } else tests.push((labels) => Object.hasOwn(labels, present));
    rest = rest.slice(whole.length);
  }
  return (labels) => tests.every((test) => test(labels ?? {}));
}
