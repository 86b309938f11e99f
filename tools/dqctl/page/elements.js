// Elements, words and names for the page of `dqctl serve`. Nothing here knows what the page shows.

// ---- elements

const SVG = 'http://www.w3.org/2000/svg';
const svgTags = new Set(['svg', 'path', 'line']);
const spoken = new Set(['title', 'aria-label', 'aria-valuetext', 'data-label']);

// Characters that could reorder or hide text are shown as escapes: a queue's name must not look like another one.
const unseen = new RegExp('[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e' +
  '\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]', 'g');
const escaped = (each) => '\\u' + each.charCodeAt(0).toString(16).padStart(4, '0');
export const visible = (text) => String(text).replace(unseen, escaped);

// An element. `on` has its event handlers, `key` its identity among its siblings. null and false: no such attribute.
export function el(tag, attributes, ...children) {
  const node = svgTags.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'on' || name === 'key') node[name] = value;
    else if (value == null || value === false) continue;
    else node.setAttribute(name, value === true ? '' : spoken.has(name) ? visible(value) : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue;
    node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

// Makes the children of `parent` equal to `nodes`, and keeps each node that has not changed.
export function patch(parent, nodes) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let place = parent.firstChild;
  for (const node of nodes) {
    const old = node.key !== undefined ? keyed.get(node.key) : place && place.key === undefined ? place : null;
    if (!old || old.nodeName !== node.nodeName) {
      parent.insertBefore(node, place);
      continue;
    }
    keyed.delete(node.key);
    if (old === place) place = place.nextSibling;
    else parent.insertBefore(old, place);
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== node.data) old.data = node.data;
      continue;
    }
    old.on = node.on;
    for (const { name } of [...old.attributes]) if (!node.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    patch(old, [...node.childNodes]);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

// A row that moves in its table loses the focus, and so does a field whose form is replaced by one of the same fields.
export function patchKeepingFocus(parent, nodes) {
  const focused = document.activeElement;
  patch(parent, nodes);
  const wanted = focused.isConnected ? focused : focused.name && parent.querySelector(`[name="${focused.name}"]`);
  if (wanted && wanted !== document.activeElement) wanted.focus({ preventScroll: true });
}

for (const type of ['click', 'input', 'change', 'submit', 'pointermove', 'pointerleave', 'keydown']) {
  document.addEventListener(type, (event) => {
    for (let node = event.target; node; node = node.parentNode) {
      if (node.on && node.on[type]) return node.on[type](event, node);
    }
  }, true);
}

// ---- words and figures

const figures = new Intl.NumberFormat('en');
export const number = (value) => (value == null ? '–' : figures.format(value));
export const plural = (count, one) => `${number(count)} ${one}${count === 1 ? '' : 's'}`;

export function perMinute(perSecond) {
  if (perSecond == null) return '–';
  const value = perSecond * 60;
  return value > 0 && value < 10 ? value.toFixed(1) : number(Math.round(value));
}

// 850 ms, 12 s, 4 min, 3 h 20 min, 1 d 4 h, 12 d.
export function duration(ms) {
  if (ms == null) return '–';
  if (ms < 0) return '−' + duration(-ms);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 48) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  const days = Math.floor(h / 24);
  return days < 10 && h % 24 ? `${days} d ${h % 24} h` : `${number(days)} d`;
}

export function bytes(count) {
  if (count < 1024) return plural(count, 'byte');
  const units = ['KiB', 'MiB', 'GiB'];
  let value = count / 1024;
  while (value >= 1024 && units.length > 1) {
    value /= 1024;
    units.shift();
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[0]}`;
}

export const clock = (date) => date.toISOString().slice(11, 19);

// ---- names

const unreserved = /[A-Za-z0-9_.~-]/;
const encodeByte = (byte) => {
  const letter = String.fromCharCode(byte);
  return byte < 128 && unreserved.test(letter) ? letter : '%' + byte.toString(16).padStart(2, '0').toUpperCase();
};
export const encodeBytes = (data) => [...data].map(encodeByte).join('');
export const fromBase64 = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));

// Bytes as text; those that are not UTF-8 as \xff.
export function printable(data) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return [...data].map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte)
      : '\\x' + byte.toString(16).padStart(2, '0'))).join('');
  }
}

// The start of a text, and … if that is not all. No character is cut in two.
export function shortened(text, most) {
  const letters = [...text];
  return letters.length > most ? letters.slice(0, most).join('') + '…' : text;
}

// A text field of a document, which is in <name>_base64 if it is not UTF-8.
export function textOf(object, name) {
  if (typeof object[name] === 'string') return object[name];
  const base64 = object[name + '_base64'];
  return typeof base64 === 'string' ? printable(fromBase64(base64)) : '';
}

// The address of a queue in URLs: its bytes, percent-encoded in one way only, so that addresses can be compared.
export const addressOfText = (text) => encodeBytes(new TextEncoder().encode(text));
export const addressOf = (row) => (typeof row.queue === 'string' ? addressOfText(row.queue)
  : encodeBytes(fromBase64(row.queue_base64 || '')));

export function bytesOfAddress(address) {
  const parts = address.match(/%[0-9a-f]{2}|[^%]+|%/gi) || [];
  return Uint8Array.from(parts.flatMap((part) => (/^%../.test(part) ? [parseInt(part.slice(1), 16)]
    : [...new TextEncoder().encode(part)])));
}

// A browser removes the parts . and .. from a path, so the server takes them with a ~ in front.
export const pathPart = (address) => address.replace(/^~*\.\.?$/, '~$&');
export const queuePath = (address) => `api/queues/${pathPart(address)}`;
export const isUuid = (text) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
