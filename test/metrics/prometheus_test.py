"""The alerts of docs/metrics/alerts.yml in a real Prometheus: each fires when it should, and then ends.

   prometheus_test.py DQCTL SERVICE RULES    SERVICE: the program test/metrics/service.cc

Prometheus scrapes `dqctl serve` and the service, on a private Redis with workers that are killed, fail and hang. A
minute of the rules is a second here: all durations and all limits in seconds are divided by 60, and nothing else of
the rules is changed. Exit code 77: Prometheus is not installed.
"""
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'page'))
import fixture  # pylint: disable=wrong-import-position

CALM = 30  # seconds without a fault: longer than each rule needs, except that for a pause of two hours
# The command of the workers.
WORK = 'read -r word; case $word in hold) [ $DQ_ATTEMPT != 1 ] || exec sleep 600 ;; bad) exit 65 ;; esac'


def in_seconds(rules):
    """The rules with seconds in place of minutes."""
    def duration(match):
        return '%s%ds' % (match[1], int(match[2]) * {'m': 1, 'h': 60}[match[3]])
    rules = re.sub(r'(\bfor: |\[)(\d+)([mh])\b', duration, rules)
    rules = re.sub(r'(_seconds(?:\[\d+s\]\))? > )(\d+)', lambda match: '%s%g' % (match[1], int(match[2]) / 60), rules)
    assert not re.search(r'(\bfor: |\[)\d+(?!\d*s\b)', rules), rules
    return rules


class RedisExporter:
    """The two metrics of redis_exporter that a rule uses, under the names and with the values that it gives them."""

    def __init__(self, redis):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                facts = dict(re.findall(r'^(\w+):(\S+)', redis.command('INFO', 'memory').decode(), re.M))
                page = 'redis_memory_used_bytes %(used_memory)s\nredis_memory_max_bytes %(maxmemory)s\n' % facts
                self.send_response(200)
                self.end_headers()
                self.wfile.write(page.encode())

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Prometheus:
    def __init__(self, folder, rules, ports):
        self.port = fixture.free_port()
        self.targets = len(ports)
        config = {'global': {name: '500ms' for name in ('scrape_interval', 'scrape_timeout', 'evaluation_interval')},
                  'rule_files': ['alerts.yml'],
                  'scrape_configs': [{'job_name': name, 'static_configs': [{'targets': ['127.0.0.1:%d' % port]}]}
                                     for name, port in ports.items()]}
        for name, text in (('alerts.yml', rules), ('prometheus.yml', json.dumps(config))):
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(text)
        with open(os.path.join(folder, 'prometheus.log'), 'wb') as log:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(
                ['prometheus', '--config.file=prometheus.yml', '--storage.tsdb.path=data', '--log.level=warn',
                 '--web.listen-address=127.0.0.1:%d' % self.port], cwd=folder, stdout=log, stderr=log)

    def ask(self, path, **parameters):
        url = 'http://127.0.0.1:%d/api/v1/%s?%s' % (self.port, path, urllib.parse.urlencode(parameters))
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)['data']

    def scrapes_all(self):
        """Whether all targets answer. Their metrics must be there before a missing alert proves anything."""
        if self.process.poll() is not None:
            raise AssertionError('prometheus ended with %d' % self.process.returncode)
        try:
            return len(self.ask('query', query='up == 1')['result']) == self.targets
        except OSError:  # it starts
            return False

    def firing(self):
        """Names of alerts, each with its queue, or with its job if it has none."""
        return {(alert['labels']['alertname'], alert['labels'].get('queue', alert['labels']['job']))
                for alert in self.ask('alerts')['alerts'] if alert['state'] == 'firing'}

    def close(self):
        self.process.terminate()
        self.process.wait(30)


class Scenario:
    """The queues `leased`, `waiting`, `flood` and `service`, and the processes that serve them."""

    def __init__(self, dqctl, service, rules):
        self.queues = fixture.Queues(dqctl)
        self.uri = 'unix://' + self.queues.redis.path
        self.service = service
        self.service_port = fixture.free_port()
        self.workers = {}
        self.prometheus = None
        self.seen = set()
        self.rules = rules

    def start(self):
        for queue in ('leased', 'waiting', 'flood', 'service'):
            self.start_worker(queue)
        self.queues.serve()
        self.prometheus = Prometheus(self.queues.folder, self.rules, {
            'dqctl': self.queues.port, 'service': self.service_port, 'redis': RedisExporter(self.queues.redis).port})
        fixture.wait('Prometheus scrapes all', self.prometheus.scrapes_all)

    def start_worker(self, queue):
        command = [self.queues.dqctl, 'work', queue, '--exec', WORK, '--lease', '1s']
        if queue == 'service':
            command = [self.service, self.uri, queue, str(self.service_port)]
        # pylint: disable-next=consider-using-with
        self.workers[queue] = subprocess.Popen(command, env=dict(os.environ, DELAYQUEUE_URI=self.uri),
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_worker(self, queue):
        self.workers[queue].kill()
        self.workers.pop(queue).wait(30)

    def close(self):
        for queue in list(self.workers):
            self.kill_worker(queue)
        if self.prometheus:
            self.prometheus.close()
        self.queues.close()

    # ---- what happens

    def calm(self):
        """All work well: a message now and then for each worker, and one dead letter."""
        end = time.monotonic() + CALM
        self.queues.send('flood', ['bad'])
        while time.monotonic() < end:
            for queue in self.workers:
                self.queues.send(queue, ['now'])
                self.queues.send(queue, ['later'], '300ms')
            time.sleep(0.5)
            self.look()
            assert not self.seen, 'without a fault these alerts fire: %s' % sorted(self.seen)
        for queue in self.workers:  # else that they do not fire would prove nothing
            assert self.prometheus.ask('query', query='delayqueue_acked_total{queue="%s"} > 5' % queue)['result'], queue

    def look(self):
        firing = self.prometheus.firing()
        self.seen |= firing
        return firing

    def expect(self, fault, make, *alerts, within=40):
        """Makes a fault. These alerts must fire then, and no others."""
        before = set(self.seen)
        assert not before & set(alerts), 'fire before the fault: %s' % sorted(before & set(alerts))
        make()
        began = time.monotonic()
        times = {}
        while len(times) < len(alerts):
            firing = self.look()
            now = time.monotonic() - began
            times.update({alert: now for alert in alerts if alert in firing and alert not in times})
            missing = set(alerts) - set(times)
            assert now < within, '%s: after %d s these alerts do not fire: %s' % (fault, within, sorted(missing))
            time.sleep(0.2)
        others = self.seen - before - set(alerts)
        assert not others, '%s: these alerts fire, too: %s' % (fault, sorted(others))
        for alert, queue in alerts:
            print('%-50s %-24s %-8s after %4.1f s' % (fault, alert, queue, times[alert, queue]), flush=True)

    def all_well(self, within=60):
        end = time.monotonic() + within
        while self.look():
            assert time.monotonic() < end, 'all works again, and still fire: %s' % sorted(self.prometheus.firing())
            time.sleep(0.2)

    # ---- faults

    def kill_with_lease(self):
        self.queues.send('leased', ['hold'])
        fixture.wait('the message is in flight', lambda: self.queues.count('leased', 'unack') == 1)
        time.sleep(1.5)  # longer than the lease, which its worker renews
        self.kill_worker('leased')

    def kill_idle(self):
        fixture.wait('the worker is idle', lambda: not any(
            self.queues.count('waiting', state) for state in ('pending', 'ready', 'unack')))
        self.kill_worker('waiting')
        self.queues.send('waiting', ['later'], '200ms')

    def send_ready(self):
        self.queues.send('waiting', ['now'] * 3)

    def send_bad(self):
        self.queues.send('flood', ['bad'] * 30)

    def hang(self):
        self.queues.send('service', ['hang'])

    def fill_redis(self):
        self.queues.redis.command('CONFIG', 'SET', 'maxmemory', '1mb')  # it uses more

    def repair(self):
        self.queues.redis.command('CONFIG', 'SET', 'maxmemory', '0')
        self.kill_worker('service')
        for queue in ('leased', 'waiting', 'service'):
            self.start_worker(queue)


def run(scenario):
    scenario.start()
    scenario.calm()
    print('%-50s no alert fires in %d s' % ('all works', CALM), flush=True)
    scenario.expect('a worker is killed with a message in flight', scenario.kill_with_lease,
                    ('DelayqueueNoWorker', 'leased'))
    scenario.expect('a worker is killed, then a message becomes due', scenario.kill_idle,
                    ('DelayqueueNoWorker', 'waiting'))
    scenario.expect('the same, then messages are due at once', scenario.send_ready,
                    ('DelayqueueNotTaken', 'waiting'), ('DelayqueueLate', 'waiting'))
    scenario.expect('30 messages are rejected', scenario.send_bad, ('DelayqueueDeadLetters', 'flood'))
    scenario.expect('one of two handlers hangs', scenario.hang, ('DelayqueueHandlerHangs', 'service'))
    scenario.expect('Redis is full', scenario.fill_redis, ('DelayqueueSendsFail', 'service'),
                    ('DelayqueueRedisFull', 'redis'))
    scenario.repair()
    scenario.all_well()
    print('%-50s no alert fires' % 'all works again')


def main():
    if len(sys.argv) != 4:
        sys.exit('usage: prometheus_test.py DQCTL SERVICE RULES')
    missing = [name for name, found in (('prometheus', shutil.which('prometheus')),
                                        ('redis-server', fixture.redis_program())) if not found]
    if missing:
        print('skipped: %s is not installed (scripts/setup.sh --check installs it)' % missing[0])
        sys.exit(77)
    with open(sys.argv[3], encoding='utf-8') as file:
        rules = in_seconds(file.read())
    scenario = Scenario(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), rules)
    try:
        run(scenario)
    except BaseException:
        log = os.path.join(scenario.queues.folder, 'prometheus.log')
        if os.path.exists(log):
            with open(log, encoding='utf-8') as file:
                print(file.read(), file=sys.stderr)
        raise
    finally:
        scenario.close()


if __name__ == '__main__':
    main()
