"""scripts/bench_report on a sample (sample.json, invented figures), and on what is wrong."""
import copy
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, '..', '..', 'scripts', 'bench_report')
with open(os.path.join(HERE, 'sample.json'), encoding='utf-8') as file:
    SAMPLE = json.load(file)


# What looks like a figure of a run, on the page of the benchmark and on other pages. The latter have more constants.
PERFORMANCE = r'[\d.,]*\d ?(?:%|(?:us|µs|ms|percent|times)\b)|\d[.,]\d+'
OTHER_PAGES = (r'[\d.,]*\d ?(?:%|(?:us|µs|percent|times)\b)|\d+\.\d+ ?m?s\b|\d+ to \d+ ms\b|in the median\b|'
               r'\b[Mm]easured with\b')
SETTINGS = {  # numbers of this form that are part of the design
    'performance.md': ['2 ms'],  # the bound for a call
    'deployment.md': ['90%'],  # of maxmemory, from which on `dqctl doctor` warns
    'metrics.md': ['90 %'],
    'operations.md': ['90%'],
    'reference.md': ['60 us', '1000 us', '0.5 s'],
}


def typed_figures(text, pattern):
    """The figures in the prose of a page, without what bench_report writes and without code."""
    prose = re.sub(r'<!-- bench_report: .*?<!-- /bench_report -->|```.*?```|`[^`]*`', '', text, flags=re.S)
    return re.findall(pattern, prose)


def run(arguments, text=''):
    return subprocess.run([sys.executable, PROGRAM] + arguments, input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def report(self, figures, *more):
        """The files that came of it: name -> text."""
        done = run(['--out', os.path.join(self.folder.name, 'out')] + list(more), json.dumps(figures))
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ''))
        files = {}
        for path in done.stdout.decode().split():
            with open(path, encoding='utf-8') as file:
                files[os.path.basename(path)] = file.read()
        self.assertEqual(sorted(files), ['lateness.svg', 'report.md', 'throughput.svg'])
        return files

    def rows(self, markdown, title):
        """The cells of each line of a section's table, by their first."""
        markdown = markdown.split('## %s\n' % title)[1].split('\n## ')[0]
        lines = [line.strip('| ').split(' | ') for line in markdown.splitlines() if line.startswith('|')]
        return {cells[0]: [cell.strip() for cell in cells[1:]] for cells in lines}

    def test_the_table_has_every_library_and_marks_the_best_of_a_line(self):
        rows = self.rows(self.report(SAMPLE)['report.md'], 'Beside other libraries')
        titles = ['**delayqueue**', 'Go delayqueue 1.1.2', 'BullMQ 6.7.0', 'Redisson 4.7.0']
        self.assertEqual(rows['messages a second'], titles)
        self.assertEqual(rows['send, one thread'], ['19,500', '**25,374**', '8,148', '15,171'])
        self.assertEqual(rows['send, one thread, one core'], ['24,000', '**25,000**', '–', '–'])
        self.assertEqual(rows['send, one thread, two cores'], ['**11,900**', '9,000', '–', '–'])
        self.assertEqual(rows['send, its fastest way'], ['**172,000**', '49,786', '29,647', '39,096'])
        self.assertEqual(rows['receive, due, one handler'], ['**96,000**', '9,184', '6,573', '–'])
        self.assertEqual(rows['receive, due, its fastest way'], ['**151,000**', '22,792', '17,576', '–'])
        eight = ['**145,000**', '18,100', '12,800', '20,687 †']
        self.assertEqual(rows['receive, scheduled, eight handlers'], eight)
        fastest = ['145,000', '22,100', '16,900', '**146,147** †']
        self.assertEqual(rows['receive, scheduled, its fastest way'], fastest)
        self.assertEqual(rows['min'], ['0.08', '−53.6', '0.26', '0.06'])
        self.assertEqual(rows['p50, tuned'], ['–', '−435', '–', '–'])
        self.assertEqual(rows['bytes for each waiting message'], ['431', '696', '930', '**275**'])
        self.assertEqual(rows['requests a second of an idle worker'], ['1.1', '4.5', '**0**', '**0**'])

    def test_figures_stand_beside_their_limits(self):
        rows = self.rows(self.report(SAMPLE)['report.md'], 'Figures and limits')
        self.assertEqual(rows['send, one thread, on one core'],
                         ['`send.one_thread.one_core`', '24,000', '`limit.script.one_core`', '60,000', '0.40'])
        self.assertEqual(rows['the script of a send without the library on one core'],
                         ['`limit.send_script.one_core`', '40,000', '`limit.script.one_core`', '60,000', '0.67'])
        self.assertNotIn('the script of a send without the library on two cores', rows)
        self.assertEqual(rows['receive, round trip of 1 ms'],
                         ['`link.1.receive`', '45,000', '`link.none.receive`', '100,000', '0.45'])
        self.assertEqual(rows['end to end'], ['`end_to_end`', '71,000', '`limit.end_to_end_moves`', '100,000', '0.71'])
        self.assertEqual(rows['end to end, each move in a script that checks nothing'],
                         ['`limit.end_to_end_moves`', '100,000', '`limit.end_to_end`', '200,000', '0.50'])
        self.assertEqual(rows['send, one queue for each thread, shared connections, threads: 8'],
                         ['`sharing.8.shared.send`', '45,000', '`sharing.8.own.send`', '50,000', '0.90'])
        self.assertNotIn('send, TLS', rows)  # was not measured
        without = copy.deepcopy(SAMPLE)
        del without['limit']['end_to_end_moves']  # as in runs from before that limit
        rows = self.rows(self.report(without)['report.md'], 'Figures and limits')
        self.assertEqual(rows['end to end'], ['`end_to_end`', '71,000'])

    def test_figures_that_belong_together_share_a_row(self):
        report = self.report(SAMPLE)['report.md']
        self.assertEqual(self.rows(report, 'Lateness')['`lateness_ms`'], ['0.08', '0.6', '2.4', '–', '7.9'])
        self.assertEqual(self.rows(report, 'Time of single calls')['`send_1mib`'], ['0.7', '0.8', '–'])
        border = self.rows(report, 'Bodies through Lua, and beside it')
        self.assertEqual(border['`border.64`'], ['**9**', '12', '**3**', '5.5'])
        self.assertEqual(border['`border.1048576`'], ['2,300', '**800**', '–', '–'])
        self.assertNotIn('`border.16`', border)
        self.assertEqual(self.rows(report, 'The run')['cores'], ['2'])
        self.assertEqual(self.rows(report, 'Other figures')['`sleeps_per_send.eight_threads`'], ['0.9'])
        self.assertIn('## CPU time of Redis\n\nNot in this run.\n', report)

    def test_headers_and_the_registry_have_rows(self):
        figures = copy.deepcopy(SAMPLE)
        figures['headers'] = {'none': {'send_redis_us': 2}, '1kib': {'send_redis_us': 5}}
        figures['registry'] = {'100': {'call_us': 40, 'read_ms': 0.25}}
        report = self.report(figures)['report.md']
        rows = self.rows(report, 'CPU time of Redis')
        self.assertEqual(rows['send, batches, no headers'], ['`headers.none.send_redis_us`', '2'])
        self.assertEqual(rows['send, batches, a header of 1 KiB'],
                         ['`headers.1kib.send_redis_us`', '5', '`headers.none.send_redis_us`', '2', '2.50'])
        self.assertEqual(rows['entry of a consumer, consumers: 100'], ['`registry.100.call_us`', '40'])
        self.assertEqual(self.rows(report, 'Other figures')['`registry.100.read_ms`'], ['0.25'])

    def test_a_run_that_took_too_long_has_a_note(self):
        def note(run, seconds, *without):
            figures = {key: value for key, value in SAMPLE.items() if key not in without}
            figures['environment'] = dict(SAMPLE['environment'], run=run, seconds=seconds)
            report = self.report(figures)['report.md']
            self.assertEqual(self.rows(report, 'The run')['seconds'], [seconds])
            found = re.findall('This (.*) run took (.*) s, but should take at most (.*) s: the machine', report)
            return found[0] if found else None

        others = ('peers', 'partitions', 'border', 'sharing')
        self.assertIsNone(note('quick', '60.0', *others))
        self.assertEqual(note('quick', '75.4', *others), ('quick', '75', '60'))
        self.assertIsNone(note('full', '720.0', *others))
        self.assertEqual(note('full', '731.2', *others), ('full', '731', '720'))
        self.assertIsNone(note('tiny', '2000.0', *others))
        for key in others:  # take more time
            self.assertIsNone(note('full', '2000.0', *[other for other in others if other != key]))
        self.assertIsNone(note('full', 'unknown', *others))

    def test_masters_of_a_cluster_stand_beside_one_of_them(self):
        report = self.report(SAMPLE, '--targets')['report.md']
        rows = self.rows(report, 'One queue on several masters')
        self.assertEqual(rows['send'], ['3', '40,000', '116,000', '114,000', '`ratio.partitions_3_send`', '2.85', '0.98'])
        self.assertEqual(rows['us of Redis for both of a message'],
                         ['3', '15', '–', '15.6', '`ratio.partitions_3_redis_us`', '1.04', '–'])
        self.assertEqual(rows['CPU time of the busiest / mean'],
                         ['3', '', '', '', '`partitions.3.busiest`', '1.04'])
        targets = self.rows(report, 'Targets')
        self.assertEqual(targets['`ratio.partitions_3_send`'], ['2.85', 'at least 2.7', 'pass'])
        self.assertEqual(targets['`ratio.partitions_lone_p99`'], ['1.1', 'at most 1.5', 'pass'])
        self.assertEqual(self.rows(report, 'Lateness')['`partitions.lone.lateness_ms.32`'], ['–', '11', '24.5', '–', '–'])
        self.assertEqual(targets['`partitions.6.busiest`'], ['–', 'at most 1.15', 'not measured'])

    def test_a_library_with_one_form_has_a_footnote(self):
        report = self.report(SAMPLE)['report.md']
        self.assertIn('- Redisson: fastest send: 500 async, scheduled: poll(500);', report)
        self.assertEqual(report.count('no figures for due messages'), 1)
        self.assertNotIn('no figures for scheduled messages', report)

    def test_what_was_skipped_is_named_with_its_reason(self):
        self.assertIn('- asynq: not measured: go is not installed.', self.report(SAMPLE)['report.md'])

    def test_how_fast_the_machine_was_is_said_if_known_for_all(self):
        known = 'equally fast: Go delayqueue 1000k, BullMQ 1050k, Redisson 1100k.'
        self.assertIn(known, self.report(SAMPLE)['report.md'])
        unknown = copy.deepcopy(SAMPLE)
        del unknown['peers']['bullmq']['machine']
        self.assertNotIn('equally fast', self.report(unknown)['report.md'])

    def test_targets_say_pass_short_or_not_measured(self):
        self.assertNotIn('Targets', self.report(SAMPLE)['report.md'])
        rows = self.rows(self.report(SAMPLE, '--targets')['report.md'], 'Targets')
        self.assertEqual(rows['`ratio.send`'], ['0.88', 'at least 0.9', '**short**'])
        self.assertEqual(rows['`ratio.receive`'], ['0.88', 'at least 0.85', 'pass'])
        self.assertEqual(rows['`lateness_ms.p50`'], ['0.6', 'at most 1', 'pass'])
        self.assertEqual(rows['`end_to_end / limit.end_to_end`'], ['0.355', 'at least 0.8', '**short**'])
        self.assertEqual(rows['`end_to_end / limit.end_to_end_moves`'], ['0.71', 'at least 0.8', '**short**'])
        self.assertEqual(rows['`wake_ms.p50`'], ['–', 'at most 0.5', 'not measured'])
        self.assertEqual(rows['`send.batch_compared / BullMQ send.batch`'], ['6.92', 'at least 5', 'pass'])
        self.assertEqual(rows['`receive.due.one_worker / Go delayqueue receive.due_one_worker`'],
                         ['10.5', 'at least 15', '**short**'])
        self.assertEqual(rows['`stall_ms.pending2unack`'], ['0.9', 'at most 2', 'pass'])
        self.assertEqual(rows['`ratio.one_thread.two_cores`'], ['0.85', 'at least 0.85', 'pass'])
        self.assertEqual(rows['`many_queues.share / its weight, the least`'], ['0.94', 'at least 0.95', '**short**'])
        self.assertEqual(rows['`many_queues.share / its weight, the greatest`'], ['1.02', 'at most 1.05', 'pass'])
        self.assertEqual(rows['`many_queues.quiet.flooded.lateness_ms.p99 - alone`'], ['2.5', 'at most 3', 'pass'])
        self.assertEqual(rows['`send.one_thread.one_core / asynq send_one_thread.one_core`'],
                         ['–', 'at least 1', 'not measured'])
        self.assertEqual(rows['`end_to_end / Go delayqueue end_to_end`'], ['4.7', 'at least 15', '**short**'])

    def test_peers_are_not_needed(self):
        alone = {key: value for key, value in SAMPLE.items() if key != 'peers'}
        report = self.report(alone, '--targets')['report.md']
        self.assertEqual(self.rows(report, 'Beside other libraries')['messages a second'], ['**delayqueue**'])
        self.assertEqual(self.rows(report, 'Targets')['`end_to_end / Go delayqueue end_to_end`'],
                         ['–', 'at least 15', 'not measured'])

    def test_charts_are_xml_for_light_and_dark_that_loads_nothing(self):
        files = self.report(SAMPLE)
        for name in ('throughput.svg', 'lateness.svg'):
            xml.dom.minidom.parseString(files[name].encode())
            self.assertIn('prefers-color-scheme: dark', files[name])
            self.assertIn('class="bg"', files[name])
            for load in ('url(', '@import', '@font-face', 'href', '<script', '<image'):
                self.assertNotIn(load, files[name])
        self.assertIn('limit of Redis: 185k', files['throughput.svg'])
        self.assertIn('172k', files['throughput.svg'])
        self.assertIn('Redisson (settles nothing)', files['throughput.svg'])
        self.assertIn('−435 ms', files['lateness.svg'])

    def texts(self, svg):
        """(left, top, right, bottom, text) of each, with letters as wide as those of a wide font."""
        for node in xml.dom.minidom.parseString(svg.encode()).getElementsByTagName('text'):
            words, kind = node.firstChild.data, node.getAttribute('class').split()
            width = len(words) * (8.2 if 'head' in kind else 7.6 if 'bold' in kind else 7)
            x, y = float(node.getAttribute('x')), float(node.getAttribute('y'))
            left = x - width if 'end' in kind else x - width / 2 if 'mid' in kind else x
            yield left, y - 10, left + width, y + 3, words

    def no_overlap(self, svg):
        size = xml.dom.minidom.parseString(svg.encode()).documentElement
        texts = list(self.texts(svg))
        self.assertGreater(len(texts), 10)
        for i, (left, top, right, bottom, words) in enumerate(texts):
            inside = left >= 0 and top >= 0 and right <= float(size.getAttribute('width')) and \
                bottom <= float(size.getAttribute('height'))
            self.assertTrue(inside, words)
            for other in texts[:i]:
                apart = left >= other[2] or right <= other[0] or top >= other[3] or bottom <= other[1]
                self.assertTrue(apart, '"%s" is written over "%s"' % (words, other[4]))

    def test_labels_do_not_overlap_with_any_figures(self):
        far = copy.deepcopy(SAMPLE)
        far['lateness_ms'] = {'min': -9000, 'p50': 0.01, 'p99': 20000, 'max': 65000}
        far['limit'] = {'send': 400000, 'receive': 12000, 'receive_others_in_flight': 12000}
        slow = copy.deepcopy(SAMPLE)
        slow['lateness_ms'] = {'min': 0, 'p50': 0, 'p99': 0, 'max': 0}
        slow['send'] = {'one_thread': {'unpinned': 1}, 'eight_threads': 2, 'batch': 3, 'batch_compared': 3}
        del slow['peers']
        for figures in (SAMPLE, far, slow):
            files = self.report(figures)
            self.no_overlap(files['throughput.svg'])
            self.no_overlap(files['lateness.svg'])

    def refused(self, said, arguments, text=''):
        done = run(arguments + ['--out', self.folder.name], text)
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(said, lines[0])
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_wrong_input_gets_one_line(self):
        self.refused('is not JSON', [], 'no such thing')
        self.refused('is not JSON', [], '')
        self.refused('no JSON object', [], '[1]')
        self.refused("cannot read '/nowhere/figures.json': No such file", ['/nowhere/figures.json'])
        self.refused("cannot read '%s'" % HERE, [HERE])
        lacking = copy.deepcopy(SAMPLE)
        del lacking['limit']
        lacking['send']['batch'] = 'fast'
        missing = 'lacks limit.send, limit.receive, limit.receive_others_in_flight, send.batch; '
        self.refused(missing + 'run scripts/bench.sh', [], json.dumps(lacking))
        lacking['environment']['failed'] = 'throughput'
        advice = 'these parts failed: throughput; see stderr of that run, and run scripts/bench.sh again'
        self.refused(missing + advice, [], json.dumps(lacking))
        broken = dict(SAMPLE, peers=[1])
        self.report(broken)  # as if there were none

    def test_a_folder_that_cannot_be_written_gets_one_line(self):
        done = run(['--out', os.path.join(HERE, 'sample.json')], json.dumps(SAMPLE))
        self.assertEqual(done.returncode, 1)
        self.assertIn('cannot write', done.stderr.decode())

    # --- a page

    def page(self, text):
        path = os.path.join(self.folder.name, 'docs', 'page.md')
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def test_a_page_gets_the_tables_and_the_charts_that_it_shows(self):
        path = self.page('# A\n![Rates](../charts/throughput.svg)\n'
                         '<!-- bench_report: lateness -->\nold\n<!-- /bench_report -->\nB\n'
                         '<!-- bench_report: border -->\n<!-- /bench_report -->\n')
        for _ in range(2):  # the second time replaces what the first one wrote
            done = run(['--page', path], json.dumps(SAMPLE))
            self.assertEqual((done.returncode, done.stderr.decode()), (0, ''))
        chart = os.path.join(self.folder.name, 'docs', '..', 'charts', 'throughput.svg')
        self.assertEqual(done.stdout.decode().split(), [path, chart])
        self.assertTrue(os.path.exists(chart))
        with open(path, encoding='utf-8') as file:
            lines = file.read().splitlines()
        self.assertNotIn('old', lines)
        self.assertEqual([line for line in lines if line in ('# A', 'B')], ['# A', 'B'])
        self.assertEqual(len([line for line in lines if line.startswith('| `lateness_ms`')]), 1)
        self.assertLess(lines.index('B'), lines.index('| `border.64` | **9** | 12 | **3** | 5.5 |'))

    def test_a_wrong_page_gets_one_line_and_stays(self):
        for said, text in (("has a section 'speed'; expected one of run, ",
                            '<!-- bench_report: lateness -->\n<!-- /bench_report -->\n'
                            '<!-- bench_report: speed -->\n<!-- /bench_report -->\n'),
                           ("has no line '<!-- bench_report: NAME -->'; add one where a table belongs", '# A\n')):
            path = self.page(text)
            done = run(['--page', path], json.dumps(SAMPLE))
            self.assertEqual((done.returncode, done.stdout.decode()), (1, ''))
            self.assertIn(said, done.stderr.decode())
            with open(path, encoding='utf-8') as file:
                self.assertEqual(file.read(), text)

    def test_docs_performance_has_the_figures_of_the_run_beside_its_charts_and_no_others(self):
        root = os.path.join(HERE, '..', '..')
        with open(os.path.join(root, 'docs', 'performance.md'), encoding='utf-8') as file:
            text = file.read()
        path = self.page(text)
        done = run([os.path.join(root, 'test', 'bench', 'figures', 'run.json'), '--page', path])
        self.assertEqual((done.returncode, done.stderr.decode()), (0, ''))
        with open(path, encoding='utf-8') as file:
            self.assertEqual(file.read(), text, 'write it with scripts/bench_report: see its last section')
        for name in ('throughput.svg', 'lateness.svg'):
            charts = [os.path.join(folder, 'test', 'bench', 'figures', name) for folder in (root, self.folder.name)]
            both = []
            for chart in charts:
                with open(chart, encoding='utf-8') as file:
                    both.append(file.read())
            self.assertEqual(both[0], both[1], name)

    def test_docs_performance_names_each_group_of_figures_in_its_prose(self):
        root = os.path.join(HERE, '..', '..')
        with open(os.path.join(root, 'docs', 'performance.md'), encoding='utf-8') as file:
            prose = re.sub(r'<!-- bench_report: .*?<!-- /bench_report -->', '', file.read(), flags=re.S)
        with open(os.path.join(root, 'test', 'bench', 'figures', 'run.json'), encoding='utf-8') as file:
            groups = set(json.load(file)) - {'spread', 'peers', 'environment'}  # no figures of this library alone
        missing = [group for group in sorted(groups) if not re.search(r'`%s[.`]' % group, prose)]
        self.assertEqual(missing, [], 'say what limits them in "The limit of each figure"')

    def test_figures_of_runs_are_not_typed_in_the_documents(self):
        folder = os.path.join(HERE, '..', '..', 'docs')
        for name in sorted(os.listdir(folder)):
            if not name.endswith('.md'):
                continue
            with open(os.path.join(folder, name), encoding='utf-8') as file:
                found = typed_figures(file.read(), PERFORMANCE if name == 'performance.md' else OTHER_PAGES)
            found = [figure for figure in found if figure not in SETTINGS.get(name, [])]
            self.assertEqual(found, [], '%s: name the key or the table that has the figure' % name)

    def test_typed_figures_are_found(self):
        for figure in ('12%', '12 %', '3 percent', '1,234', '0.97', '3 ms', '130 us', '4 µs', '20 times', '1.5 ms'):
            self.assertEqual(typed_figures('A send: %s, or more' % figure, PERFORMANCE), [figure])
            hidden = '`%s`, <!-- bench_report: rates -->%s<!-- /bench_report -->, ```\n%s\n```' % (3 * (figure,))
            self.assertEqual(typed_figures(hidden, PERFORMANCE), [])
        for figure in ('12%', '1 us', '20 times', '0.8 s', '1.4 ms', '2 to 3 ms', 'in the median', 'Measured with'):
            self.assertEqual(typed_figures('A send: %s.' % figure, OTHER_PAGES), [figure])
        for text in ('a lease of 5 s', '50 ms at most', '10,000 workers', 'version 7.0', 'is measured'):
            self.assertEqual(typed_figures(text, OTHER_PAGES), [])


if __name__ == '__main__':
    unittest.main()
