// Liveness and keys. Every page works without this file.
"use strict";
(() => {
  const $ = (selector) => document.querySelector(selector);
  const storage = {
    get(name) { try { return localStorage.getItem(name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(name, value); } catch { /* storage may be off */ } },
  };

  const skew = Date.now() - Date.parse($("#live").dataset.now); // of this machine's clock

  // ---- theme
  const THEMES = ["auto", "light", "dark"];
  const theme = () => storage.get("inturn-theme") || "auto";
  function setTheme(name) {
    storage.set("inturn-theme", name);
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    decorate();
  }
  const nextTheme = () => setTheme(THEMES[(THEMES.indexOf(theme()) + 1) % 3]);

  // ---- page state that a swap must not disturb
  let state = "live", pending = false, gone = false;
  let unread = false; // the server had an error when the page was fetched again
  const paused = () => storage.get("inturn-paused") === "yes";
  function decorate() {
    const button = $("#theme"), help = $("#help"), status = $("#status");
    if (button) { button.hidden = false; button.textContent = `Theme: ${theme()}`; }
    if (help) { help.hidden = false; help.ariaLabel = "Keys"; }
    const shown = paused() ? "paused" : unread ? "delayed" : state;
    if (status) { status.dataset.state = shown; status.textContent = shown; }
    $("#apply").hidden = !pending;
    showAway();
  }
  // During an outage the page shows old data, so it must not look live.
  let awaySince = null;
  function showAway() {
    const banner = $("#away"), isAway = unread || state === "delayed";
    if (isAway) awaySince ??= new Date(Date.now() - skew).toISOString().slice(11, 19);
    else awaySince = null;
    banner.hidden = !isAway && !gone;
    document.body.classList.toggle("from-before", isAway || gone);
    const text = isAway ? `The database has not responded since ${awaySince}Z. This page shows its state at that time.`
      : gone ? "This no longer exists. The page shows its last known state." : "";
    if (banner.textContent !== text) banner.textContent = text;
  }
  let pressed = false; // nothing may move between the two halves of a click
  addEventListener("pointerdown", () => { pressed = true; }, true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { pressed = false; }, true);
  // Typed into a filter but not submitted.
  const hasTyped = () => [...document.querySelectorAll("#live .filters input")].some((each) => each.value !== each.defaultValue);
  function mustStay() {
    const active = document.activeElement;
    return paused() || Boolean(
      $("#live [data-still]") || pressed || $("dialog[open]") || $("details.action[open]") || $("#live tbody tr:hover") ||
      $("#live input[type=checkbox]:checked") || hasTyped() ||
      String(getSelection()) || (active && active.matches("#live input, #live select, #live textarea"))
    );
  }

  // ---- fetch the page again and morph it
  let fetching = false, asked = false;
  async function apply(isAsked = false) {
    asked ||= isAsked;
    if (fetching) { pending = true; return; }
    fetching = true; pending = false;
    try {
      await htmx.ajax("GET", location.href, { target: "#live", select: "#live", swap: "morph:outerHTML" });
    } finally {
      fetching = asked = false;
      decorate();
      offerAll();
      tick();
      showZone([...document.querySelectorAll(":hover")].at(-1)); // a hand at rest
      if (unread) pending = true; // in a second
      else if (pending) changed(); // what has happened since the page was read
    }
  }
  function changed() {
    if (document.hidden) { pending = true; return; }
    if (mustStay()) { pending = true; decorate(); } else apply();
  }
  // The user may have started something while the response was on its way.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const status = event.detail.xhr.status;
    if (status < 300) gone = status === 204;
    if (status >= 500) unread = true;
    else if (asked || !mustStay()) unread = false;
    if (asked || !mustStay()) return;
    event.detail.shouldSwap = false;
    pending = true;
  });
  function useMorph() {
    Object.assign(Idiomorph.defaults.callbacks, {
      // Keep the result of an action, which a refreshed page does not have.
      beforeNodeRemoved: (node) => node.id !== "result",
      // Keep what the user has expanded.
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
      // A panel that failed to load keeps its old content, greyed out.
      beforeNodeMorphed(old, fresh) {
        if (!(fresh instanceof Element) || !fresh.matches("[data-failed]") || old.matches("[data-failed]")) return true;
        const problem = fresh.querySelector(".problem");
        old.classList.add("stale");
        if (problem && !old.querySelector(".problem")) old.prepend(problem.cloneNode(true));
        return false;
      },
    });
  }

  // ---- the stream: shared by all tabs if the browser supports locks
  const channel = "BroadcastChannel" in window ? new BroadcastChannel("inturn" + $("#live").dataset.stream) : null;
  let source = null, polling = null, release = null;
  function setState(name) {
    state = name;
    decorate();
    if (name === "polling" && !polling) polling = setInterval(changed, 5000);
    if (name !== "polling" && polling) { clearInterval(polling); polling = null; }
  }
  function heard(name) {
    const missed = name === "hello" && state !== "live"; // what has happened meanwhile
    if (name === "hello" || name === "changed") setState("live");
    if (name === "delayed" || name === "polling" || (name === "waiting" && state !== "delayed")) setState(name);
    if (name === "changed" || missed) changed();
  }
  function tell(name) { heard(name); channel?.postMessage(name); }
  function open() {
    source = new EventSource($("#live").dataset.stream);
    for (const name of ["hello", "changed", "delayed"]) source.addEventListener(name, () => tell(name));
    source.onerror = () => {
      tell(source && source.readyState === EventSource.CLOSED ? "polling" : "waiting");
      if (source && source.readyState === EventSource.CLOSED) setTimeout(reopen, 30000);
    };
  }
  function shut() { source?.close(); source = null; }
  function reopen() { if (source && !document.hidden) { shut(); open(); } }
  function watch() {
    if (document.hidden || source || release) return;
    if (!navigator.locks || !channel) { open(); return; }
    const stop = new AbortController();
    release = () => stop.abort();
    navigator.locks.request("inturn" + $("#live").dataset.stream, { signal: stop.signal }, () => new Promise((done) => {
      release = done;
      open();
    })).catch(() => {});
  }
  function unwatch() { shut(); release?.(); release = null; }
  if (channel) channel.onmessage = (event) => heard(event.data);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { unwatch(); return; }
    watch();
    changed();
  });
  addEventListener("pagehide", unwatch);

  // ---- relative times tick
  const two = (number) => String(number).padStart(2, "0");
  function span(seconds) {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 60) return `${s}s`;
    if (s < 3600) return `${Math.floor(s / 60)}m${two(s % 60)}s`;
    if (s < 86400) return `${Math.floor(s / 3600)}h${two(Math.floor((s % 3600) / 60))}m`;
    return `${Math.floor(s / 86400).toLocaleString("en")}d${two(Math.floor((s % 86400) / 3600))}h`;
  }
  function tick() {
    if (document.hidden || String(getSelection())) return;
    const now = Date.now() - skew;
    for (const time of document.querySelectorAll("#live time[datetime]:not(.clock)")) {
      const passed = (now - Date.parse(time.dateTime)) / 1000;
      const text = passed >= 0 ? `${span(passed)} ago` : `in ${span(Math.ceil(-passed))}`;
      if (time.textContent !== text) time.textContent = text;
    }
  }

  // Texts are in UTC, so that two people can compare them. The tooltip has this browser's zone.
  const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  function showZone(under) {
    const time = under?.closest?.("#live time, #live text[data-at]");
    if (!time) return;
    const written = (time.dataset.at || time.dateTime || time.textContent).replace(" ", "T");
    const today = new Date(Date.parse($("#live").dataset.now)).toISOString().slice(0, 11);
    const at = new Date(written.includes("T") ? written : today + written);
    if (isNaN(at)) return;
    const title = `${local.format(at)}\n${at.toISOString()}`;
    const drawn = time.querySelector("title"); // the tooltip of what is in an SVG
    if (drawn) drawn.textContent = title;
    else time.title = title;
  }
  document.addEventListener("mouseover", (event) => showZone(event.target));

  // ---- selected rows, and bulk changes in progress
  const boxes = () => [...document.querySelectorAll('#live input[name="id"]')];
  let ticked = null;
  document.addEventListener("click", (event) => {
    const box = event.target.closest("#live input[type=checkbox]");
    if (!box) return;
    const all = boxes();
    if ("all" in box.dataset) all.forEach((each) => { each.checked = box.checked; });
    else if (event.shiftKey && all.includes(ticked)) {
      const ends = [all.indexOf(ticked), all.indexOf(box)].sort((a, b) => a - b);
      all.slice(ends[0], ends[1] + 1).forEach((each) => { each.checked = box.checked; });
    }
    ticked = box;
  });
  function offerAll() {
    for (const each of document.querySelectorAll("#live input[data-all], #live [data-copy]")) each.hidden = false;
  }
  setInterval(() => { if ($("#live [data-refresh]") && !document.hidden) changed(); }, 1000);

  // ---- keys
  const rows = () => [...document.querySelectorAll("#live .rows tbody tr")];
  function move(step) {
    const all = rows(), at = all.findIndex((row) => row.classList.contains("at"));
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    if (!next) return;
    all[at]?.classList.remove("at");
    next.classList.add("at");
    (next.querySelector("a") || next).focus();
    next.scrollIntoView({ block: "nearest" });
  }
  const KEYS = {
    "/": () => ($("[data-search]") || $("#live input"))?.focus(),
    x: () => $("#live tr.at input[name=id]")?.click(),
    j: () => move(1), k: () => move(-1), u: () => apply(true), t: nextTheme,
    p: () => { storage.set("inturn-paused", paused() ? "no" : "yes"); decorate(); if (!paused() && pending) apply(); },
    "?": () => $("#keys").showModal(),
  };
  let went = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || storage.get("inturn-keys") === "off") return;
    if (event.target.closest("input, select, textarea, dialog")) return;
    if (Date.now() - went < 1500) {
      went = 0;
      const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    if (event.key === "g") { went = Date.now(); return; }
    if (Object.hasOwn(KEYS, event.key)) { event.preventDefault(); KEYS[event.key](); }
  });
  document.addEventListener("click", (event) => {
    const id = event.target.closest("button")?.id;
    if (id === "theme") nextTheme();
    if (id === "help") $("#keys").showModal();
    if (id === "apply") apply(true);
    const copied = event.target.closest("[data-copy]");
    if (copied) copy(copied);
  });
  function copy(button) {
    const source = button.dataset.copy ? $(button.dataset.copy) : button.previousElementSibling;
    const text = source.textContent;
    const area = document.createElement("textarea");
    const done = () => { button.textContent = "Copied"; };
    if (navigator.clipboard) { navigator.clipboard.writeText(text).then(done, () => {}); return; }
    area.value = text; document.body.append(area); area.select(); // plain http has no clipboard
    if (document.execCommand("copy")) done();
    area.remove();
  }
  $("#keys-on").checked = storage.get("inturn-keys") !== "off";
  $("#keys-on").addEventListener("change", (event) => storage.set("inturn-keys", event.target.checked ? "on" : "off"));

  // ---- start
  const address = new URL(location.href);
  if (address.searchParams.has("done")) { // so that a reload does not repeat the message
    address.searchParams.delete("done"); address.searchParams.delete("n");
    history.replaceState(null, "", address);
  }
  useMorph();
  decorate();
  offerAll();
  watch();
  // What has happened under a hand that has left appears now.
  setInterval(() => { tick(); if (pending) changed(); }, 1000);
})();
