// The page of `dqctl serve`: shows queues, messages and workers, and changes them if the server allows it.
//
// No library. Every text from the server becomes a text node (el), so a name or payload cannot become markup.
// A view is drawn again from the newest data and patched into the document (patch), so that focus, selection and
// scroll position stay while figures change.

import {
  visible, el, patch, patchKeepingFocus, number, plural, perMinute, duration, bytes, clock, encodeBytes,
  fromBase64, printable, shortened, textOf, addressOfText, addressOf, bytesOfAddress, pathPart, queuePath, isUuid,
} from './elements.js';

const byId = (id) => document.getElementById(id);
const setText = (id, text) => patch(byId(id), [document.createTextNode(visible(text))]);
const dialog = byId('ask');

// ---- times

// Times are in UTC, as in dqctl and in most logs; the day only if it is another than today's.
function timeParts(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return [String(text)];
  const [day, today] = [date, new Date(serverNow())].map((each) => each.toISOString().slice(0, 10));
  return [...(day === today ? [] : [day]), `${clock(date)}Z`];
}

const timeText = (text) => timeParts(text).join(' ');

// "03:12:07Z, 4 min ago". Ages count by the server's clock: that of this computer may be wrong. In a narrow cell a line
// ends only between day, time and age.
function time(text) {
  if (!text) return '–';
  const ago = serverNow() - new Date(text).getTime();
  if (Number.isNaN(ago)) return String(text);
  const words = Math.abs(ago) < 1000 ? 'now' : ago > 0 ? `${duration(ago)} ago` : `in ${duration(-ago)}`;
  const parts = [...timeParts(text).map((each, i, all) => (i === all.length - 1 ? `${each},` : each)), words];
  return el('time', { datetime: text, title: text }, parts.map((each, i) => [i > 0 && ' ', span('unbroken', each)]));
}

// ---- tables and charts

// Columns: {id, label, cell(row), figure, sort(row), wide, row}. `row` marks the column that names the row. The roles
// are explicit because a narrow window shows rows as blocks, and then browsers no longer see a table.
function table({ label, columns, rows, keyOf, sort, setSort }) {
  const head = columns.map((column) => {
    const order = sort && sort.id === column.id ? (sort.down ? 'descending' : 'ascending') : 'none';
    const onClick = () => setSort(column);
    const text = !column.sort || !sort ? column.label
      : el('button', { type: 'button', on: { click: onClick } }, column.label);
    return el('th', { scope: 'col', role: 'columnheader', 'aria-sort': column.sort && sort && order,
      class: column.figure && 'figure' }, text);
  });
  const cells = (row) => columns.map((column) => {
    const value = column.cell(row);
    const zero = column.figure && (value === '0' || value === '–');
    const classes = [column.figure && 'figure', column.wide && 'wide', zero && 'zero', column.class].filter(Boolean);
    const attributes = { class: classes.join(' ') || null };
    return column.row ? el('th', { scope: 'row', role: 'rowheader', ...attributes }, value)
      : el('td', { role: 'cell', 'data-label': column.label, ...attributes }, value);
  });
  const body = rows.map((row, index) => el('tr', { role: 'row', key: keyOf ? keyOf(row) : index }, cells(row)));
  return el('table', { role: 'table', 'aria-label': label },
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, head)), el('tbody', { role: 'rowgroup' }, body));
}

// The rows in the order of a column; unknown values are last in both directions.
function sorted(rows, columns, sort) {
  const column = columns.find((each) => each.id === sort.id && each.sort);
  if (!column) return rows;
  const turn = sort.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [column.sort(a), column.sort(b)];
    if (x == null) return y == null ? 0 : 1;
    if (y == null) return -1;
    return turn * (typeof x === 'string' ? x.localeCompare(y) : x - y);
  });
}

// The d of a path over a box of 100 x 100. A value or minute that is missing is a gap in the line.
function pathOf(times, values, from, to, most) {
  const points = [];
  let pen = 'M';
  times.forEach((at, i) => {
    if (values[i] == null || (i > 0 && at - times[i - 1] > 100e3)) pen = 'M';
    if (values[i] == null) return;
    const x = (100 * (at - from)) / Math.max(to - from, 1);
    points.push(`${pen}${x.toFixed(2)} ${(100 - (100 * values[i]) / most).toFixed(2)}${pen === 'M' ? 'h.01' : ''}`);
    pen = 'L';
  });
  return points.join('');
}

const known = (values) => values.filter((value) => value != null);

// A line of the last hour in a table's cell, and the same in words.
function spark(times, values) {
  const numbers = known(values);
  if (numbers.length < 2) return quiet('–');
  const most = Math.max(...numbers);
  const words = `waiting: ${number(numbers.pop())} now, at most ${number(most)} in the last hour`;
  return el('svg', { class: 'spark', viewBox: '0 -4 100 108', preserveAspectRatio: 'none', role: 'img',
    'aria-label': words },
    el('path', { class: 's1', d: pathOf(times, values, times[0], times.at(-1), most || 1) }));
}

// The least of 1, 2, 5, 10, 20, 50 ... that is not below the value: the top of a scale.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value);
}

const pointed = new Map();  // the index in a chart that the pointer or the arrow keys have chosen, by the chart's title

// A chart of several lines: {name, kind, values}. The legend has the newest values, or those of the time that the
// pointer or the arrow keys choose.
function chart(title, times, series) {
  if (times.length < 2) return el('figure', { key: title }, el('h3', {}, title),
    p('quiet', 'No history yet: it begins when dqctl serve starts.'));
  const last = times.length - 1;
  const [from, to] = [times[0], times[last]];
  const most = roundUp(Math.max(...series.flatMap((each) => known(each.values)), 0));
  // The newest minute may have no figure yet.
  const newest = Math.max(0, times.findLastIndex((each, i) => series.some((line) => line.values[i] != null)));
  const chosen = pointed.get(title);
  const at = chosen === undefined ? newest : Math.min(chosen, last);
  const choose = (index) => {
    if (index === null) pointed.delete(title);
    else pointed.set(title, Math.max(0, Math.min(last, index)));
    draw();
  };
  const onPoint = (event, node) => {
    const box = node.getBoundingClientRect();
    const wanted = from + ((to - from) * (event.clientX - box.left)) / box.width;
    choose(times.reduce((best, each, i) => (Math.abs(each - wanted) < Math.abs(times[best] - wanted) ? i : best), 0));
  };
  const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: null };
  const onKey = (event) => {
    if (!(event.key in steps)) return;
    event.preventDefault();
    choose(steps[event.key]);
  };
  const when = clock(new Date(times[at])) + 'Z';
  const words = `${when}: ${series.map((each) => `${each.name} ${number(each.values[at])}`).join(', ')}`;
  const x = (100 * (times[at] - from)) / Math.max(to - from, 1);
  const hour = (date) => clock(new Date(date)).slice(0, 5) + 'Z';
  return el('figure', { key: title },
    el('div', { class: 'line' }, el('h3', {}, title),
      span('quiet end', chosen === undefined && newest === last ? 'now' : when)),
    el('div', { class: 'chart' }, el('span', { class: 'top-of' }, number(most)),
      el('svg', { viewBox: '0 0 100 100', preserveAspectRatio: 'none', tabindex: 0, role: 'slider',
        'aria-label': `${title}: time`, 'aria-valuemin': 0, 'aria-valuemax': last, 'aria-valuenow': at,
        'aria-valuetext': words, on: { pointermove: onPoint, pointerleave: () => choose(null), keydown: onKey } },
      [0, 50, 100].map((y) => el('line', { class: 'grid', x1: 0, x2: 100, y1: y, y2: y })),
      chosen !== undefined && el('line', { class: 'at', x1: x, x2: x, y1: 0, y2: 100 }),
      series.map((each) => el('path', { class: each.kind, d: pathOf(times, each.values, from, to, most) }))),
      span('from', hour(from)), span('to', hour(to))),
    el('ul', { class: 'key plain' }, series.map((each) => el('li', {},
      el('svg', { viewBox: '0 0 20 6', 'aria-hidden': 'true' }, el('path', { class: each.kind, d: 'M0 3H20' })),
      `${each.name} `, el('b', {}, number(each.values[at]))))));
}

// ---- names

const queueLink = (address, part = '') => `#/queue/${address}${part}`;
const messageLink = (address, id) => (isUuid(id) ? el('a', { class: 'id', href: `#/message/${address}/${id}` }, id)
  : span('id', id));

// ---- the server

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The token lives as long as this tab, and a reload keeps it: asking again at each reload would make people put it into
// bookmarks. Scripts of other pages cannot read it, and this page runs none but this file.
const tokenName = 'dqctl serve token';
let token = sessionStorage.getItem(tokenName);
let tokenAsked = null;  // a promise while the dialog is open: all requests wait for one answer

async function send(path, { method = 'GET', body, signal, timeout } = {}) {
  for (;;) {
    const headers = {};
    if (token) headers.Authorization = `Bearer ${token}`;
    if (method === 'POST') Object.assign(headers, { 'Content-Type': 'application/json', 'X-Delayqueue-Action': '1' });
    const used = token;
    const text = body && JSON.stringify(body);
    const until = timeout ? AbortSignal.timeout(timeout) : signal;
    const response = await fetch(path, { method, headers, signal: until, body: text, cache: 'no-store' });
    if (response.status !== 401) return response;
    if (used === token) {
      tokenAsked = tokenAsked || askToken(Boolean(used)).finally(() => (tokenAsked = null));
      await tokenAsked;
    }
  }
}

async function request(path, options) {
  const response = await send(path, options);
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new Refused(response.status, `the server answered ${response.status} without a document`);
  }
  // While Redis is away these documents have the last known state.
  if (response.ok || (response.status === 503 && answer.redis)) return answer;
  throw new Refused(response.status, answer.error || `the server answered ${response.status}`);
}

const server = { facts: null, away: null, error: '', redis: null, skew: 0 };
const serverNow = () => Date.now() + server.skew;

const live = { queues: [], leftOut: 0, readAt: null, rates: new Map(), levels: null };

function takeQueues(document) {
  const back = server.redis && !server.redis.reachable && document.redis.reachable;
  server.redis = document.redis;
  live.leftOut = document.left_out;
  if (document.read_at && document.redis.reachable) server.skew = Date.parse(document.read_at) - Date.now();
  const at = Date.parse(document.read_at);
  live.queues = document.queues.map((row) => ({ ...row, address: addressOf(row), name: textOf(row, 'queue') }));
  if (at !== live.readAt) {
    live.rates = new Map(live.queues.map((row) => [row.address, ratesOf(row, at)]));
    live.readAt = at;
  }
  if (back) readAllAgain('Redis is reachable again');
  tellNews();
}

function readAllAgain(why) {
  say(why);
  for (const resource of resources.values()) resource.at = 0;
}

// Rates are those of the last second, which jump. What the table shows is the mean of the last minute.
function ratesOf(row, at) {
  const notes = (live.rates.get(row.address) || []).filter((note) => note.at > at - 60e3 && note.at < at);
  return row.rates ? [...notes, { at, sent: row.rates.sent, acked: row.rates.acked }] : notes;
}

function meanRate(row, name) {
  const values = known((live.rates.get(row.address) || []).map((note) => note[name]));
  return values.length ? values.reduce((sum, each) => sum + each, 0) / values.length : null;
}

const levels = { ok: 0, warning: 1, critical: 2 };
const levelOf = (row) => (row.error ? 1.5 : levels[row.level] || 0);
const say = (text) => setText('news', text);

// Tells screen readers of a queue that has got worse, and of nothing else.
function tellNews() {
  const now = new Map(live.queues.map((row) => [row.address, levelOf(row)]));
  if (live.levels) {
    const worse = live.queues.filter((row) => now.get(row.address) > (live.levels.get(row.address) || 0));
    if (worse.length > 3) say(`${plural(worse.length, 'queue')} got worse`);
    else if (worse.length) say(worse.map((row) => `${row.name}: ${row.error || row.finding || row.level}`).join('. '));
  }
  live.levels = now;
}

function serverAnswers() {
  if (server.away) readAllAgain('dqctl serve answers again');
  server.away = null;
}

function serverIsAway(error) {
  server.away = server.away || new Date(serverNow());
  server.error = error.message || String(error);
  draw();
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const becomesVisible = () => new Promise((resolve) => {
  if (!document.hidden) return resolve();
  document.addEventListener('visibilitychange', () => resolve(), { once: true });
});

// Reads the stream of events by fetch(), because EventSource cannot send a token. A stream that is silent for
// 10 s is closed: a network that swallows packets ends no connection. A hidden tab has no stream, because a browser
// opens only about six connections to a server.
async function follow() {
  for (let failures = 0; ; failures += 1) {
    await becomesVisible();
    const stop = new AbortController();
    const onHide = () => document.hidden && stop.abort(new Error('hidden'));
    document.addEventListener('visibilitychange', onHide);
    let watchdog;
    try {
      server.facts = await request('api/server', { timeout: 10e3 });
      const response = await send('api/events', { signal: stop.signal });
      if (!response.ok) throw new Refused(response.status, (await response.json()).error);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        watchdog = setTimeout(() => stop.abort(new Error('the stream was silent for 10 s')), 10e3);
        const { value, done } = await reader.read();
        clearTimeout(watchdog);
        if (done) break;  // the server ends each stream after some time
        serverAnswers();
        failures = 0;
        const events = (rest + value).split(/\r?\n\r?\n/);
        rest = events.pop();
        for (const event of events) takeEvent(event);
      }
      await sleep(500);
    } catch (error) {
      clearTimeout(watchdog);
      if (!document.hidden) {
        serverIsAway(error);
        await sleep(Math.min(1000 * 2 ** failures, 5000));
      }
    }
    document.removeEventListener('visibilitychange', onHide);
  }
}

function takeEvent(text) {
  const field = (name) => text.split(/\r?\n/).filter((line) => line.startsWith(name + ':'))
    .map((line) => line.slice(name.length + 1).replace(/^ /, '')).join('\n');
  if (field('event') === 'queues') takeQueues(JSON.parse(field('data')));
  else if (field('event') === 'audit') refresh('api/audit');
  else return;
  draw();
}

// What the views have read, by path: {data, error, at, busy}. `at` 0: read again.
const resources = new Map();

function resourceOf(path) {
  if (!resources.has(path)) resources.set(path, { data: null, error: null, at: 0, busy: false });
  return resources.get(path);
}

function refresh(prefix) {
  for (const [path, resource] of resources) if (path.startsWith(prefix)) resource.at = 0;
  readWhatIsDue();
}

// Reads what the view on the screen uses, at most four requests at a time.
function readWhatIsDue() {
  if (document.hidden || server.away || tokenAsked || !view) return;
  const redisAway = server.redis && !server.redis.reachable;
  let room = 4 - [...resources.values()].filter((each) => each.busy).length;
  for (const use of view.uses()) {
    const resource = resourceOf(use.path);
    if (room <= 0) return;
    if (redisAway && use.path !== 'api/audit') continue;
    if (resource.busy || Date.now() - resource.at < use.every) continue;
    room -= 1;
    resource.busy = true;
    read(use, resource);
  }
}

async function read(use, resource) {
  const began = Date.now();
  try {
    resource.data = await (use.load ? use.load() : request(use.path, { timeout: 30e3 }));
    resource.error = null;
  } catch (error) {
    resource.error = error;
  }
  resource.at = began;
  // After an error it is tried again soon, also what is otherwise read once; but not if the answer would be the same.
  const final = resource.error && [400, 403, 404].includes(resource.error.status);
  if (resource.error && !final && use.every > 5000) resource.at = Date.now() - use.every + 5000;
  resource.busy = false;
  draw();
  readWhatIsDue();
}

// ---- the route and drawing

const once = 1e12;
let route = { path: [], query: new URLSearchParams() };
let view = null;
let drawing = 0;

function readRoute() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return { path: path.split('/').filter(Boolean), query: new URLSearchParams(query) };
}

// The hash of this view with other parameters; null removes one.
function hashWith(changes) {
  const query = new URLSearchParams(route.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return '#/' + route.path.join('/') + (text && '?' + text);
}

// Changes parameters without an entry in the browser's history: sorting and typing are no places to go back to.
function setParameters(changes) {
  history.replaceState(null, '', hashWith(changes));
  followRoute();
}

function followRoute() {
  const before = route.path.join('/');
  route = readRoute();
  const moved = view && route.path.join('/') !== before;
  view = viewOf(route);
  if (moved) {
    for (const [path, resource] of resources) if (!path.endsWith('/history') && !resource.busy) resources.delete(path);
    pointed.clear();
    byId('main').replaceChildren();
    window.scrollTo(0, 0);
    byId('main').focus({ preventScroll: true });
  }
  draw();
  readWhatIsDue();
}

function viewOf({ path, query }) {
  const [name, first, second] = path;
  const address = first === undefined ? '' : encodeBytes(bytesOfAddress(first));
  if (name === 'queue' && first !== undefined) return queueView(address, second || 'overview', query);
  if (name === 'message' && second) return messageView(address, encodeBytes(bytesOfAddress(second)));
  if (name === 'find') return findView(query.get('text') || '');
  if (name === 'workers') return workersView();
  if (name === 'audit') return auditView();
  return queuesView(query);
}

// Draws before the next frame, once for all that has changed until then.
function draw() {
  if (!drawing && !document.hidden) drawing = requestAnimationFrame(drawNow);
}

function drawNow() {
  drawing = 0;
  drawFrame();
  try {
    patchKeepingFocus(byId('main'), view.draw().flat(Infinity).filter(Boolean));
  } catch (error) {
    // So that one odd document does not end the stream of events, too.
    patch(byId('main'), [p('bad', `This view cannot be drawn: ${error.message}. Reload the page, or try another.`)]);
  }
}

function drawFrame() {
  const here = ['workers', 'audit'].includes(route.path[0]) ? route.path[0] : 'queues';
  patch(byId('nav'), [['queues', 'Queues'], ['workers', 'Workers'], ['audit', 'Audit']].map(([name, label]) =>
    el('a', { href: `#/${name}`, 'aria-current': name === here && 'page' }, label)));
  const critical = live.queues.filter((row) => row.level === 'critical').length;
  document.title = visible(`${critical ? `(${critical}!) ` : ''}${view.title} – delayqueue`);
  const redis = server.redis || { uri: '', prefix: 'dp', reachable: true, since: null };
  setText('where', redis.uri + (redis.prefix === 'dp' ? '' : `, prefix ${redis.prefix}`));
  const away = Boolean(server.away) || !redis.reachable;
  const since = server.away || (redis.since && new Date(redis.since));
  byId('live').className = away ? 'away' : live.readAt ? 'live' : '';
  setText('live', away ? `away${since ? ` for ${duration(Math.max(1000, serverNow() - since))}` : ''}`
    : live.readAt ? `live ${clock(new Date(live.readAt))}Z` : 'connecting');
  // No ages here: the alarm is spoken again when its text changes.
  const old = live.readAt ? ` What you see is from ${timeText(live.readAt)}.` : '';
  const alarm = (title, text) => el('div', { class: 'alarm', key: title }, title, p('', text));
  patch(byId('alarms'), [
    server.away ? alarm(`dqctl serve has not answered since ${timeText(server.away)}.`,
      `${server.error}.${old} This page tries again every few seconds.`)
      : away && alarm(`Redis is not reachable${since ? ` since ${timeText(since)}` : ''}.`,
        `${redis.error || 'The reason is not known'}.${old} dqctl serve goes on trying.`)].filter(Boolean));
  byId('main').classList.toggle('stale', away);
}

// ---- pieces of views

const p = (kind, ...children) => el('p', { class: kind || null }, ...children);
const link = (href, ...children) => el('a', { href }, ...children);
const span = (kind, ...children) => el('span', { class: kind }, ...children);
const mark = (kind, text) => span(`mark ${kind}`, text);
const quiet = (text) => span('quiet', text);
const titled = (key, title, ...children) => el('section', { key }, el('h2', {}, title), ...children);
const named = (key, label, ...children) => el('section', { key, 'aria-label': label }, ...children);
const list = (items) => el('ul', {}, items.map((item) => el('li', {}, item)));
const entry = (name, ...value) => [el('dt', {}, name), el('dd', {}, ...value)];
const facts = (pairs) => el('dl', { class: 'facts' },
  pairs.map(([name, value]) => entry(name, value)));
const since = (text) => duration(serverNow() - Date.parse(text));
const changes = () => Boolean(server.facts && server.facts.allow_changes);
const payloadsShown = () => Boolean(server.facts && server.facts.payloads);
const levelKind = { critical: 'bad', warning: 'warn', ok: 'good' };

// The data of a resource as drawn by `make`, or why there are none. Old data stay, and the error is shown above them.
function shown(path, make) {
  const { data, error } = resourceOf(path);
  const why = error && (error.status === 404 ? error.message : `Cannot read: ${error.message}`);
  return [error && el('p', { class: 'bad', key: 'error' }, why),
    data ? make(data) : !error && p('quiet', 'Reading …')];
}

// ---- all queues

const figure = (id, label, value, format) =>
  ({ id, label, figure: true, sort: value, cell: (row) => format(value(row)) });
const count = (id, label) => figure(id, label, (row) => row[id], number);
const states = [['pending', 'Pending'], ['ready', 'Ready'], ['unack', 'Unacked'], ['retry', 'Retry'], ['dead', 'Dead']];
const counts = states.map(([id, label]) => count(id, label));

const queueColumns = [
  { id: 'queue', label: 'Queue', row: true, class: 'name', sort: (row) => row.name,
    cell: (row) => el('a', { href: queueLink(row.address), title: row.name }, row.name || '(empty)') },
  { id: 'state', label: 'State', wide: true, class: 'short bare', sort: levelOf, cell: stateOf },
  ...counts,
  figure('in', 'In/min', (row) => meanRate(row, 'sent'), perMinute),
  figure('out', 'Out/min', (row) => meanRate(row, 'acked'), perMinute),
  figure('late', 'Late', (row) => row.lateness_ms, duration),
  { id: 'hour', label: 'Waiting, 1 h', cell: sparkOf },
];

// What is stuck, in words: the level is a word, too, and not only a colour.
function stateOf(row) {
  if (row.error) return [mark('bad', 'unreadable'), ' ', row.error];
  const stuck = row.level && row.level !== 'ok' &&
    el('div', {}, mark(levelKind[row.level], row.level), ' ', row.finding || '');
  const paused = row.paused && el('div', {}, mark('warn', 'paused'), ' ', pauseText(row));
  const held = row.limits?.held_back && el('div', {}, mark('warn', 'limit'), ' ', row.limits.held_back);
  return stuck || paused || held ? [stuck, paused, held] : quiet(row.level ? 'nothing is stuck' : '–');
}

const pauseText = (row) => (row.paused_until ? `until ${timeText(row.paused_until)}` : 'until it is resumed') +
  (textOf(row, 'paused_by') && `, by ${textOf(row, 'paused_by')}`) +
  (row.paused_since ? `, since ${timeText(row.paused_since)}` : '') +
  (textOf(row, 'paused_why') && `: ${textOf(row, 'paused_why')}`);

// The lines of all queues by address: made once for each answer, and copied into each drawing.
const lastHour = { path: 'api/history', every: 20e3, load: async () => {
  const { minutes, queues } = await request('api/history', { timeout: 30e3 });
  const times = minutes.map(Date.parse);
  return new Map(queues.map((row) => [addressOf(row), spark(times, row.waiting)]));
} };

function sparkOf(row) {
  const made = resourceOf(lastHour.path).data?.get(row.address);
  return made ? made.cloneNode(true) : quiet('–');
}

function queuesView(query) {
  const sort = { id: query.get('sort') || 'state', down: (query.get('down') || '1') === '1' };
  const filter = query.get('filter') || '';
  const most = query.get('all') ? Infinity : 200;
  const matching = () => sorted(live.queues.filter((row) => row.name.toLowerCase().includes(filter.toLowerCase()))
    .sort((a, b) => a.name.localeCompare(b.name)), queueColumns, sort);
  // A click on the sorted column turns it round. Figures begin with the largest, names with the first.
  const setSort = (column) => setParameters({ sort: column.id,
    down: (column.id === sort.id ? !sort.down : column.id !== 'queue') ? '1' : '0' });
  return {
    title: 'Queues',
    uses: () => [lastHour],
    draw: () => {
      const rows = matching();
      const having = (level) => live.queues.filter((row) => row.level === level).length;
      const [critical, warnings] = [having('critical'), having('warning')];
      const words = [filter ? `${number(rows.length)} of ${plural(live.queues.length, 'queue')}`
        : plural(live.queues.length, 'queue'), critical && `${critical} critical`,
        warnings && plural(warnings, 'warning'),
        live.leftOut && `${number(live.leftOut)} more are left out: find them by name`].filter(Boolean).join(', ');
      const none = live.queues.length ? `No queue's name contains “${filter}”.`
        : 'Redis has no queue with this prefix. A queue appears with its first message.';
      return [
        el('div', { class: 'line', key: 'head' }, el('h1', {}, 'Queues'),
          el('span', { class: critical ? 'bad strong' : 'quiet' }, live.readAt ? words : 'Reading …'),
          el('label', { class: 'end' }, 'Filter ', el('input', { type: 'search', name: 'filter', value: filter,
            autocomplete: 'off', on: { input: (event, node) => setParameters({ filter: node.value }) } }))),
        live.readAt && !rows.length && el('p', { key: 'none' }, none),
        rows.length > 0 && named('table', 'All queues',
          table({ label: 'Queues', columns: queueColumns, rows: rows.slice(0, most), keyOf: (row) => row.address,
            sort, setSort }),
          rows.length > most && p('', link(hashWith({ all: '1' }), `Show all ${number(rows.length)}`))),
      ];
    },
  };
}

// ---- one queue

const parts = [['overview', 'Overview', overviewPart], ['messages', 'Messages', messagesPart],
  ['dead', 'Dead letters', deadPart], ['partitions', 'Partitions', partitionsPart],
  ['workers', 'Workers', workersPart]];

function queueView(address, wanted, query) {
  const name = printable(bytesOfAddress(address));
  const base = queuePath(address);
  const [here, , make] = parts.find(([id]) => id === wanted) || parts[0];
  const part = make(address, query);
  return {
    title: name,
    uses: () => [{ path: base, every: 3000 }, ...part.uses],
    draw: () => {
      const row = live.queues.find((each) => each.address === address) || resourceOf(base).data;
      return [
        el('div', { class: 'line', key: 'head' }, el('h1', {}, name),
          row && row.level && row.level !== 'ok' && mark(levelKind[row.level], row.level),
          row && row.paused && [mark('warn', 'paused'), quiet(pauseText(row))],
          row && row.limits && [row.limits.held_back && mark('warn', 'limit'), quiet(row.limits.text)],
          changes() && row && span('line end', (row.paused ? ['resume', 'repause'] : ['pause'])
            .concat('redrive', 'purge').map((action) => button(action, address)))),
        el('nav', { class: 'tabs', 'aria-label': 'Parts of the queue', key: 'tabs' },
          parts.map(([id, label]) => el('a', { href: queueLink(address, id === 'overview' ? '' : `/${id}`),
            'aria-current': id === here && 'page' }, label))),
        row || !(resourceOf(base).error?.status === 404) ? part.draw() : p('bad', resourceOf(base).error.message),
      ];
    },
  };
}

function overviewPart(address) {
  const base = queuePath(address);
  return {
    uses: [{ path: `${base}/stuck`, every: 6000 }, { path: `${base}/history`, every: 20e3 }],
    draw: () => [
      named('counts', 'Counts', shown(base, (row) => [row.error && p('bad', row.error), countsOf(address, row)])),
      titled('stuck', 'What is stuck', shown(`${base}/stuck`, (stuck) => findingsOf(address, stuck.findings))),
      titled('history', 'The last hour', shown(`${base}/history`, (data) => chartsOf(data.minutes))),
      titled('totals', 'Since the first message',
        shown(base, ({ totals }) => totals && el('dl', { class: 'counts small' }, totalNames.map((id) =>
          el('div', {}, entry(id.replace('_', '-'), number(totals[id]))))))),
    ],
  };
}

const totalNames = ['sent', 'delivered', 'acked', 'nacked', 'retried', 'dead_lettered', 'expired', 'cancelled',
  'redriven', 'purged'];

// The row of the last event is newer than the details, which are read every few seconds.
function countsOf(address, details) {
  const row = { ...details, ...live.queues.find((each) => each.address === address) };
  const oldest = (id, words) => (row[id] ? `oldest ${words}${since(row[id])} ago` : '');
  const notes = {
    pending: row.due ? `${number(row.due)} due`
      : row.oldest_due ? `next in ${duration(Date.parse(row.oldest_due) - serverNow())}` : '',
    ready: row.ready ? oldest('oldest_ready_sent', 'sent ') : '',
    unack: row.overdue ? `${number(row.overdue)} overdue` : '',
    retry: row.retry ? oldest('oldest_retry_sent', 'sent ') : '',
    dead: row.dead ? oldest('oldest_dead', '') : '',
  };
  const box = (label, value, note) => el('div', {}, entry(label, value, el('small', {}, note)));
  return el('dl', { class: 'counts' },
    states.map(([id, label]) => box(link(queueLink(address, `/messages?state=${id}`), label), number(row[id]),
      notes[id])),
    box('In/min', perMinute(meanRate(row, 'sent')), 'sent'), box('Out/min', perMinute(meanRate(row, 'acked')), 'acked'),
    box('Late', duration(row.lateness_ms), row.lateness_ms === null ? 'none waits' : 'the oldest that waits'));
}

function findingsOf(address, findings) {
  if (!findings.length) return p('good', 'Nothing is stuck.');
  return findings.map((each) => el('div', { class: `finding ${each.level}` },
    p('', mark(levelKind[each.level], each.level === 'ok' ? 'note' : each.level), ' ', el('b', {}, each.what)),
    each.why && p('', `Why: ${each.why}`), each.do && p('', `Do: ${each.do}`),
    textOf(each, 'example') && p('quiet', 'For example ', messageLink(address, textOf(each, 'example')))));
}

function chartsOf(minutes) {
  const times = minutes.map((each) => Date.parse(each.at));
  // Events of a minute that is not over would look like a drop.
  const events = (id) => (each) => (Date.parse(each.at) > serverNow() - 60e3 ? null : each[id]);
  const lines = (title, ...series) => chart(title, times, series.map(([name, kind, value]) =>
    ({ name, kind, values: minutes.map(value) })));
  return el('div', { class: 'charts' },
    lines('Waiting and in flight', ['due or ready', 's1', (each) => each.due + each.ready],
      ['unacked', 's2', (each) => each.unack], ['retry', 's4', (each) => each.retry]),
    lines('Messages a minute', ['sent', 's1', events('sent')], ['acked', 's2', events('acked')],
      ['nacked', 's4', events('nacked')], ['dead', 's3', events('dead_lettered')]),
    lines('Pending', ['pending', 's1', (each) => each.pending]),
    lines('Dead letters', ['dead', 's3', (each) => each.dead]));
}

// ---- messages of a queue

const atLabel = { pending: 'Due', unack: 'Lease or backoff ends', dead: 'Dead since' };

// The start of the payload. The server has sent its first bytes.
function startOf(row) {
  const text = textOf(row, 'payload_start');
  const data = typeof row.payload_start === 'string' ? new TextEncoder().encode(text)
    : fromBase64(row.payload_start_base64 || '');
  const start = shortened(text, 200);
  return data.length < row.size && start === text ? `${start}…` : start;
}

function messageColumns(address, state) {
  return [
    { label: 'Id', row: true, cell: (row) => messageLink(address, textOf(row, 'id')) },
    atLabel[state] && { label: atLabel[state],
      cell: (row) => [time(row.at), state === 'unack' && quiet(row.held ? ', in flight' : ', in a backoff')] },
    { label: 'Sent', cell: (row) => time(row.sent) },
    count('deliveries', 'Deliveries'),
    count('retries', 'Retries left'),
    { label: 'Size', figure: true, cell: (row) => (row.size === null ? 'missing' : bytes(row.size)) },
    { label: 'Last failure', wide: true, class: 'text', cell: (row) => textOf(row, 'reason') || null },
    payloadsShown() && { label: 'Payload', wide: true, class: 'text',
      cell: (row) => row.size !== null && el('code', {}, startOf(row)) },
  ].filter(Boolean);
}

const perPage = 50;

// The server compares reasons. Payloads are compared here: of at most 1,000 messages a page the first 4,096 bytes.
async function searchPayloads(path, parameters, text) {
  const found = [];
  let cursor = parameters.get('cursor');
  let examined = 0;
  do {
    const query = new URLSearchParams(parameters);
    query.set('limit', '200');
    query.set('payload', '4096');
    if (cursor) query.set('cursor', cursor);
    const page = await request(`${path}?${query}`);
    examined += page.examined;
    found.push(...page.messages.filter((row) => textOf(row, 'payload_start').includes(text)));
    cursor = page.next;
  } while (cursor && examined < 1000 && found.length < perPage);
  return { messages: found, next: cursor, examined };
}

function messagesPart(address, query) {
  const state = states.some(([id]) => id === query.get('state')) ? query.get('state') : 'pending';
  const [reason, payload, cursor] = ['reason', 'payload', 'cursor'].map((name) => query.get(name) || '');
  const parameters = new URLSearchParams({ state, limit: perPage });
  if (reason) parameters.set('reason', /[*?]/.test(reason) ? reason : `*${reason}*`);
  if (cursor) parameters.set('cursor', cursor);
  const base = `${queuePath(address)}/messages`;
  const path = `${base}?${parameters}${payload && `&search=${encodeURIComponent(payload)}`}`;
  const onSearch = (event, form) => {
    event.preventDefault();
    const value = (name) => (form.elements[name] ? form.elements[name].value.trim() : '');
    location.hash = isUuid(value('id')) ? `#/message/${address}/${value('id')}`
      : hashWith({ state: value('state'), reason: value('reason'), payload: value('payload'), cursor: null });
  };
  const field = (name, label, value, title, more = {}) => el('label', {}, label + ' ',
    el('input', { type: 'text', name, value, title, autocomplete: 'off', ...more }));
  const uuid = { pattern: '\\s*[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\\s*' };
  const listOf = (data) => [
    data.messages.length
      ? table({ label: `${state} messages`, columns: messageColumns(address, state), rows: data.messages,
        keyOf: (row) => textOf(row, 'id') })
      : p('', data.next ? 'No message of this page matches.' : 'No messages.'),
    p('line', quiet(plural(data.messages.length, 'message') +
      (reason || payload ? ` of ${number(data.examined)} examined` : '') +
      `, read at ${timeText(resourceOf(path).at + server.skew)}`),
    el('button', { type: 'button', on: { click: () => refresh(path) } }, 'Read again'),
    cursor && link(hashWith({ cursor: null }), 'First page'),
    data.next && link(hashWith({ cursor: data.next }), reason || payload ? 'Search on' : 'Next page'))];
  return {
    uses: [{ path, every: once, load: payload ? () => searchPayloads(base, parameters, payload) : null }],
    // A new form for each search: what is typed belongs to the search that it was typed for.
    draw: () => named('messages', 'Messages',
      el('form', { class: 'line', role: 'search', 'aria-label': 'In this queue', key: path, on: { submit: onSearch } },
        el('label', {}, 'State ', el('select',
          { name: 'state', on: { change: (event, node) => onSearch(event, node.form) } },
          states.map(([id, label]) => el('option', { value: id, selected: id === state }, label)))),
        field('id', 'Id', '', 'a UUID', uuid),
        field('reason', 'Last failure', reason, 'a part of it, or a pattern with * and ?'),
        payloadsShown() && field('payload', 'Payload', payload, 'a part of it'), el('button', {}, 'Search')),
      shown(path, listOf)),
  };
}

// ---- dead letters, partitions, workers, audit

// A pattern that matches exactly a reason: its special characters as ?, each of which is one byte.
const patternOf = (reason) => reason.replace(/[*?[\]\\]/g, '?');

function deadPart(address) {
  const path = `${queuePath(address)}/dead-reasons`;
  const hasPattern = (row) => typeof row.reason === 'string' && row.reason !== '';
  const listLink = (row) => queueLink(address,
    `/messages?${new URLSearchParams({ state: 'dead', reason: patternOf(row.reason) })}`);
  const columns = [
    count('count', 'Messages'),
    { label: 'Reason', row: true, cell: (row) => textOf(row, 'reason') ||
      quiet(row.reason === null && !row.reason_base64 ? 'all other reasons' : 'none recorded') },
    { label: 'First', cell: (row) => time(row.first) },
    { label: 'Last', cell: (row) => time(row.last) },
    { label: 'Example', wide: true, cell: (row) => row.example && messageLink(address, row.example) },
    { label: 'Messages of this reason', wide: true, cell: (row) => hasPattern(row) && el('span', { class: 'line' },
      link(listLink(row), 'List'), changes() && ['redrive', 'purge'].map((name) =>
        button(name, address, { preset: { reason: patternOf(row.reason) } }))) },
  ];
  return {
    uses: [{ path, every: 15e3 }],
    draw: () => titled('dead', 'Dead letters by reason', shown(path, (data) => [
      p('quiet', !data.dead ? 'No dead letters.' : plural(data.dead, 'dead letter') +
        (data.counted < data.dead ? `; the reasons are those of the newest ${number(data.counted)} of them` : '')),
      data.reasons.length > 0 && table({ label: 'Dead letters by reason', columns, rows: data.reasons,
        keyOf: (row) => `${row.reason === null} ${textOf(row, 'reason')}` })])),
  };
}

function partitionsPart(address) {
  const path = `${queuePath(address)}/partitions`;
  const columns = [
    { label: 'Partition', figure: true, row: true, cell: (row) => String(row.partition) },
    { label: 'Slot', figure: true, cell: (row) => (row.slot === null ? '–' : String(row.slot)) },
    { label: 'Master', wide: true, cell: (row) => row.master || '–' },
    ...counts,
    { label: 'State', wide: true, cell: (row) => [row.error && [mark('bad', 'unreadable'), ` ${row.error} `],
      row.paused && [mark('warn', 'paused'), ' '], !row.sent_to && quiet('served, not sent to')] },
  ];
  return {
    uses: [{ path, every: 5000 }],
    draw: () => titled('partitions', 'Partitions', shown(path, (data) => [
      p('quiet', `Messages are sent to ${plural(data.count, 'partition')}` +
        (data.top > data.count ? `; consumers serve ${number(data.top)}.` : '.')),
      table({ label: 'Partitions', columns, rows: data.partitions, keyOf: (row) => row.partition })])),
  };
}

const workersUse = { path: 'api/workers', every: 5000 };
const workerName = (row) => textOf(row, 'name') || textOf(row, 'consumer') || '–';
const runningOf = (row) => (row.longest || []).map((each) => [messageLink(addressOf(each), textOf(each, 'id')),
  ` of ${textOf(each, 'queue')}, `, el('b', {}, duration(each.running_ms))]);
const workerColumns = [
  { label: 'Worker', row: true, cell: (row) => [workerName(row), row.damaged && [' ', mark('bad', 'damaged entry')]] },
  { label: 'Host', cell: (row) => textOf(row, 'host') || null },
  { label: 'Process', figure: true, cell: (row) => (row.pid === undefined ? '–' : String(row.pid)) },
  { label: 'Version', cell: (row) => textOf(row, 'version') || null },
  { label: 'Busy', figure: true,
    cell: (row) => (row.overdue ? '–' : `${number(row.busy)} of ${number(row.concurrency)}`) },
  count('in_flight', 'In flight'),
  { label: 'Seen', cell: (row) => [time(row.seen), row.overdue && [' ', mark('bad', 'killed, frozen or cut off')]] },
  { label: 'Queues', wide: true, cell: (row) =>
    [row.queues.map((name, i) => [i ? ', ' : '', link(queueLink(addressOfText(name)), name)]),
      row.queue_count > row.queues.length && `, and ${number(row.queue_count - row.queues.length)} more`] },
  { label: 'Running longest', wide: true,
    cell: (row) => !row.overdue && runningOf(row).map((each) => el('div', {}, each)) },
];

function workersTable(matches) {
  return shown(workersUse.path, (data) => {
    const rows = data.workers.filter(matches);
    return [data.errors.map((each) => p('warn', `Cannot read the workers of ${textOf(each, 'queue')}: ${each.error}`)),
      rows.length ? table({ label: 'Workers', columns: workerColumns, rows,
        keyOf: (row) => `${textOf(row, 'consumer')} ${workerName(row)} ${row.pid}` })
        : p('', 'No worker has reported lately. Workers of the Go library and of earlier versions do not report.')];
  });
}

function workersPart(address) {
  const name = printable(bytesOfAddress(address));
  return { uses: [workersUse],
    draw: () => titled('workers', 'Workers of this queue', workersTable((worker) => worker.queues.includes(name))) };
}

function workersView() {
  return { title: 'Workers', uses: () => [workersUse],
    draw: () => [el('h1', { key: 'head' }, 'Workers'), named('workers', 'Workers', workersTable(() => true))] };
}

// The command in a recorded line, which may have options before it.
const commandIn = (what) => (what.match(
  /\b(pause|resume|redrive|purge|release|cancel|reschedule|bury|extend|import|partitions|doctor)\b/) || [])[0];

const actionColumns = [
  { label: 'Time', row: true, cell: (row) => time(row.at) },
  { label: 'Who', cell: (row) => textOf(row, 'who') || null },
  { label: 'Action', cell: (row) => commandIn(textOf(row, 'what')) || null },
  { label: 'Queue', cell: (row) => link(queueLink(addressOf(row)), textOf(row, 'queue')) },
  count('messages', 'Messages'),
  { label: 'Outcome', cell: (row) => (row.outcome === 'done' ? 'done' : span('warn', textOf(row, 'outcome') || '?')) },
  { label: 'What', wide: true, cell: (row) => textOf(row, 'what') || null },
];

const auditColumns = [
  { label: 'Time', row: true, cell: (row) => time(row.at) },
  { label: 'Who', cell: (row) => textOf(row, 'user') || row.client },
  { label: 'Action', cell: (row) => row.action },
  { label: 'Queue', cell: (row) => link(queueLink(addressOf(row)), textOf(row, 'queue')) },
  count('count', 'Messages'),
  { label: 'Detail', wide: true,
    cell: (row) => [row.id && [messageLink(addressOf(row), row.id), ' '], textOf(row, 'detail') || null] },
  { label: 'Error', wide: true, cell: (row) => row.error && span('bad', row.error) },
];

const auditList = (title, rows) => rows.length > 0 && [el('h2', {}, title),
  table({ label: title, columns: auditColumns, rows })];

function auditView() {
  const path = 'api/audit';
  return { title: 'Audit', uses: () => [{ path, every: 15e3 }], draw: () => [el('h1', { key: 'head' }, 'Audit'),
    named('audit', 'Changes',
      p('quiet', 'The last 100 changes made here, and those of dqctl with --audit: the list of dqctl actions.'),
      shown(path, (data) => [
        !data.actions && p('warn', 'The list cannot be read now.'),
        data.actions && (data.actions.length ? table({ label: 'Changes', columns: actionColumns, rows: data.actions })
          : p('', 'No changes yet.')),
        auditList('Failed since this server started', data.changes.filter((row) => row.error)),
        !data.actions && auditList('Made here since this server started', data.changes.filter((row) => !row.error)),
      ]))] };
}

// ---- search, and one message

function findView(text) {
  const path = `api/find?${new URLSearchParams({ text })}`;
  const message = (row) => [messageLink(addressOf(row), textOf(row, 'id')), `, ${row.state} in `,
    link(queueLink(addressOf(row)), textOf(row, 'queue'))];
  return {
    title: `Search: ${text}`,
    uses: () => (text ? [{ path, every: once }] : []),
    draw: () => [el('h1', { key: 'head' }, 'Search: ', text), named('found', 'Found', shown(path, (data) => [
      data.messages.length > 0 && [el('h2', {}, 'Messages'), list(data.messages.map(message))],
      data.queues.length > 0 && [el('h2', {}, 'Queues'),
        list(data.queues.map((name) => link(queueLink(addressOfText(name)), name)))],
      !data.messages.length && !data.queues.length &&
        p('', 'No message has this id, and no queue has this in its name.'),
      !data.complete &&
        p('warn', 'Not all queues were searched: some could not be read, or there are more than 1,000.')]))],
  };
}

function messageView(address, id) {
  const path = `${queuePath(address)}/messages/${pathPart(id)}`;
  return {
    title: `Message ${id}`,
    uses: () => [{ path, every: 3000 }, workersUse],
    draw: () => {
      const { data, error } = resourceOf(path);
      const gone = error && error.status === 404;
      const now = !gone && data && data.message;
      return [
        el('p', { key: 'up' }, 'Queue ', link(queueLink(address), printable(bytesOfAddress(address)))),
        el('div', { class: 'line', key: 'head' }, el('h1', { class: 'mono' }, id),
          now && mark(now.state === 'dead' ? 'bad' : 'quiet', now.state),
          now && changes() && el('span', { class: 'line end' },
            actionsOf(now).map((name) => button(name, address, { id })))),
        gone && el('p', { class: 'warn strong', key: 'gone' },
          'There is no such message now: it was acknowledged, cancelled or deleted, or was never sent.',
          data && ' Below is what it was.'),
        named('facts', 'What is known', shown(path, (one) => factsOf(address, id, one.message))),
        data && titled('payload', 'Payload', payloadOf(data.message)),
      ];
    },
  };
}

// What the server would do with a message of this state. It refuses to move one that a consumer holds.
function actionsOf(message) {
  if (message.state === 'dead') return ['redriveOne', 'cancel'];
  if (message.state === 'unack' && message.held) return ['cancel'];
  return ['pending', 'unack'].includes(message.state) ? ['release', 'reschedule', 'cancel'] : ['reschedule', 'cancel'];
}

// Who has the message and since when, if it is among the longest-running of a worker.
function holderOf(address, id) {
  const { data } = resourceOf(workersUse.path);
  for (const worker of data ? data.workers : []) {
    const run = !worker.overdue && (worker.longest || []).find((each) => each.id === id && addressOf(each) === address);
    if (run) return [`${workerName(worker)} on ${textOf(worker, 'host')}, process ${worker.pid}, since `,
      time(run.since)];
  }
  return 'not known: no worker reports it among its longest-running';
}

function factsOf(address, id, message) {
  const where = { pending: 'waiting for its due time', ready: 'waiting for a consumer',
    unack: message.held ? 'in flight: a consumer holds it' : 'waiting out a backoff',
    retry: 'waiting for another delivery', dead: 'a dead letter' };
  const deliveries = ['ready', 'retry'].includes(message.state) && !message.deliveries ? '0 or 1'
    : number(message.deliveries);
  const headers = message.headers || [];
  return [facts([
    ['State', `${message.state}: ${where[message.state]}`],
    atLabel[message.state] && [atLabel[message.state], time(message.at)],
    message.held && ['Held by', holderOf(address, id)],
    ['Sent', time(message.sent)],
    ['Deliveries', deliveries],
    ['Retries left', message.retries === null ? 'none recorded' : number(message.retries)],
    ['Last failure', textOf(message, 'reason') || 'none'],
    ['Partition', String(message.partition || 0)],
    ['Payload', message.size === null ? 'missing' : bytes(message.size)],
    ['Payload expires', message.ttl_ms === null ? 'never' : `in ${duration(message.ttl_ms)}`],
  ].filter(Boolean)), (headers.length > 0 || message.headers_damaged) && [el('h2', {}, 'Headers'),
    message.headers_damaged && p('bad', 'The stored headers cannot be read: they are damaged.'),
    facts(headers.map((each) => [textOf(each, 'name'), el('code', {}, textOf(each, 'value'))]))]];
}

function payloadOf(message) {
  if (message.size === null) return p('bad', 'It is missing. A consumer that takes the message counts it as expired.');
  if (!payloadsShown()) return p('quiet', 'Hidden: dqctl serve shows payloads only with --payloads.');
  if (message.size === 0) return p('quiet', 'Empty.');
  const data = typeof message.payload === 'string' ? new TextEncoder().encode(message.payload)
    : fromBase64(message.payload_base64 || '');
  return [data.length < message.size && p('warn', `The first ${bytes(data.length)} of ${bytes(message.size)}.`),
    el('pre', { tabindex: 0, 'aria-label': 'Payload' }, printable(data))];
}

// ---- changes

// 90s, 15m, 2h 30m, 7d; null: no such duration.
function milliseconds(text) {
  const units = { ms: 1, s: 1e3, m: 60e3, min: 60e3, h: 3600e3, d: 86400e3 };
  const plain = text.toLowerCase().replace(/\s/g, '');
  if (!/^(\d+(ms|s|min|m|h|d))+$/.test(plain)) return null;
  return plain.match(/\d+[a-z]+/g).reduce((sum, each) => sum + parseInt(each, 10) * units[each.replace(/\d/g, '')], 0);
}

const asText = (text) => text;
const asCount = (text) => (/^\d{1,9}$/.test(text.trim()) ? Number(text) : null);
const wrongText = new Map([[milliseconds, 'Write a duration such as 90s, 15m, 2h 30m or 7d.'],
  [asCount, 'Write a whole number.']]);
const reasonField = { name: 'reason', label: 'Only if the last failure matches', read: asText,
  hint: '* any text, ? one byte; empty: all' };
const olderField = { name: 'older_than_ms', label: 'Only if older than', read: milliseconds,
  hint: 'such as 30m or 7d; empty: all' };
const retriesField = { name: 'retries', label: 'Retries', read: asCount, hint: 'deliveries after the next; empty: 3' };
const pauseFields = [{ name: 'reason', label: 'Why', read: asText, hint: 'shown to everybody who asks' },
  { name: 'for_ms', label: 'For', read: milliseconds, hint: 'such as 30m; empty: until it is resumed' }];
const many = ({ matching, state }) => plural(matching, state === 'dead' ? 'dead letter' : `${state} message`);

// What can be done: the label of its button, its path, the fields to fill in before, and the words of the button that
// does it, which name the change.
const actions = {
  pause: { label: 'Pause', path: 'pause', fields: pauseFields, confirm: (result, name) => `Pause ${name}` },
  repause: { label: 'Change the pause', path: 'pause', fields: pauseFields, body: { replace: true },
    confirm: (result, name) => `Replace the pause of ${name}` },
  resume: { label: 'Resume', path: 'resume', confirm: (result, name) => `Resume ${name}` },
  redrive: { label: 'Redrive', path: 'redrive', bulk: true, fields: [reasonField, olderField, retriesField],
    confirm: (result) => `Redrive ${many(result)}` },
  purge: { label: 'Purge', path: 'purge', bulk: true, harm: true,
    confirm: (result) => `Delete ${many(result)} for ever`,
    fields: [{ name: 'state', label: 'State', read: asText, value: 'dead',
      options: states.filter(([id]) => id !== 'unack') }, reasonField, olderField] },
  release: { label: 'Release now', path: 'release', confirm: () => 'Release this message' },
  cancel: { label: 'Cancel', path: 'cancel', harm: true, confirm: () => 'Cancel this message' },
  reschedule: { label: 'Reschedule', path: 'reschedule', confirm: () => 'Reschedule this message',
    fields: [{ name: 'delay_ms', label: 'Due in', read: milliseconds, required: true, hint: 'from now: 15m' }] },
  redriveOne: { label: 'Redrive', path: 'redrive', fields: [retriesField], confirm: () => 'Redrive this message' },
};

function button(name, address, { id = null, preset = {} } = {}) {
  const onClick = () => openChange({ action: actions[name], address, id, preset });
  return el('button', { type: 'button', 'aria-haspopup': 'dialog', on: { click: onClick } },
    `${actions[name].label} …`);
}

// The change in the dialog. Its steps: fill (the fields), busy (the dry run), confirm, busy (the change), done.
let change = null;

function openChange(wanted) {
  change = { ...wanted, step: 'fill', body: {}, typed: {}, wrong: {}, result: null, error: null };
  drawChange();
  dialog.showModal();
  if (!change.action.fields) tryChange({});
}

function showStep(step, values) {
  Object.assign(change, { step, error: null }, values);
  drawChange();
  const first = dialog.querySelector('[data-first], [aria-invalid]');
  if (first) first.focus();
}

const post = ({ action, address, id, body }, more) => request(
  `${queuePath(address)}${id ? `/messages/${id}` : ''}/${action.path}`,
  { method: 'POST', body: { ...action.body, ...body, ...more } });

// The server answers after about two seconds with how far it came, and needs another request for the rest: `next` of an
// answer is the `cursor` of the next part. Returns the sum of all parts, or of those until `mine` is stopped or closed.
async function inParts(mine, more, after) {
  let sum = null;
  for (let cursor; ;) {
    const part = await postPart(mine, { ...more(), ...(cursor && { cursor }) }, Boolean(sum));
    cursor = part.next;
    if (sum) {
      const added = ['matching', 'done', 'left_alone', 'examined'].map((name) =>
        [name, part[name] == null ? part[name] : sum[name] + part[name]]);
      sum = { ...part, ...Object.fromEntries(added), of: sum.of, summary: null,
        sample: sum.sample.concat(part.sample).slice(0, 5) };
    } else sum = part;
    after(sum);
    if (change === mine && !mine.stopped) drawChange();
    if (sum.complete || sum.error || mine.stopped || mine.closed) return sum;
  }
}

// Another change of many messages may have begun between two parts: they take turns.
async function postPart(mine, more, further) {
  for (let tries = 0; ; tries += 1) {
    try {
      return await post(mine, more);
    } catch (error) {
      if (!further || error.status !== 503 || tries === 9 || mine.stopped) throw error;
      await sleep(1000);
    }
  }
}

const examinedOf = ({ examined, of }) => `${number(Math.min(examined, of))} of ${number(of)} examined`;

async function tryChange(body) {
  const mine = change;
  showStep('busy', { body, wrong: {}, dry: true, stopped: false,
    words: 'Reading what this would change. Nothing is changed yet.' });
  try {
    const result = !mine.action.bulk ? await post(mine, { dry_run: true })
      : await inParts(mine, () => ({ dry_run: true }), (sum) => {
        mine.words = `Reading what this would change: ${examinedOf(sum)}, ${number(sum.matching)} match. ` +
          'Nothing is changed yet.';
      });
    if (change === mine) showStep('confirm', { result, stopped: false });
  } catch (error) {
    if (change === mine) showStep(change.action.fields ? 'fill' : 'done', { error, result: null });
  }
}

// Makes the change, and shows how it ended, also if that is how far it came.
async function makeChange() {
  const mine = change;
  const most = mine.result.matching;
  showStep('busy', { words: 'Changing …', dry: false, result: null, changed: 0 });
  try {
    if (mine.action.bulk) await makeInParts(mine, most);
    else mine.result = await post(mine, { dry_run: false });
  } catch (error) {
    // No answer arrived.
    if (!error.status) error.message += '. It is not known whether the change was made: look at Audit and the queue.';
    mine.error = error;
  }
  refresh('api/');
  if (change === mine) showStep('done', { error: mine.error });
  else say(mine.error ? mine.error.message : summaryOf(mine));
}

// A change of many messages: of at most as many as the dry run found.
const makeInParts = (mine, most) => inParts(mine, () => ({ dry_run: false, at_most: most - mine.changed }), (sum) => {
  mine.result = sum;
  mine.changed = sum.done;
  sum.complete = sum.complete || sum.done >= most;
  mine.words = `Changing … ${number(sum.done)} of ${number(most)} changed, ${examinedOf(sum)}`;
});

function submitFields(event, form) {
  event.preventDefault();
  const [body, wrong] = [{}, {}];
  for (const { name, read, required } of change.action.fields) {
    const text = form.elements[name].value;
    change.typed[name] = text;
    const value = text.trim() === '' ? null : read(text);
    if (value !== null) body[name] = value;
    else if (required || text.trim() !== '') wrong[name] = wrongText.get(read) || 'Fill this in.';
  }
  if (Object.keys(wrong).length) showStep('fill', { wrong });
  else tryChange(body);
}

function fieldOf({ name, label, options, value: usual = '', hint = '', required }) {
  const { preset, typed, wrong } = change;
  const value = typed[name] ?? preset[name] ?? usual;
  const common = { name, 'aria-describedby': `hint-${name}` };
  const input = options ? el('select', common,
    options.map(([id, text]) => el('option', { value: id, selected: id === value }, text)))
    : el('input', { ...common, type: 'text', value, autocomplete: 'off', required, maxlength: 1024,
      'aria-invalid': wrong[name] && 'true' });
  return p('field', el('label', {}, `${label} `, input),
    el('span', { id: `hint-${name}`, class: wrong[name] ? 'bad' : 'quiet' }, wrong[name] || hint));
}

const closeButton = (label, first) =>
  el('button', { type: 'button', 'data-first': first, on: { click: () => dialog.close() } }, label);

function drawChange() {
  const { action, address, id, step, words, dry } = change;
  const name = printable(bytesOfAddress(address));
  const inside = {
    fill: () => el('form', { on: { submit: submitFields }, novalidate: true }, (action.fields || []).map(fieldOf),
      errorOf(change), p('line', closeButton('Close'), el('button', { class: 'main' }, 'Dry run'))),
    busy: () => [el('p', { role: 'status' }, words), action.bulk && p('line', el('button', { type: 'button',
      on: { click: stopChange } }, dry ? 'Stop reading' : 'Stop after this part'))],
    confirm: () => confirmation(change, name),
    done: () => [errorOf(change), resultOf(change), p('line', closeButton('Close', true))],
  }[step]();
  patchKeepingFocus(dialog, [el('h2', { id: 'ask-title', key: 'title' }, `${action.label}: ${name}`),
    id && el('p', { class: 'id', key: 'id' }, id), el('div', { key: step }, inside)].filter(Boolean));
}

const errorOf = ({ error }) => error && el('p', { class: 'bad strong', role: 'alert' }, error.message);

function stopChange() {
  Object.assign(change, { stopped: true, words: 'Stopping …' });
  drawChange();
}

// The server's sentence is about one part: that of several parts is made here.
function summaryOf({ action, result }) {
  if (result.summary) return result.summary;
  const what = many({ matching: result.dry_run ? result.matching : result.done, state: result.state });
  return result.dry_run ? `would ${action.path} ${result.complete ? '' : 'at least '}${what} of ${number(result.of)}`
    : `${result.action === 'redrive' ? 'redriven' : 'purged'}: ${what}`;
}

function resultOf(mine) {
  const { action, result, stopped } = mine;
  if (!result) return null;
  const good = !result.error && (result.grade || 'good') === 'good';
  return [
    el('p', { class: good ? 'strong' : 'warn strong', role: 'status' }, summaryOf(mine)),
    result.left_alone > 0 && p('', `${plural(result.left_alone, 'message')} left alone: gone meanwhile, or no payload.`),
    result.error && p('bad', result.error),
    action.bulk && !result.complete &&
      p('warn', `${stopped ? 'Stopped. ' : ''}Not all of it is done: repeat it for the rest.`)];
}

// What the dry run found. The button that changes nothing has the focus, so that a hasty Enter does no harm.
function confirmation(mine, name) {
  const { action, result } = mine;
  const nothing = action.bulk ? !result.matching : result.grade && result.grade !== 'good';
  return [
    p('quiet', 'Dry run: nothing is changed yet.'), p('count', summaryOf(mine)),
    action.bulk && !result.complete && p('warn',
      `Only ${examinedOf(result)}, so there may be more. This change is for these only.`),
    action.bulk && result.sample.length > 0 && [p('', 'Among them:'), list(result.sample.map((row) =>
      [span('id', textOf(row, 'id')), ' ', shortened(textOf(row, 'reason'), 200)]))],
    p('line', closeButton(nothing ? 'Close' : 'Do nothing', true), !nothing && el('button', { type: 'button',
      class: action.harm ? 'harm' : 'main', on: { click: makeChange } }, action.confirm(result, name))),
  ];
}

// ---- the token, and the start

// Asks for the token. Resolves when one is given; the dialog cannot be closed otherwise, because nothing works without.
function askToken(wasWrong) {
  change = null;
  return new Promise((resolve) => {
    const onSubmit = (event, form) => {
      event.preventDefault();
      token = form.elements.token.value.trim();
      sessionStorage.setItem(tokenName, token);
      dialog.close();
      resolve();
    };
    dialog.replaceChildren(el('h2', { id: 'ask-title' }, 'Token'), el('form', { on: { submit: onSubmit } },
      p(wasWrong && 'bad strong', wasWrong ? 'The server does not accept this token.'
        : 'This server asks for a token: the text of its --token-file.'),
      p('', el('label', {}, 'Token ', el('input',
        { type: 'password', name: 'token', required: true, autocomplete: 'off', autofocus: true }))),
      p('quiet', 'It is kept in this tab until the tab is closed.'),
      p('line', el('button', { class: 'main' }, 'Use this token'))));
    if (!dialog.open) dialog.showModal();
  });
}

// Escape does not close it while a change is under way: its result must be seen. It ends a dry run.
dialog.addEventListener('cancel',
  (event) => (tokenAsked || (change && change.step === 'busy' && !change.dry)) && event.preventDefault());
// What was typed belongs to one change: the next one begins with empty fields.
dialog.addEventListener('close', () => {
  if (change && change.dry) change.closed = true;
  change = null;
  dialog.replaceChildren();
});
document.querySelector('[data-skip]').on = { click: (event) => {
  event.preventDefault();
  byId('main').focus();
} };
byId('find').on = { submit: (event, form) => {
  event.preventDefault();
  const text = form.elements.text.value.trim();
  if (text) location.hash = `#/find?${new URLSearchParams({ text })}`;
} };
window.addEventListener('hashchange', followRoute);
document.addEventListener('visibilitychange', () => !document.hidden && draw());
setInterval(() => {
  readWhatIsDue();
  if (server.away || (server.redis && !server.redis.reachable)) draw();  // for how long it has been away
}, 1000);
followRoute();
follow();
