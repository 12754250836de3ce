"use strict";
/* The form. It randomizes once, when it is sent; it stores the randomized report before it sends it, and never an answer. */
(() => {
  const SETTLE = 1000; // milliseconds after which two tabs have seen each other's writing: a lock alone does not carry it over
  const SLOWEST = 30000; // milliseconds to wait for the server
  const ALLOWED = /^[a-z2-7]{26}$/; // an invitation
  const find = (id) => document.getElementById(id);
  const survey = JSON.parse(find("description").textContent);
  const invitation = survey.invitations ? location.hash.slice(1) : "";
  const key = `lapwing:${survey.survey}:${invitation}`;
  const OPEN = survey.questions.some(({ odds }) => odds.truth >= 90); // what is sent is nearly always the answer
  let form = null;
  let sending = false;

  const NO_SCRIPT = ["This page is damaged", "The script that randomizes did not load as published, so nothing can be sent. Reload the page, or tell who runs the survey."];
  const NO_RANDOMNESS = ["This browser has no secure randomness", "Without it nobody could hide your answers, so nothing can be sent. Use a newer browser."];
  const NO_STORAGE = ["This browser keeps nothing", "It would send a new report at every visit, and many reports together reveal an answer. So nothing can be sent. Allow this page to store data, or leave the private window."];
  const NO_INVITATION = ["You need an invitation", "Open this page by the whole link that you were sent. It ends with a # and 26 letters and digits."];
  const DAMAGED = ["What this device kept is damaged", "It may have answered before, so nothing is sent. Tell who runs the survey, or use another device."];
  const WAITING = ["Your report is on its way", "It was randomized and stored on this device. Please wait a moment."];
  const UNSENT = ["Your report has not arrived", "It is kept on this device. Try again: the same report is sent, not a new one."];
  const SENT = ["Thank you, your report has arrived", `It was randomized on this device, ${OPEN ? "but little is hidden where the odds were high" : "so nobody can be sure what you answered"}. The first answer stands: if you come back, nothing new is sent, as long as this browser keeps its data.`];
  const EARLIER = ["This device has answered before", "The first answer stands. What you marked now was not used: the report from before was sent again."];

  function start() {
    const fault = missing();
    if (fault) return show(fault, { stop: true });
    const kept = read();
    if (kept === undefined) return show(DAMAGED, { stop: true });
    if (kept) return showKept(kept, kept.sent ? SENT : UNSENT);
    ask();
  }

  /* Why nothing can be sent from here, if so. */
  function missing() {
    if (typeof lapwing === "undefined") return NO_SCRIPT;
    try {
      lapwing.drawWords(2);
    } catch {
      return NO_RANDOMNESS;
    }
    try {
      localStorage.setItem("lapwing:try", "1");
      if (localStorage.getItem("lapwing:try") !== "1") return NO_STORAGE;
      localStorage.removeItem("lapwing:try");
    } catch {
      return NO_STORAGE;
    }
    return survey.invitations && !ALLOWED.test(invitation) ? NO_INVITATION : null;
  }

  /* The report that this device made: null if there is none yet, undefined if it cannot be read. */
  function read() {
    const text = localStorage.getItem(key);
    if (text === null) return null;
    try {
      const { nonce, report, sent } = JSON.parse(text);
      const whole = /^[0-9a-f]{32}$/.test(nonce) && /^[0-9a-f]*$/.test(report) && report.length === 2 * survey.report_bytes;
      return whole ? { nonce, report, sent: sent === true } : undefined;
    } catch {
      return undefined;
    }
  }

  const write = (kept) => localStorage.setItem(key, JSON.stringify(kept));

  /* Makes the report of this device unless there is one. Of two tabs that try at once, both go on with the same one. */
  async function settle(answers) {
    const make = () => {
      if (read() !== null) return;
      const report = lapwing.randomize(survey, answers, lapwing.drawWords(survey.words));
      write({ nonce: lapwing.drawNonce(), report, sent: false });
    };
    const pause = () => new Promise((done) => setTimeout(done, SETTLE));
    if (navigator.locks) {
      await new Promise((done, failed) => {
        navigator.locks.request(key, async () => {
          make();
          done();
          await pause(); // this tab goes on; the next one waits
        }).catch(failed);
      });
    } else {
      make();
      await pause();
    }
    return read();
  }

  async function submit(event) {
    event.preventDefault();
    if (sending) return;
    const answers = collect();
    if (!answers) return;
    sending = true;
    const before = read();
    show(WAITING, {});
    let kept = null;
    try {
      kept = await settle(answers);
    } catch {
      return show(NO_STORAGE, { stop: true });
    } finally {
      sending = false;
    }
    if (!kept) return show(kept === null ? NO_STORAGE : DAMAGED, { stop: true });
    await send(kept, before ? EARLIER : SENT);
  }

  /* Sends what is stored. Once and again, the body is the same. */
  async function send(kept, done) {
    if (sending) return;
    sending = true;
    show(WAITING, {});
    const body = JSON.stringify({ survey: survey.survey, nonce: kept.nonce, report: kept.report, invitation });
    let status, message;
    const patience = new AbortController(), clock = setTimeout(() => patience.abort(), SLOWEST);
    try {
      const answer = await fetch(survey.post, {
        method: "POST",
        body,
        headers: { "Content-Type": "text/plain;charset=UTF-8" },
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        redirect: "error",
        signal: patience.signal,
      });
      ({ status, message } = await answer.json());
    } catch {
      message = "The server could not be reached.";
    } finally {
      clearTimeout(clock);
      sending = false;
    }
    if (status === "stored" || status === "already") {
      try {
        write({ ...kept, sent: true });
      } catch {
        // it stays marked as unsent, and is sent again with the same nonce
      }
      return showKept({ ...kept, sent: true }, done);
    }
    showKept(kept, [UNSENT[0], `${message ?? "The server gave no reason."} ${UNSENT[1]}`]);
  }

  /* What is marked, as whole numbers; null after pointing to a number that is none. */
  function collect() {
    const answers = Object.create(null);
    let wrong = null;
    for (const field of form.querySelectorAll("fieldset")) {
      const question = survey.questions.find(({ id }) => id === field.dataset.id);
      const text = field.querySelector("input[type=text]");
      if (text) {
        const number = readNumber(text.value, question.number);
        const fault = number === undefined ? faultOf(question.number) : "";
        field.querySelector(".fault").textContent = fault;
        text.setAttribute("aria-invalid", String(fault !== ""));
        if (fault) wrong ??= text;
        answers[question.id] = number ?? null;
      } else {
        const marked = Array.from(field.querySelectorAll("input:checked"), (input) => input.value);
        answers[question.id] = question.kind === "several" ? mask(marked) : marked[0] ? Number(marked[0]) : null;
      }
    }
    wrong?.focus();
    return wrong ? null : answers;
  }

  const mask = (marked) => (marked.length ? marked.filter((one) => one !== "none").reduce((sum, one) => sum + 2 ** one, 0) : null);

  /* Whole steps from the lower end; null if nothing is written, undefined if it is no number of the range. */
  function readNumber(text, { low, high, step, steps }) {
    const written = text.trim().replace(",", ".");
    if (written === "") return null;
    const thousands = /^[+-]?\d{1,3}[.,]\d{3}$/.test(text.trim()) && (text.includes(",") || Number.isInteger(Number(step)));
    if (thousands) return undefined; // 1,000 may be one or a thousand
    const number = /^[+-]?(\d+\.?\d*|\.\d+)$/.test(written) ? Number(written) : NaN;
    const along = (number - Number(low)) / Number(step), nearest = Math.round(along);
    const fits = number >= Number(low) && number <= Number(high) && Math.abs(along - nearest) < 1e-6;
    return fits ? Math.min(Math.max(nearest, 0), steps) : undefined;
  }

  function faultOf({ low, high, step, unit }) {
    const by = step === "1" ? "a whole number" : `a number in steps of ${step}`;
    return `Write ${by} from ${low} to ${high}${unit ? ` (${unit})` : ""}, or leave it empty.`;
  }

  /* What a report says, in words. */
  function inWords(report) {
    let used = 0;
    return survey.questions.map((question) => {
      const { bytes } = question.program;
      const pairs = report.slice(2 * used, 2 * (used += bytes)).match(/../g);
      const number = pairs.reduceRight((sum, pair) => sum * 256n + BigInt(`0x${pair}`), 0n);
      return [question.text, said(question, number)];
    });
  }

  function said({ kind, options, number, program }, report) {
    const { op, symbols } = program, place = Number(report);
    const none = "no answer";
    const marked = (many, set) => Array.from({ length: many }, (_, i) => i).filter((i) => (set >> BigInt(i)) & 1n);
    if (op === "bits") return marked(symbols, report).map((i) => options[i] ?? none).join(" / ") || "nothing marked";
    if (op === "option") {
      const item = Math.floor(place / symbols), symbol = place % symbols;
      if (item === program.options) return symbol ? none : "answered";
      return `${options[item]}: ${["no", "yes", none][symbol]}`;
    }
    if (op !== "coins" && place === symbols - 1) return none;
    if (op === "rounded") {
      const low = Number(number.low), point = low + ((Number(number.high) - low) * place) / (program.points - 1);
      return `${Number(point.toPrecision(6))} ${number.unit}`.trim();
    }
    if (kind === "several") return marked(options.length, report).map((i) => options[i]).join(" + ") || "none of these";
    return options[place];
  }

  function ask() {
    find("state").hidden = true;
    if (form) return;
    find("state").after(find("questions").content.cloneNode(true));
    form = document.querySelector("form");
    form.addEventListener("submit", submit);
    form.addEventListener("keydown", (event) => {
      // what is sent stands: only the button sends
      if (event.key === "Enter" && event.target.matches("input")) event.preventDefault();
    });
    form.addEventListener("change", ({ target }) => {
      if (target.type !== "checkbox" || !target.checked) return;
      for (const other of target.closest("fieldset").querySelectorAll("input")) {
        if ((other.value === "none") !== (target.value === "none")) other.checked = false;
      }
    });
  }

  /* The answers are gone from the page before anything is sent. */
  function leaveForm() {
    form?.reset();
    form?.remove();
    form = null;
  }

  function show([title, text], { stop = false, kept = null }) {
    leaveForm();
    const state = find("state");
    state.hidden = false;
    state.classList.toggle("stop", stop);
    find("state-title").textContent = title;
    find("state-text").textContent = text;
    find("left").hidden = !kept;
    find("again").hidden = !kept;
    if (!kept) return;
    find("left-words").replaceChildren(...inWords(kept.report).map(([text, words]) => {
      const item = document.createElement("li"), answer = document.createElement("b");
      answer.textContent = words;
      item.append(`${text} `, answer);
      return item;
    }));
    find("left-bytes").textContent = `${kept.report} (${survey.report_bytes} byte${survey.report_bytes > 1 ? "s" : ""})`;
    find("again").textContent = kept.sent ? "Send the same report again" : "Try again";
    find("again").classList.toggle("second", kept.sent);
    find("again").onclick = () => send(kept, SENT);
    state.focus();
  }

  const showKept = (kept, words) => show(words, { stop: !kept.sent, kept });

  /* Another tab answered: its answer stands here too. */
  addEventListener("storage", ({ key: changed }) => {
    if (changed !== key || sending || missing()) return;
    const kept = read();
    if (kept) showKept(kept, kept.sent ? SENT : UNSENT);
  });
  addEventListener("pagehide", () => form?.reset());
  addEventListener("pageshow", ({ persisted }) => persisted && !sending && start());
  addEventListener("hashchange", () => location.reload());
  find("plain").hidden = isSecureContext;
  start();
})();
