// Keeps the page as the server has it. The server writes every section; this puts
// what has changed in its place, and leaves alone what has not: the focus, a
// selection, what a screen reader is reading, a table that was opened.
"use strict";

const quiet = 5000; // milliseconds between two announcements
const lost = 20000; // without a word for so long, the connection is taken for dead

let announced = words();
let announceAt = 0;
let announcing = 0;
let heard = Date.now();
let events = null;

function words() {
  return document.getElementById("verdict").textContent.trim().replace(/\s+/g, " ");
}

// patch makes one node like another, and says whether it could: of another kind it
// has to be replaced.
function patch(node, like) {
  if (node.nodeType !== like.nodeType || node.nodeName !== like.nodeName || key(node) !== key(like)) {
    return false;
  }
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== like.data) {
      node.data = like.data;
    }
    return true;
  }
  for (const { name } of [...node.attributes]) {
    if (!like.hasAttribute(name) && !(node.nodeName === "DETAILS" && name === "open")) {
      node.removeAttribute(name);
    }
  }
  for (const { name, value } of like.attributes) {
    if (node.getAttribute(name) !== value) {
      node.setAttribute(name, value);
    }
  }
  patchChildren(node, like);
  return true;
}

// patchChildren looks for each child by its key, so that a row that moves stays
// the row it was.
function patchChildren(node, like) {
  const keyed = new Map();
  for (const child of node.childNodes) {
    if (key(child)) {
      keyed.set(key(child), child);
    }
  }
  let at = node.firstChild;
  for (const wanted of [...like.childNodes]) {
    const found = keyed.get(key(wanted));
    if (found && found !== at) {
      node.insertBefore(found, at);
      at = found;
    }
    if (at && patch(at, wanted)) {
      at = at.nextSibling;
    } else {
      node.insertBefore(wanted, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function key(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

function show(sections) {
  for (const [name, text] of Object.entries(sections)) {
    const section = document.getElementById(name);
    if (section) {
      patchChildren(section, new DOMParser().parseFromString(text, "text/html").body);
    }
  }
  const verdict = document.getElementById("verdict").dataset;
  document.title = verdict.title;
  document.querySelector('link[rel="icon"]').setAttribute("href", verdict.ready === "true" ? "assets/ready.svg" : "assets/not-ready.svg");
  if (!announcing && words() !== announced) {
    announcing = setTimeout(announce, Math.max(0, announceAt + quiet - Date.now()));
  }
}

// announce tells a screen reader the verdict when it has changed, and nothing else.
function announce() {
  announcing = 0;
  if (words() !== announced) {
    announced = words();
    announceAt = Date.now();
    document.getElementById("announce").textContent = announced;
  }
}

function link(text) {
  const p = document.getElementById("link");
  p.hidden = text === "";
  if (p.textContent !== text) {
    p.textContent = text;
  }
}

function listen() {
  events = new EventSource("events");
  events.onmessage = (event) => {
    heard = Date.now();
    link("");
    show(JSON.parse(event.data));
  };
  events.onopen = () => {
    heard = Date.now();
  };
  events.onerror = () => {
    link("No connection to slotferry since " + new Date(heard).toLocaleTimeString() + ". What this page shows is as old. Trying again.");
  };
}

// A browser gives up on a server that refuses, and never notices one that is silent.
setInterval(() => {
  if (events.readyState === EventSource.CLOSED || (events.readyState === EventSource.OPEN && Date.now() - heard > lost)) {
    events.onerror();
    events.close();
    listen();
  }
}, 5000);

listen();
