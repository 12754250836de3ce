// The console: every change is a POST of JSON with the session's CSRF token; nothing is paid for except by `ask`.
const $ = (id) => document.getElementById(id);
const post = async (path, body, headers = {}) => {
  const answer = await fetch(path, {
    method: "POST",
    credentials: "same-origin",
    headers: {"content-type": "application/json", "x-lapwing-csrf": document.body.dataset.csrf, ...headers},
    body: JSON.stringify(body),
  });
  const found = await answer.json().catch(() => ({}));
  if (answer.status === 401 && found.code === "signed-out") location.assign("/console/sign-in");
  return {ok: answer.ok, status: answer.status, found};
};
const problem = (text) => { const box = $("problem"); box.textContent = text; box.hidden = !text; };
const words = (found) => [found.refused ?? found.detail ?? found.why ?? "The server did not answer.", found.instead].filter(Boolean).join(" ");

if ($("sign-out")) $("sign-out").addEventListener("click", async () => {
  const {found} = await post("/console/sign-out", {});
  try { localStorage.clear(); } catch { /* nothing was stored */ }  // it holds this person's questions
  location.assign(found.next ?? "/console/sign-in");
});

const signIn = async (body) => {
  const {ok, found} = await post("/console/sign-in", body);
  if (ok) return location.replace(found.next);
  problem(body.code ? "This link was used before or has expired. Sign in with your token." : "This token is not valid. Check it, or ask your steward for a new one.");
};
if ($("sign-in")) {
  if (location.hash.startsWith("#code=")) signIn({code: location.hash.slice(6)});
  $("sign-in").addEventListener("submit", (event) => { event.preventDefault(); signIn({token: $("token").value.trim()}); });
}

if ($("people")) $("people").addEventListener("submit", async (event) => {
  event.preventDefault();
  problem("");
  const {ok, status, found} = await post("/console/people", Object.fromEntries(new FormData($("people"))));
  if (!ok) return problem(status === 401 ? "That is not your own steward's token." : words(found));
  $("made").hidden = false;
  $("made").textContent = found.token ? `Token, shown once: ${found.token}` : "Done. Reload the page to see it.";
  $("confirm").value = "";
});

// A question stands after # in the address, which no server sees.
const memory = {};  // for a browser that stores nothing
const keep = (name, value) => { memory[name] = JSON.stringify(value); try { localStorage.setItem(name, memory[name]); } catch { /* it is full, or forbidden */ } };
const kept = (name) => { try { return JSON.parse(localStorage.getItem(name) ?? memory[name] ?? "null"); } catch { return JSON.parse(memory[name] ?? "null"); } };
const forget = (name) => { delete memory[name]; try { localStorage.removeItem(name); } catch { /* nothing was stored */ } };
// A question has one key until its reply is here, also in other tabs and after a reload: it is charged once.
const keyOf = (text) => {
  const last = kept(`k:${text}`);
  const used = last && Date.now() - last.at < 9e5 ? last : {key: crypto.randomUUID(), at: Date.now()};
  keep(`k:${text}`, used);
  return used.key;
};
const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
const address = (body) => `/console#${encodeURIComponent(JSON.stringify(body))}`;

if ($("again")) {
  const body = kept(`q:${$("again").dataset.release}`);
  if (body) $("again").href = address(body); else $("again").hidden = true;
  if ($("sharper")) {
    if (!body) $("sharper").hidden = true;
    else {
      $("sharper").textContent = `Sharper: +${(100 * body.share).toPrecision(2)} % of the budget`;
      $("sharper").addEventListener("click", () => pay({...body, refresh: true, combine: true}, $("sharper")));
    }
  }
}

// Pays at most the price of a preview; whether that has to be seen anew.
async function pay(body, button, preview) {
  button.disabled = true;
  problem("");
  $("said").textContent = "Waiting for the answer.";
  const text = JSON.stringify(body), key = keyOf(text);
  let code = "";
  for (let tries = 0; ; tries += 1) {
    try {
      const {ok, found} = await post(`/console/ask${preview ? `?preview=${preview}` : ""}`, body, {"idempotency-key": key});
      code = found.code;
      if (code === "key-running" && tries < 60) { await pause(1); continue; }
      if (!["key-running", "still-running", "busy", "rate-limited", "bug", undefined].includes(code) || ok) forget(`k:${text}`);
      if (ok) {
        const {refresh, combine, ...plain} = body;
        keep(`q:${found.release}`, plain);
        return location.assign(`/console/answers/${found.release}`);
      }
      problem(words(found));
      break;
    } catch (lost) {  // the connection was lost: the same key never pays twice
      if (tries >= 3) { problem("The server cannot be reached. Try again: the same question with the same key is charged once."); break; }
      await pause(2 ** tries);
    }
  }
  button.disabled = false;
  $("said").textContent = "";
  return code === "preview-changed";
}

if ($("editor")) {
  const {makeEditor} = await import("/console/static/editor.js");
  const box = $("editor"), line = $("line"), button = $("ask");
  const opened = (() => { try { return JSON.parse(decodeURIComponent(location.hash.slice(1))); } catch { return null; } })() ?? {};
  const share = () => 0.002 * 250 ** ($("share").value / 100);  // from 0.2 % to 50 %
  if (opened.share) $("share").value = String(Math.round(100 * Math.log(opened.share / 0.002) / Math.log(250)));
  // Of a link only what the page shows is taken: the question, its price, and that facts are found privately.
  let terms = Object.fromEntries(["limits", "bounds"].filter((name) => opened[name] === "auto").map((name) => [name, "auto"]));
  let timer = 0, newest = 0, fix = {}, running = false, preview;
  const editor = makeEditor({
    parent: box, text: String(opened.sql ?? ""), nonce: document.body.dataset.nonce, schema: JSON.parse(box.dataset.schema),
    onChange: () => { terms = {}; changed(); }, onRun: () => { if (!button.disabled) button.click(); },
  });
  const body = () => ({sql: editor.text, share: Number(share().toPrecision(3)), ...terms});
  const same = () => JSON.stringify(body());

  function changed() {
    line.classList.add("old");
    button.disabled = true;
    clearTimeout(timer);
    timer = setTimeout(ask, 400);
  }
  async function ask() {
    const asked = same(), number = ++newest;
    history.replaceState(null, "", editor.text ? address(JSON.parse(asked)) : "/console");
    if (!editor.text.trim()) return show({line: "Write a question to see its price."});
    if (running) return changed();
    running = true;
    let seen;
    try { seen = (await post("/console/preview", JSON.parse(asked))).found; } catch { seen = {refused: "The server cannot be reached."}; }
    running = false;
    if (number === newest && asked === same()) show(seen);
  }
  function show(seen) {
    const bad = seen.refused !== undefined || seen.detail !== undefined;
    line.textContent = (bad ? seen.refused ?? seen.detail : seen.line).replaceAll("`", "");
    preview = seen.preview;
    line.classList.remove("old");
    line.classList.toggle("bad", bad);
    $("notes").replaceChildren(...[...(seen.notes ?? []), ...(bad && seen.instead ? [seen.instead.replaceAll("`", "")] : [])].map((note) => {
      const item = document.createElement("li");
      item.textContent = note;
      return item;
    }));
    button.disabled = bad || !seen.button || seen.fits === false;
    button.textContent = seen.button ?? "Answer";
    if (seen.fits === false) line.textContent += " That is more than is left.";
    underline(bad ? seen.part : null);
    offer(seen);
    $("ghost").hidden = !seen.ghost;
    if (seen.ghost) {
      $("drawing").replaceChildren(document.importNode(new DOMParser().parseFromString(seen.ghost, "image/svg+xml").documentElement, true));
      $("caption").textContent = seen.ghost_says;
    }
  }
  function underline(part) {
    const named = part?.match(/`([^`]+)`/)?.[1] ?? part;
    const at = named ? editor.text.toLowerCase().indexOf(named.toLowerCase()) : -1;
    editor.underline(at < 0 ? null : at, at + (named?.length ?? 0));
  }
  function offer(seen) {
    const near = seen.instead?.match(/Did you mean `([^`]+)`/)?.[1], wrong = seen.part?.match(/`([^`]+)`/)?.[1];
    fix = Object.keys(seen.terms ?? {}).length ? {terms: seen.terms} : near && wrong ? {from: wrong, to: near} : {};
    $("fix").hidden = !Object.keys(fix).length;
    $("apply").textContent = fix.terms ? "Find what is missing privately, for a share of the price" : `Write ${near}`;
  }
  $("apply").addEventListener("click", () => {
    if (fix.terms) { terms = {...terms, ...fix.terms}; changed(); editor.focus(); }
    else if (fix.from) {
      const word = fix.from.replace(/[^A-Za-z0-9_]/g, "\\$&");
      editor.text = editor.text.replace(new RegExp(`(?<![A-Za-z0-9_])${word}(?![A-Za-z0-9_])`, "gi"), () => fix.to);
      editor.focus();
    }
  });
  $("share").addEventListener("input", changed);
  button.addEventListener("click", async () => { if (await pay(body(), button, preview)) changed(); });
  box.addEventListener("leave", () => $("share").focus());
  for (const one of document.querySelectorAll(".insert")) one.addEventListener("click", () => editor.insert(one.dataset.insert));
  if (opened.sql) ask();
}

if ($("setup")) {
  const form = $("setup"), place = form.dataset.place;
  let timer = 0;
  const told = () => ({
    ...Object.fromEntries(new FormData(form)),
    columns: Object.fromEntries([...form.querySelectorAll("[data-column]")].map((box) => [
      box.dataset.column,
      Object.fromEntries([...box.querySelectorAll("[data-fact]")].map((field) => [field.dataset.fact, field.value])),
    ])),
  });
  const draft = async () => {
    if (!$("unit").value) return;
    const {found} = await post(`${place}/draft`, told());
    problem(found.problem ?? "");
    $("save").disabled = Boolean(found.problem);
    if (found.problem) return;
    $("diff").textContent = found.diff;
    $("noise").replaceChildren(...found.noise.map((line) => Object.assign(document.createElement("li"), {textContent: line})));
  };
  form.addEventListener("input", () => { $("save").disabled = true; clearTimeout(timer); timer = setTimeout(draft, 400); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const {found} = await post(`${place}/save`, told());
    if (found.problem) return problem(found.problem);
    form.replaceChildren(Object.assign(document.createElement("p"), {className: "notice", textContent: `Wrote ${found.saved}. You can close this page.`}));
  });
  draft();
}
