"""The page of `dqctl serve` with 100 queues, a million messages and 1,000 workers: its time, and what it costs.

   large_test.py DQCTL

Measures, and prints in a table: the time from the navigation until all queues, later with their lines of the last hour,
are on the screen, Redis' time for single commands while every view is looked at, and the most memory of the server. For
its commands Redis has a core of its own, where there are two, so that its time is not that of the browser. The limits
that it asserts are far above what is expected, because other programs may use the machine. Exit code 77: a program is
missing, so nothing was tested.
"""
import hashlib
import os
import re
import statistics
import sys
import time

import browser
import fixture

QUEUES = 100
MESSAGES = 1_000_000
LARGE = 505_000  # of them in the first queue; the others have the same number each
WORKERS = 10     # of each queue
LOADS = 5
QUIET = 7        # seconds without a client before each load: the server then reads Redis seldom
LOOK = 30        # seconds

MOST_FIRST_VIEW = 1000  # ms, with the lines of the last hour
MOST_REQUESTS = 8       # of the first view; not one for each queue
MOST_COMMAND = 20       # ms
MOST_MEMORY = 64        # MiB

# The states of a queue's messages; the rest is pending.
READY, DEAD, HELD = 0.2, 0.15, 0.05
REASONS = ['timeout after 30 s', 'no such customer', 'gateway: 502', 'out of stock', 'invalid address']

# Leases some of the pending messages for an hour, as a consumer does.
HOLD = '''
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZADD', KEYS[2], redis.call('TIME')[1] + 3600 .. '.000123', id)
end'''
# Entries of consumers, as they write them, with the messages that they hold.
REGISTER = '''
local now = redis.call('TIME')[1]
for i = 1, ARGV[1] do
  local entry = string.format('%d000000 %d000000', now + 3600, now) .. '\\nname=service\\nhost=web-' .. i ..
    '\\npid=' .. 4000 + i .. '\\nversion=0.1.0\\nqueues=1\\nqueue=' .. ARGV[2] ..
    '\\nbusy=5\\nconcurrency=8\\nin_flight=5\\n'
  for _, id in ipairs(redis.call('ZRANGE', KEYS[2], i * 5, i * 5 + 4)) do
    entry = entry .. 'running=' .. id .. ' 5000\\n'
  end
  redis.call('HSET', KEYS[1], string.format('0197f3a4-5b6c-7d8e-9f01-%06d%06d', ARGV[3], i), entry)
end'''

# Notes when all rows, and then all lines of the last hour, have been painted, in ms from the navigation on.
WATCH = '''
(() => {
  const wanted = {rows: 'main tbody tr', sparks: 'main svg.spark'};
  window.painted = {};
  new MutationObserver(() => {
    for (const [name, css] of Object.entries(wanted)) {
      if (name in window.painted || document.querySelectorAll(css).length < %d) continue;
      window.painted[name] = null;
      requestAnimationFrame(() => setTimeout(() => { window.painted[name] = performance.now(); }));
    }
  }).observe(document, {subtree: true, childList: true});
})()''' % QUEUES

TABLE = []  # what was measured: names and figures


def note(name, figure):
    TABLE.append((name, figure))


def name_of(index):
    return 'queue-%03d' % index


def fill(queues):
    others = (MESSAGES - LARGE) // (QUEUES - 1)
    for index in range(QUEUES):
        name = name_of(index)
        count = MESSAGES - others * (QUEUES - 1) if index == 0 else others
        ready, dead, held = (int(count * share) for share in (READY, DEAD, HELD))
        for begin in range(0, ready, 50_000):
            queues.send(name, ['{"order": %d}' % i for i in range(begin, min(begin + 50_000, ready))])
        ids = []
        for begin in range(ready, count, 50_000):
            ids += queues.send(name, ['{"order": %d}' % i for i in range(begin, min(begin + 50_000, count))], '3h')
        for i, why in enumerate(REASONS):
            queues.run('bury', '--why', why, '--yes', '--', name, '-',
                       text='\n'.join(ids[i:dead:len(REASONS)]) + '\n')
        for begin in range(0, held, 5000):
            queues.redis.command('EVAL', HOLD, 2, 'dp:%s:pending' % name, 'dp:%s:unack' % name, min(5000, held - begin))
        queues.redis.command('EVAL', REGISTER, 2, 'dp:%s:consumers' % name, 'dp:%s:unack' % name, WORKERS, name, index)


class Page:
    def __init__(self, queues, window):
        self.queues, self.window = queues, window
        window.devtools('Network.enable')
        window.devtools('Network.setCacheDisabled', cacheDisabled=True)
        window.devtools('Page.addScriptToEvaluateOnNewDocument', source=WATCH)
        window.show_as(1280, 900)

    def painted(self, what):
        """Milliseconds from the navigation until the rows, or the lines of the last hour, were on the screen."""
        return self.window.wait(what, lambda: self.window.run('return window.painted[arguments[0]]', what))

    def loads(self, titles):
        """Loads the first view again and again. titles: of what is waited for. Returns the medians."""
        times = {what: [] for what in titles}
        for _ in range(LOADS):
            self.window.open('about:blank')
            time.sleep(QUIET)
            self.window.open(self.queues.url)
            for what in titles:
                times[what].append(self.painted(what))
        medians = {what: statistics.median(times[what]) for what in titles}
        for what, title in titles.items():
            note(title, '%.0f ms, the median of %s' % (
                medians[what], ', '.join('%.0f' % each for each in sorted(times[what]))))
        return medians

    def requests(self):
        """How many requests have been answered since the page was opened."""
        return self.window.run('return performance.getEntriesByType("resource").length')

    def total(self):
        """The messages in the table of all queues."""
        cells = self.window.run('''return [...document.querySelectorAll("main tbody tr")]
          .map(row => [...row.cells].slice(2, 7).map(cell => cell.innerText))''')
        return sum(int(cell.replace(',', '')) for row in cells for cell in row)

    def look(self, view):
        self.window.run('location.hash = arguments[0]', view)
        self.window.find('main h1')
        self.window.wait_no_text('Reading', 'main')
        shown = self.window.text('main')
        for word in ('Cannot read', 'cannot be drawn', 'No message has this id', 'There is no such message'):
            assert word not in shown, '%s: %s' % (view, shown)

    def look_through(self, seconds):
        """Every view, again and again. Returns how often."""
        large, small = '#/queue/' + name_of(0), '#/queue/' + name_of(QUEUES - 1)
        message = self.queues.redis.command('ZRANGE', 'dp:%s:dead' % name_of(0), 0, 0)[0].decode()
        views = ['#/queues', '#/queues?filter=99', large, small, large + '/dead', small + '/dead',
                 large + '/partitions', large + '/workers', '#/message/%s/%s' % (name_of(0), message), '#/workers',
                 '#/audit', '#/find?text=' + message, '#/find?text=queue-05']
        views += ['%s/messages?state=%s' % (large, state) for state in ('pending', 'ready', 'unack', 'retry', 'dead')]
        views += [large + '/messages?state=dead&reason=stock', large + '/messages?state=pending&payload=4711',
                  large + '/messages?state=ready&payload=nothing']
        end = time.monotonic() + seconds
        seen = 0
        while seen < len(views) or time.monotonic() < end:
            began = time.monotonic()
            self.look(views[seen % len(views)])
            seen += 1
            time.sleep(max(0.0, seconds / len(views) - (time.monotonic() - began)))
        self.look('#/workers')
        rows = self.window.run('return document.querySelectorAll("main tbody tr").length')
        assert rows == QUEUES * WORKERS and 'damaged' not in self.window.text('main'), 'workers shown: %d' % rows
        return seen


def pin(pid, cores):
    for thread in os.listdir('/proc/%d/task' % pid):
        os.sched_setaffinity(int(thread), cores)


def give_redis_a_core(redis, serving):
    """The last core is for Redis alone; the server, and whatever this program starts from now on, have the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        pin(redis.process.pid, cores[-1:])
        pin(serving.pid, cores[:-1])
        os.sched_setaffinity(0, cores[:-1])
    note('cores: Redis / all others', '%s / %s' % (cores[-1:], cores[:-1] or cores))


def scripts_by_sha1():
    folder = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), '../generated/lua')
    names = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), 'rb') as file:
            names[hashlib.sha1(file.read()).hexdigest().encode()] = name
    return names


class RedisTimes:
    """What Redis' own statistics tell about the commands between start() and note()."""

    OWN = ('config', 'slowlog', 'info', 'zrange')  # commands of this test

    def __init__(self, redis):
        self.redis = redis
        self.scripts = scripts_by_sha1()

    def name_of_command(self, words):
        """Of an entry of SLOWLOG: the command, or the script that it runs."""
        command = words[0].decode().lower()
        return self.scripts.get(words[1], command) if len(words) > 1 else command

    def start(self):
        command = self.redis.command
        command('CONFIG', 'SET', 'slowlog-log-slower-than', 2000, 'slowlog-max-len', 10_000)
        if b'latency-tracking' in command('CONFIG', 'GET', 'latency-tracking'):  # since Redis 7
            command('CONFIG', 'SET', 'latency-tracking-info-percentiles', '50 99 100')
        command('SLOWLOG', 'RESET')
        command('CONFIG', 'RESETSTAT')
        self.cpu, self.began = self.cpu_seconds(), time.monotonic()

    def cpu_seconds(self):
        text = self.redis.command('INFO', 'cpu').decode()
        return sum(float(each) for each in re.findall(r'^used_cpu_(?:user|sys):(\S+)', text, re.M))

    def note(self):
        """Adds the figures to the table. Returns the longest single command, in ms."""
        span = time.monotonic() - self.began
        cpu = 100 * (self.cpu_seconds() - self.cpu) / span
        slow = [(entry[2] / 1000, self.name_of_command(entry[3]))
                for entry in self.redis.command('SLOWLOG', 'GET', -1)]
        slow = [entry for entry in slow if entry[1] not in self.OWN]
        stats = self.redis.command('INFO', 'commandstats').decode()
        latency = self.redis.command('INFO', 'latencystats').decode()
        rows = []
        for name, calls, mean in re.findall(r'^cmdstat_(\S+):calls=(\d+),usec=\d+,usec_per_call=([\d.]+)', stats, re.M):
            found = re.search(r'^latency_percentiles_usec_%s:p50=\S+?,p99=([\d.]+),p100=([\d.]+)' % re.escape(name),
                              latency, re.M)
            if name.split('|')[0] not in self.OWN or name == 'zrange':
                rows.append((name, int(calls), float(mean), float(found[1]) if found else None,
                             float(found[2]) if found else None))
        longest = max([row[4] / 1000 for row in rows if row[4]] + [entry[0] for entry in slow] + [0])
        note('Redis: longest single command', '%.2f ms' % longest if longest else 'not known, but below 2 ms')
        note('Redis: over 2 ms (scripts, and what they call)', '%d%s' % (len(slow), ': ' + ', '.join(
            '%s %.1f ms' % (name, ms) for ms, name in sorted(slow, reverse=True)[:5]) if slow else ''))
        note('Redis: share of a core', '%.1f %%' % cpu)
        for name, calls, mean, most_of, most in sorted(rows, key=lambda row: -row[1] * row[2])[:8]:
            times = ', p99 %.0f us, longest %.0f us' % (most_of, most) if most else ''
            note('Redis: ' + name, '%.0f a second, mean %.1f us%s' % (calls / span, mean, times))
        return longest


def most_memory(pid):
    with open('/proc/%d/status' % pid, encoding='utf-8') as file:
        return int(re.search(r'^VmHWM:\s+(\d+) kB', file.read(), re.M)[1]) / 1024


def measure_loads(queues, window):
    """Returns the longest median, in ms."""
    page = Page(queues, window)
    first = page.loads({'rows': 'first view: all %d queues' % QUEUES})
    assert page.total() == MESSAGES, page.total()
    # From the second minute on the rows have a line of the last hour.
    window.open(queues.url)
    window.patience = 150
    page.painted('sparks')
    later = page.loads({'rows': 'after minutes: all %d queues' % QUEUES,
                        'sparks': 'after minutes: with their lines of the last hour'})
    requests = page.requests()
    note('after minutes: requests', '%d, and the events' % requests)
    assert window.complaints() == []
    assert requests <= MOST_REQUESTS, 'requests of the first view: %d' % requests
    return max(first['rows'], later['sparks'])


def measure_commands(queues, window):
    """Returns Redis' longest single command, in ms."""
    page = Page(queues, window)
    window.open(queues.url)
    page.painted('rows')
    times = RedisTimes(queues.redis)
    times.start()
    seen = page.look_through(LOOK)
    note('views looked at', '%d in %d s' % (seen, LOOK))
    longest = times.note()
    assert window.complaints() == []
    return longest


def in_browser(measure, queues):
    window = browser.Browser()
    try:
        return measure(queues, window)
    finally:
        window.close()


def main():
    if len(sys.argv) != 2:
        sys.exit('usage: large_test.py DQCTL')
    missing = browser.missing() or (not fixture.redis_program() and 'redis-server')
    if missing:
        print('skipped: %s is not installed (scripts/setup.sh --page)' % missing)
        sys.exit(77)
    queues = fixture.Queues(os.path.abspath(sys.argv[1]), '--appendonly', 'no')
    try:
        began = time.monotonic()
        fill(queues)
        print('filled %d queues in %.0f s' % (QUEUES, time.monotonic() - began), flush=True)
        queues.serve('--payloads')
        first = in_browser(measure_loads, queues)
        give_redis_a_core(queues.redis, queues.serving)
        longest = in_browser(measure_commands, queues)
        memory = most_memory(queues.serving.pid)
        note('dqctl serve: most memory (VmHWM)', '%.1f MiB' % memory)
    finally:
        queues.close()
        for name, figure in TABLE:
            print('%-48s %s' % (name, figure))
    assert first < MOST_FIRST_VIEW, 'first view: %.0f ms' % first
    assert longest < MOST_COMMAND, 'longest command: %.1f ms' % longest
    assert memory < MOST_MEMORY, 'memory: %.1f MiB' % memory


if __name__ == '__main__':
    main()
