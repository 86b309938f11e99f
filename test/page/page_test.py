"""The page of `dqctl serve` in a real browser, on a private Redis.

   page_test.py DQCTL [AXE.JS] [unittest arguments]

Exit code 77: a program is missing, so nothing was tested. Without the file of axe-core the test of accessibility is
skipped (scripts/setup.sh --page installs all of it).
"""
import os
import re
import sys
import unittest

import browser
import fixture

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, '..', '..', 'tools', 'dqctl', 'page')
DQCTL, AXE = '', ''

EVIL = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'
HIDDEN = 'safe\u202egpj.exe'
WIDTHS = (390, 1280, 1920)
TABLE_WIDTHS = (320, 390, 768, 900, 1100, 1150, 1280)

# Times of another day take more room. The age of a time counts by the clock of the server, which the page reads by
# Date.parse: this moves it by days.
OTHER_DAY = 'const parse = Date.parse; Date.parse = text => parse(text) + 9.96 * 86400e3'

# The texts of a table's row that overlap, and those that leave their cell or the window.
OVERLAPS = '''
const found = [];
const isSeen = rect => rect.right - rect.left > 1 && rect.bottom - rect.top > 1;
const common = (a, b) => ({left: Math.max(a.left, b.left), right: Math.min(a.right, b.right),
  top: Math.max(a.top, b.top), bottom: Math.min(a.bottom, b.bottom)});
// Without what its elements cut off.
const textsOf = cell => {
  const texts = [];
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    let rects = [...range.getClientRects()];
    for (let node = walker.currentNode.parentElement; node !== cell; node = node.parentElement) {
      if (getComputedStyle(node).overflow !== 'visible')
        rects = rects.map(rect => common(rect, node.getBoundingClientRect()));
    }
    texts.push(...rects.filter(isSeen));
  }
  return texts;
};
for (const row of document.querySelectorAll('main tr')) {
  const boxes = [...row.cells].filter(cell => cell.checkVisibility() && isSeen(cell.getBoundingClientRect()))
    .map(cell => ({cell, own: cell.getBoundingClientRect(), texts: textsOf(cell)}));
  boxes.forEach((box, i) => box.texts.forEach(text => {
    if (text.right > innerWidth + 1) found.push('beyond the window: ' + box.cell.innerText);
    if (text.right > box.own.right + 1.5) found.push('beyond its cell: ' + box.cell.innerText);
    for (const other of boxes.slice(i + 1))
      if (other.texts.some(rect => isSeen(common(text, rect))))
        found.push(box.cell.innerText + ' over ' + other.cell.innerText);
  }));
}
return [...new Set(found)];'''


def source(name):
    with open(os.path.join(PAGE, name), encoding='utf-8') as file:
        return file.read()


class Sources(unittest.TestCase):
    def test_no_text_can_become_markup_or_code(self):
        for word in ('innerHTML', 'outerHTML', 'insertAdjacentHTML', 'document.write', 'eval(', 'new Function',
                     'DOMParser', 'createContextualFragment', 'srcdoc', 'javascript:', 'localStorage',
                     'document.cookie'):
            self.assertNotIn(word, source('page.js') + source('elements.js'))

    def test_each_file_fits_into_a_string_that_every_compiler_accepts(self):
        for name in ('index.html', 'style.css', 'elements.js', 'page.js'):
            self.assertLess(len(source(name).encode()), 65536, name)

    def test_nothing_is_inline_and_nothing_comes_from_elsewhere(self):
        html = source('index.html')
        self.assertIsNone(re.search(r'<style|\sstyle=|\son\w+=|<script(?![^>]*\bsrc=)', html))
        self.assertEqual(re.findall(r'(?:src|href)="([^"]*)"', html), ['style.css', 'page.js', '#main'])
        for name in ('index.html', 'style.css', 'elements.js', 'page.js'):
            self.assertEqual(re.findall(r'(?:https?:)?//[a-z][\w.]*\.\w+', source(name).replace(
                'http://www.w3.org/2000/svg', '')), [], name)
            self.assertNotIn('url(', source(name), name)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.queues = fixture.Queues(DQCTL)
        cls.addClassCleanup(cls.queues.close)
        cls.fill(cls.queues)
        cls.queues.serve('--allow-changes', '--payloads')
        cls.window = browser.Browser()
        cls.addClassCleanup(cls.window.close)

    @classmethod
    def fill(cls, queues):
        cls.late_ids = queues.late('orders', ['{"order": %d}' % i for i in range(7)], 1500)
        cls.held = queues.hold('orders', 'held payload', 600)
        queues.send('orders', ['later'], '2h')
        queues.bury('orders', ['{"order": 70%d}' % i for i in range(4)], 'timeout after 30 s')
        queues.bury('orders', ['{"order": 80%d}' % i for i in range(2)], 'no such customer [4711]*?')
        cls.pages = queues.send('emails', ['mail %d' % i for i in range(120)], '3h')
        queues.send('quiet', ['x'], '1h')
        queues.send('wide', ['x'], '1h')
        queues.run('partitions', 'wide', '--set', '4')
        cls.evil = queues.bury(EVIL, [EVIL], EVIL)[0]
        queues.send(HIDDEN, [HIDDEN], '1h')
        queues.send('a/b %2F?#&ü', ['x'], '1h')
        queues.run('pause', EVIL, '--why', EVIL)

    def setUp(self):
        self.window.show_as(1280, 900)
        self.window.complaints()

    def show(self, path):
        """Loads the page anew, so that a test does not depend on the one before."""
        self.window.open('about:blank')
        self.window.open(self.queues.url + path)

    def rows(self, css='main tbody tr'):
        return self.window.run('''return [...document.querySelectorAll(arguments[0])]
          .map(row => [...row.cells].map(cell => cell.innerText.trim()))''', css)

    def new_names(self, count, seen):
        names = self.names()
        return names if len(names) == count and names[0] not in seen else None

    def names(self):
        return [row[0] for row in self.rows()]

    # ---- reading

    def test_the_first_view_has_a_row_for_each_queue_with_its_counts_and_what_is_stuck(self):
        self.show('#/queues')
        self.window.wait_text('orders', 'main table')
        self.window.wait('a finding', lambda: 'critical' in self.window.text('main table'))
        (row,) = [row for row in self.rows() if row[0] == 'orders']
        self.assertIn('critical', row[1])
        self.assertEqual(row[2:7], ['8', '0', '1', '0', '6'])
        self.assertRegex(row[9], '2[5-9] min')
        self.assertEqual(self.window.run('return document.querySelectorAll("main thead th[scope=col]").length'), 11)
        self.assertEqual(self.window.run('return document.querySelector("main tbody th").scope'), 'row')
        (paused,) = [row for row in self.rows() if row[0] == EVIL]
        self.assertIn('paused', paused[1])

    def test_a_column_sorts_and_the_link_keeps_order_and_filter(self):
        self.show('#/queues')
        self.window.click('main th button', 'Pending')
        self.window.wait('sorted by pending', lambda: self.names()[:2] == ['emails', 'orders'])
        sort = '''return [...document.querySelectorAll("th[aria-sort]")]
          .map(th => th.getAttribute("aria-sort")).join(" ")'''
        self.assertEqual(self.window.run(sort).split().count('descending'), 1)
        self.window.click('main th button', 'Queue')
        plain = ('emails', 'orders', 'quiet', 'wide')
        self.window.wait('sorted by name', lambda: tuple(name for name in self.names() if name in plain) == plain)
        self.window.write('main input[name=filter]', 'ORD')
        self.window.wait('filtered', lambda: self.names() == ['orders'])
        self.assertRegex(self.window.text('main .line'), r'\b1 of \d+ queues\b')
        self.window.run('location.reload()')
        self.window.wait('filtered after a reload', lambda: self.names() == ['orders'])
        self.assertIn('ascending', self.window.run(sort))

    def test_a_queue_shows_its_counts_what_is_stuck_and_why(self):
        self.show('#/queue/orders')
        self.window.wait_text('Do:', 'main')
        self.assertIn('Why:', self.window.text('main'))
        counts = self.window.text('main dl')
        for word in ('Pending\n8', 'Unacked\n1', 'Dead\n6'):
            self.assertIn(word, counts)
        self.window.wait_text('The last hour', 'main')

    def test_messages_are_listed_page_by_page(self):
        self.show('#/queue/emails/messages?state=pending')
        seen = []
        for expected in (50, 50, 20):
            seen += self.window.wait('a page', lambda n=expected: self.new_names(n, seen))
            if expected == 50:
                self.window.click('main a', 'Next page')
        self.assertEqual(sorted(seen), sorted(self.pages))
        self.window.click('main a', 'First page')
        self.window.wait('the first page', lambda: self.rows() and self.rows()[0][0] == seen[0])

    def test_messages_are_found_by_id_reason_and_payload(self):
        self.show('#/queue/orders/messages?state=dead')
        self.window.wait('six dead letters', lambda: len(self.rows()) == 6)
        self.window.write('main input[name=reason]', 'timeout')
        self.window.press('Enter')
        self.window.wait('four by reason', lambda: len(self.rows()) == 4)
        self.window.write('main input[name=payload]', '"order": 702')
        self.window.press('Enter')
        self.window.wait('one by payload', lambda: len(self.rows()) == 1)
        self.assertIn('702', self.rows()[0][-1])
        self.window.write('main input[name=id]', self.late_ids[0])
        self.window.press('Enter')
        self.window.wait_text(self.late_ids[0], 'h1')
        self.window.write('#find input', self.late_ids[1])
        self.window.press('Enter')
        self.window.wait_text('pending in orders', 'main')
        self.window.click('main li a', self.late_ids[1])
        self.window.wait_text(self.late_ids[1], 'h1')

    def test_dead_letters_are_grouped_by_reason_and_a_group_can_be_listed(self):
        self.show('#/queue/orders/dead')
        self.window.wait('two reasons', lambda: len(self.rows()) == 2)
        self.assertEqual([row[:2] for row in self.rows()],
                         [['4', 'timeout after 30 s'], ['2', 'no such customer [4711]*?']])
        self.window.run('document.querySelectorAll("main tbody tr")[1].querySelector("a[href*=messages]").click()')
        self.window.wait('its two messages', lambda: len(self.rows()) == 2 and '4711' in self.rows()[0][6])

    def test_a_message_shows_all_that_is_known(self):
        self.show('#/message/orders/' + self.held)
        self.window.wait_text('in flight', 'main')
        text = self.window.text('main')
        for word in ('Lease or backoff ends', 'Deliveries', 'Retries left\n3', 'Partition\n0', '12 bytes',
                     'held payload'):
            self.assertIn(word, text)
        self.show('#/message/orders/00000000-0000-4000-8000-000000000000')
        self.window.wait_text('There is no such message now', 'main')

    def test_partitions_workers_and_audit_have_views(self):
        self.show('#/queue/wide/partitions')
        self.window.wait('four partitions', lambda: [row[0] for row in self.rows()] == ['0', '1', '2', '3'])
        for view, word in (('#/workers', 'Workers'), ('#/queue/orders/workers', 'Workers of this queue'),
                           ('#/audit', 'Audit')):
            self.show(view)
            self.window.wait_text(word, 'main')
            self.window.wait_no_text('Reading', 'main')
            self.assertNotIn('Cannot read', self.window.text('main'))

    def test_figures_change_without_a_reload_and_the_focus_stays(self):
        self.show('#/queues?filter=quiet')
        self.window.wait('one pending', lambda: self.rows() and self.rows()[0][2] == '1')
        self.window.run('window.same = document.querySelector("main tbody a"); window.same.focus()')
        self.queues.send('quiet', ['y', 'z'], '1h')
        self.window.wait('three pending', lambda: self.rows()[0][2] == '3')
        self.assertTrue(self.window.run('return document.activeElement === window.same && window.same.isConnected'))

    def test_hostile_names_payloads_and_reasons_are_shown_as_text(self):
        evil = self.window_address(EVIL)
        for view in ('#/queues', '#/queue/' + evil, '#/queue/%s/messages?state=dead' % evil, '#/queue/%s/dead' % evil,
                     '#/message/%s/%s' % (evil, self.evil), '#/find?text=script', '#/queue/%s/partitions' % evil):
            self.show(view)
            self.window.wait_text('<script>', 'main')
            self.assertEqual(self.window.run('return [window.broken ?? 0, document.scripts.length, '
                                             'document.querySelectorAll("img, main script").length]'), [0, 1, 0], view)
        self.show('#/queues')
        self.window.wait_text('safe\\u202egpj.exe', 'main')
        self.show('#/queue/' + self.window_address(HIDDEN))
        self.window.wait('an escaped title', lambda: 'safe\\u202egpj.exe' in self.window.run('return document.title'))
        self.show('#/queue/' + self.window_address('a/b %2F?#&ü'))
        self.window.wait_text('a/b %2F?#&ü', 'h1')
        self.assertEqual(self.window.complaints(), [])

    def test_queues_and_ids_that_a_browser_would_remove_from_a_path_are_shown(self):
        for name in ('.', '..', '~.'):
            (message,) = self.queues.send(name, ['dots'], '1h')
            self.show('#/queues')
            self.window.click('main tbody a', name)
            self.window.wait_text(name, 'h1')
            self.window.wait_text('next in', 'main dl')
            for part, text in (('messages', message), ('dead', 'No dead letters'), ('partitions', 'Master')):
                self.show('#/queue/%s/%s' % (name, part))
                self.window.wait_text(text, 'main')
            self.show('#/message/%s/%s' % (name, message))
            self.window.wait_text('4 bytes', 'main')
            self.change('#/message/%s/%s' % (name, message), 'Release now', 'Release this message')
            self.assertEqual(self.queues.count(name, 'ready'), 1)
        for wrong in ('..', '%2e%2e', '../dead'):
            self.show('#/message/orders/' + wrong)
            self.window.wait_text('expected a UUID', 'main')

    def window_address(self, name):
        return self.window.run('return encodeURIComponent(arguments[0])', name)

    # ---- changing

    def change(self, path, label, confirm, fields=(), meanwhile=lambda: None):
        """A change by its button: fields, dry run, confirmation. `meanwhile` is called when the dry run is shown."""
        self.show(path)
        self.window.click('main button', label + ' …')
        for name, value in fields:
            self.window.write('dialog input[name=%s]' % name, value)
        if fields:
            self.window.press('Enter')
        self.window.find('dialog button', confirm)
        self.assertIn('nothing is changed yet', self.window.text('dialog'))
        self.assertEqual(self.window.run('return document.activeElement.innerText'), 'Do nothing')
        meanwhile()
        self.window.click('dialog button', confirm)
        self.window.wait('the result', lambda: self.window.run(
            'const b = document.querySelectorAll("dialog button"); return b.length == 1 && b[0].innerText == "Close"'))
        self.assertEqual(self.window.text('dialog .bad'), '')
        self.window.press('Escape')

    def test_a_queue_is_paused_and_resumed_and_the_audit_list_has_both(self):
        queue = 'pauses'
        self.queues.send(queue, ['x'], '1h')
        self.change('#/queue/pauses', 'Pause', 'Pause pauses', [('for_ms', '2h 30m'), ('reason', 'migration ' + EVIL)])
        self.window.wait_text('paused', '.line .mark')
        self.assertIn('migration', self.queues.run('stats', queue, '-o', 'json'))
        self.change('#/queue/pauses', 'Resume', 'Resume pauses')
        self.window.wait('no pause', lambda: 'paused' not in self.window.text('.line .mark'))
        self.show('#/audit')
        self.window.wait('both', lambda: [row[2] for row in self.rows() if row[3] == queue] == ['resume', 'pause'])

    def test_the_limits_of_a_queue_are_shown_in_words_and_what_holds_it_back(self):
        queue = 'limits'
        self.queues.hold(queue, 'held', 3600)
        self.queues.run('limit', queue, '--running', '2', '--rate', '100/s')
        self.show('#/queue/limits')
        self.window.wait_text('rate 100/s; 1 of 2 running', '.line .quiet')
        self.assertNotIn('limit', self.window.text('.line .mark'))
        self.queues.run('limit', queue, '--running', '1')
        self.window.wait_text('1 of 1 running', '.line .quiet')
        self.window.wait_text('limit', '.line .mark')
        self.show('#/queues')
        self.window.wait('held back', lambda: [row for row in self.rows() if row[0] == queue
                                               and 'held back by its limit: 1 of 1 running' in row[1]])

    def test_dead_letters_are_redriven_by_reason_after_a_dry_run(self):
        queue = 'redrives'
        self.queues.bury(queue, ['a', 'b', 'c'], 'timeout')
        self.queues.bury(queue, ['d'], 'other')
        self.change('#/queue/redrives', 'Redrive', 'Redrive 3 dead letters', [('reason', 'time*')],
                    lambda: self.assertEqual(self.queues.count(queue, 'dead'), 4))
        self.assertEqual((self.queues.count(queue, 'dead'), self.queues.count(queue, 'ready')), (1, 3))

    def test_a_text_that_is_cut_ends_with_an_ellipsis(self):
        long = 'a' * 300
        self.queues.bury('cut', [long, 'short'], 'b' * 300)
        self.show('#/queue/cut/messages?state=dead')
        self.window.wait('both', lambda: len(self.rows()) == 2)
        shown = [row[-1] for row in self.rows()]
        self.assertEqual(sorted(shown), ['a' * 64 + '…', 'short'])
        self.assertIn('b' * 300, self.rows()[0][-2])
        self.window.click('main button', 'Redrive …')
        self.window.click('dialog button', 'Dry run')
        self.window.wait_text('b' * 200 + '…', 'dialog')

    def test_a_purge_deletes_what_its_dry_run_counted_and_no_more(self):
        queue = 'purges'
        self.queues.bury(queue, ['a', 'b', 'c'], 'timeout')
        self.change('#/queue/purges', 'Purge', 'Delete 3 dead letters for ever', [('reason', '')],
                    lambda: self.queues.bury(queue, ['d', 'e'], 'timeout'))
        self.assertEqual(self.queues.count(queue, 'dead'), 2)

    def test_one_message_is_released_rescheduled_cancelled_and_redriven(self):
        queue = 'ones'
        first, second, third = self.queues.send(queue, ['a', 'b', 'c'], '1h')
        (dead,) = self.queues.bury(queue, ['d'], 'why')
        self.change('#/message/ones/' + first, 'Release now', 'Release this message')
        self.assertEqual(self.queues.count(queue, 'ready'), 1)
        before = float(self.queues.redis.command('ZSCORE', 'dp:ones:pending', second))
        self.change('#/message/ones/' + second, 'Reschedule', 'Reschedule this message', [('delay_ms', '3h')])
        after = float(self.queues.redis.command('ZSCORE', 'dp:ones:pending', second))
        self.assertAlmostEqual(after - before, 7200, delta=60)
        self.change('#/message/ones/' + third, 'Cancel', 'Cancel this message')
        self.assertIsNone(self.queues.redis.command('ZSCORE', 'dp:ones:pending', third))
        self.change('#/message/ones/' + dead, 'Redrive', 'Redrive this message', [('retries', '1')])
        self.assertEqual((self.queues.count(queue, 'dead'), self.queues.count(queue, 'ready')), (0, 2))

    def test_a_dialog_begins_safely_closes_with_escape_and_returns_the_focus(self):
        self.show('#/queue/orders')
        self.window.find('main button', 'Purge …')
        self.window.run('''[...document.querySelectorAll("main button")]
          .find(button => button.innerText.startsWith("Purge")).focus()''')
        self.window.press('Enter')
        self.window.find('dialog form')
        self.window.write('dialog input[name=older_than_ms]', 'soon')
        self.window.press('Enter')
        self.window.wait_text('Write a duration', 'dialog')
        self.assertEqual(self.window.run('return document.activeElement.name'), 'older_than_ms')
        self.window.press('Escape')
        self.window.wait('closed', lambda: not self.window.run('return document.querySelector("dialog").open'))
        self.assertEqual(self.window.run('return document.activeElement.innerText'), 'Purge …')
        self.assertEqual(self.queues.count('orders', 'dead'), 6)

    # ---- looks

    def views(self):
        return ['#/queues', '#/queue/orders', '#/queue/orders/messages?state=dead',
                '#/queue/orders/messages?state=unack', '#/queue/orders/dead', '#/queue/wide/partitions',
                '#/message/orders/' + self.held, '#/message/%s/%s' % (self.window_address(EVIL), self.evil),
                '#/workers', '#/audit', '#/find?text=o']

    def test_no_view_is_wider_than_its_window(self):
        for view in self.views():
            self.show(view)
            self.window.find('main h1')
            self.window.wait_no_text('Reading', 'main')
            for width in WIDTHS + (600, 1024, 1160):
                self.window.show_as(width, 900)
                needed = self.window.run('return document.documentElement.scrollWidth')
                self.assertLessEqual(needed, width, (view, width))

    def test_no_text_of_a_table_overlaps_another_one_with_times_of_other_days(self):
        self.queues.run('pause', 'quiet', '--why', 'for the audit')
        self.change('#/queue/quiet', 'Resume', 'Resume quiet')
        script = self.window.devtools('Page.addScriptToEvaluateOnNewDocument', source=OTHER_DAY)['identifier']
        self.addCleanup(self.window.devtools, 'Page.removeScriptToEvaluateOnNewDocument', identifier=script)
        more = ['#/queue/emails/messages?state=pending', '#/queue/%s/dead' % self.window_address(EVIL)]
        for view in self.views() + more:
            self.show(view)
            self.window.find('main h1')
            self.window.wait_no_text('Reading', 'main')
            if 'time' in self.window.run('return [...document.querySelectorAll("main td time")].map(e => e.tagName)'
                                         '.join(" ").toLowerCase()'):
                self.window.wait('other days', lambda: self.window.run(
                    'return [...document.querySelectorAll("main td time")].every(e => /^\\d+-/.test(e.innerText))'))
            for width in TABLE_WIDTHS:
                self.window.show_as(width, 900)
                self.assertEqual(self.window.run(OVERLAPS), [], (view, width))

    def test_axe_finds_nothing_in_any_view_size_and_scheme(self):
        if not os.path.exists(AXE):
            self.skipTest('axe-core is not installed: scripts/setup.sh --page')
        with open(AXE, encoding='utf-8') as file:
            axe = file.read()
        for view in self.views() + ['dialog']:
            self.window.show_as(1280, 900)
            self.show('#/queue/orders' if view == 'dialog' else view)
            self.window.find('main h1')
            self.window.wait_no_text('Reading', 'main')
            if view == 'dialog':
                self.window.click('main button', 'Purge …')
                self.window.click('dialog button', 'Dry run')
                self.window.wait_text('nothing is changed yet', 'dialog')
            self.window.run(axe)
            for width in WIDTHS:
                for scheme in ('light', 'dark'):
                    self.window.show_as(width, 900, scheme, 'reduce')
                    found = self.window.run_async('''const done = arguments[arguments.length - 1];
                      axe.run(document, {resultTypes: ['violations']}).then(result => done(result.violations
                        .map(each => each.id + ': ' + each.nodes.map(node => node.html).join(' '))))''')
                    self.assertEqual(found, [], (view, width, scheme))


class Away(unittest.TestCase):
    """Tests that stop servers, or start dqctl serve with other options."""

    def setUp(self):
        self.queues = fixture.Queues(DQCTL)
        self.addCleanup(self.queues.close)
        self.queues.send('orders', ['x'], '1h')
        self.window = browser.Browser()
        self.addCleanup(self.window.close)

    def wait_pending(self, number):
        script = 'return document.querySelector("main tbody td:nth-of-type(2)")?.innerText'
        self.window.wait('%s pending' % number, lambda: self.window.run(script) == number)

    def test_the_page_says_that_redis_is_away_and_goes_on_when_it_is_back(self):
        self.queues.serve()
        self.window.open(self.queues.url)
        self.wait_pending('1')
        self.queues.redis.stop()
        self.window.wait_text('Redis is not reachable since', '#alarms')
        self.window.wait_text('What you see is from', '#alarms')
        self.wait_pending('1')  # the last known state stays
        self.queues.redis.start()
        self.window.wait_no_text('Redis is not reachable', '#alarms')
        self.queues.send('orders', ['y'], '1h')
        self.wait_pending('2')

    def test_the_page_says_that_the_server_is_away_and_goes_on_when_it_is_back(self):
        self.queues.serve()
        self.window.open(self.queues.url)
        self.wait_pending('1')
        self.queues.stop_serving()
        self.window.wait_text('dqctl serve has not answered since', '#alarms')
        self.window.wait_text('away for', '#live')
        self.queues.send('orders', ['y'], '1h')
        self.queues.serve()
        self.window.wait_no_text('has not answered', '#alarms')
        self.wait_pending('2')

    def test_without_allow_changes_there_is_nothing_to_click(self):
        self.queues.serve()
        (message,) = self.queues.bury('orders', ['x'], 'why')
        for view in ('#/queue/orders', '#/queue/orders/dead', '#/message/orders/' + message):
            self.window.open('about:blank')
            self.window.open(self.queues.url + view)
            self.window.find('main section')
            self.window.wait_no_text('Reading', 'main')
            self.assertEqual(self.window.run('return document.querySelectorAll("main button").length'), 0, view)
        self.window.wait_text('Hidden: dqctl serve shows payloads only with --payloads', 'main')

    def test_the_token_is_asked_for_once_and_a_wrong_one_is_refused(self):
        secret = 'correct-horse-battery-staple-0123456789'
        path = os.path.join(self.queues.folder, 'token')
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), 'w', encoding='utf-8') as file:
            file.write(secret + '\n')
        self.queues.serve('--token-file', path)
        self.window.open(self.queues.url)
        self.window.wait_text('asks for a token', 'dialog')
        self.window.write('dialog input', 'wrong')
        self.window.press('Enter')
        self.window.wait_text('does not accept this token', 'dialog')
        self.window.write('dialog input', secret)
        self.window.press('Enter')
        self.wait_pending('1')
        self.window.run('location.reload()')
        self.wait_pending('1')
        self.assertFalse(self.window.run('return document.querySelector("dialog").open'))
        self.assertNotIn(secret, self.window.run('return location.href'))


def main():
    global DQCTL, AXE  # pylint: disable=global-statement
    if len(sys.argv) < 2:
        sys.exit('usage: page_test.py DQCTL [AXE.JS] [unittest arguments]')
    DQCTL = os.path.abspath(sys.argv.pop(1))
    AXE = sys.argv.pop(1) if len(sys.argv) > 1 and sys.argv[1].endswith('.js') else ''
    missing = browser.missing() or (not fixture.redis_program() and 'redis-server')
    if missing:
        print('skipped: %s is not installed (scripts/setup.sh --page)' % missing)
        sys.exit(77)
    unittest.main(verbosity=2)


if __name__ == '__main__':
    main()
