"use strict";
/* Draws the estimates, and asks for newer ones every two seconds. */
(() => {
  const EVERY = 2000; // milliseconds
  const ROW = 50, PAD = 9, FOOT = 26, TRAIL = 220, WIDE = 7.2; // pixels; the last is a letter's
  const FEW = 4; // points of a grid
  const find = (id) => document.getElementById(id);
  const source = find("state").dataset.from;
  const trails = new Map(); // question -> [{n, share, low, high}], as seen since the page was opened
  let shown = "", latest = null;

  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  const whole = (number) => number.toLocaleString("en");
  const short = (number) => String(Number(number.toPrecision(4)));

  async function update() {
    try {
      const answer = await fetch(source, { credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" });
      if (!answer.ok) throw new Error(answer.statusText);
      const text = await answer.text();
      tell(true);
      if (text !== shown) {
        shown = text;
        latest = JSON.parse(text);
        remember(latest);
        draw();
      }
    } catch {
      tell(false);
    }
  }

  function tell(reached) {
    find("live").classList.toggle("off", !reached);
    find("live").textContent = reached
      ? "Live: asks for new numbers every two seconds."
      : "The server cannot be reached. These are the last numbers it gave.";
  }

  /* Whose course is drawn: that of "Yes". */
  const followed = ({ kind, values }) => (kind === "yes-no" || kind === "two-coins" ? values.find(({ label }) => label === "Yes") : undefined);

  function remember({ n, enough, questions }) {
    if (!enough) return;
    for (const question of questions) {
      const value = followed(question), trail = trails.get(question.id) ?? [];
      if (!value) continue;
      if (trail.length && trail.at(-1).n >= n) trail.length = 0;
      trail.push({ n, share: value.share, low: value.low, high: value.high });
      trails.set(question.id, trail);
    }
  }

  function draw() {
    const { n, report_from, enough, message, questions } = latest;
    find("count").replaceChildren(node("b", {}, whole(n)), enough ? ` report${n === 1 ? "" : "s"}` : ` of ${whole(report_from)} reports: do not report yet`);
    find("message").textContent = enough ? `Each interval holds at ${level()} for those who took part.` : message;
    find("state").classList.toggle("notice", !enough);
    find("state").classList.toggle("stop", !enough);
    const open = new Set(Array.from(document.querySelectorAll("details[open]"), (one) => one.dataset.id));
    find("charts").replaceChildren(...(enough ? questions.map((question) => card(question, open)) : []));
  }

  function card(question, open) {
    const made = node("section", { class: "card", "aria-label": question.text });
    made.append(node("h2", {}, question.text));
    find("charts").append(made); // measured where it will stand
    const width = Math.max(240, made.clientWidth - 40);
    made.append(...charts(question, width));
    const trail = trails.get(question.id) ?? [];
    if (trail.length > 1) made.append(node("h3", {}, "“Yes” as reports came in"), course(trail, width));
    const notes = [question.note, `ε\u00a0=\u00a0${question.epsilon}.`, hostile(question)].filter(Boolean).join(" ");
    made.append(node("p", { class: "quiet" }, notes), table(question, open.has(question.id)));
    return made;
  }

  const level = () => latest.level;
  const hostile = ({ moved_by_one: moved }) => (moved ? `One respondent who sends what they like moves a share by at most ${(100 * moved).toFixed(1)} percentage points.` : "");

  const SHARES = { from: 0, to: 1, shown: percent, tick: (share) => `${100 * share}%` };

  /* The shares of all values; the mean of a number on the scale of its range. A grid of few points says little of a number. */
  function charts({ text, values, mean, points }, width) {
    const label = `Chart of the estimates for: ${text} The table below has the same numbers.`;
    if (!mean) return [bars(values, SHARES, width, label)];
    const grid = values.slice(0, -1).map((value) => Number(value.label)); // the last is "No answer"
    const range = { from: grid[0], to: grid.at(-1), shown: (number) => `${short(number)} ${mean.unit}`.trim(), tick: short };
    const row = { label: "Mean of those who answered", share: mean.mean, low: mean.low, high: mean.high };
    const made = [bars([row], range, width, `Chart of the mean for: ${text}`)];
    return points && grid.length > FEW ? [...made, bars(values, SHARES, width, label)] : made;
  }

  /* One row for each value: its name and numbers, below them the interval and the estimate on a scale. */
  function bars(rows, { from, to, shown: say, tick }, width, label) {
    const height = rows.length * ROW + FOOT;
    const x = (at) => PAD + (width - 2 * PAD) * Math.min(1, Math.max(0, (at - from) / (to - from)));
    const picture = plot(width, height, label);
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const at = from + part * (to - from), anchor = part === 0 ? "start" : part === 1 ? "end" : "middle";
      const place = part === 0 ? 0 : part === 1 ? width : x(at);
      picture.append(svg("text", { class: "tick", x: place, y: height - 6, "text-anchor": anchor }, tick(at)));
    }
    const ranges = rows.map(({ low, high }) => `${say(low)} to ${say(high)}`);
    const right = Math.max(...ranges.map((range) => range.length)) * WIDE + 10;
    rows.forEach(({ label: name, share, low, high }, i) => {
      const top = i * ROW, middle = top + 34, range = ranges[i];
      const roomy = name.length * WIDE < width - 60 - right, end = { y: top + 18, "text-anchor": "end" };
      picture.append(svg("text", { x: 0, y: top + 18 }, fit(name, width - 75)));
      picture.append(svg("text", { ...end, class: "number", x: roomy ? width - right : width }, say(share)));
      if (roomy) picture.append(svg("text", { ...end, class: "tick", x: width }, range));
      picture.append(svg("line", { class: "track", x1: x(from), x2: x(to), y1: middle, y2: middle }));
      picture.append(svg("line", { class: "range", x1: x(low), x2: x(high) + 0.01, y1: middle, y2: middle }));
      picture.append(svg("circle", { class: "point", cx: x(share), cy: middle, r: 6.5 }));
    });
    return picture;
  }

  /* The estimate and its interval over the number of reports. */
  function course(trail, width) {
    const left = 44, most = trail.at(-1).n, least = trail[0].n;
    const x = (n) => left + ((width - left - PAD) * (n - least)) / Math.max(1, most - least);
    const y = (share) => PAD + (TRAIL - PAD - FOOT) * (1 - Math.min(1, Math.max(0, share)));
    const picture = plot(width, TRAIL, `The share of yes from ${whole(least)} to ${whole(most)} reports, now ${percent(trail.at(-1).share)}.`);
    for (const share of [0, 0.5, 1]) {
      picture.append(svg("line", { class: "grid", x1: left, x2: width - PAD, y1: y(share), y2: y(share) }));
      picture.append(svg("text", { class: "tick", x: left - 6, y: y(share) + 4, "text-anchor": "end" }, `${100 * share}%`));
    }
    const line = (points) => points.map(([n, share]) => `${x(n).toFixed(1)} ${y(share).toFixed(1)}`).join("L");
    const band = [...trail.map(({ n, high }) => [n, high]), ...trail.map(({ n, low }) => [n, low]).reverse()];
    picture.append(svg("path", { class: "band", d: `M${line(band)}Z` }));
    picture.append(svg("path", { class: "trail", d: `M${line(trail.map(({ n, share }) => [n, share]))}` }));
    picture.append(svg("text", { class: "tick", x: left, y: TRAIL - 6 }, `${whole(least)} reports`));
    picture.append(svg("text", { class: "tick", x: width - PAD, y: TRAIL - 6, "text-anchor": "end" }, whole(most)));
    return picture;
  }

  function table({ id, text, values, mean }, open) {
    const made = node("details", { "data-id": id, ...(open ? { open: "" } : {}) });
    const rows = node("table", {}), head = node("tr", {}), body = node("tbody", {});
    for (const name of ["Answer", "Estimate", `${level()} from`, "to"]) head.append(node("th", { scope: "col" }, name));
    for (const { label, share, low, high } of values) {
      const row = node("tr", {});
      row.append(node("th", { scope: "row" }, label), ...[share, low, high].map((number) => node("td", {}, percent(number))));
      body.append(row);
    }
    if (mean) {
      const row = node("tr", {}), numbers = [mean.mean, mean.low, mean.high].map((number) => `${short(number)} ${mean.unit}`.trim());
      row.append(node("th", { scope: "row" }, "Mean of those who answered"), ...numbers.map((text) => node("td", {}, text)));
      body.append(row);
    }
    const top = node("thead", {});
    top.append(head);
    rows.append(node("caption", {}, text), top, body);
    const around = node("div", { class: "scroll" });
    around.append(rows);
    made.append(node("summary", {}, "As a table"), around);
    return made;
  }

  const fit = (label, width) => (label.length * WIDE > width ? `${label.slice(0, Math.max(3, Math.floor(width / WIDE) - 1))}…` : label);

  function node(name, attributes, text = "") {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  function svg(name, attributes, text = "") {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  const plot = (width, height, label) => svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });

  const link = find("form"); // its whole address, to be read from a wall
  if (link) link.textContent = link.href;
  let resized = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(() => latest && draw());
  });
  setInterval(() => document.hidden || update(), EVERY);
  addEventListener("visibilitychange", () => document.hidden || update());
  update();
})();
