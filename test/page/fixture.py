"""A private Redis, `dqctl serve` on it, and the commands that fill queues."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request


def redis_program():
    named = os.environ.get('DELAYQUEUE_REDIS_SERVER')
    return named or shutil.which('redis-server') or shutil.which('valkey-server')


def free_port():
    with socket.socket() as trial:
        trial.bind(('127.0.0.1', 0))
        return trial.getsockname()[1]


def wait(what, condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError('%s: not within %d s' % (what, seconds))


class Redis:
    """A server on a unix socket. What it stores survives stop() and start(), unless the options say otherwise."""

    def __init__(self, folder, *options):
        self.folder = folder
        self.options = list(options)
        self.path = os.path.join(folder, 'redis.sock')
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [redis_program(), '--port', '0', '--unixsocket', self.path, '--dir', self.folder, '--save', '',
             '--appendonly', 'yes', '--appendfsync', 'always'] + self.options, stdout=subprocess.DEVNULL)
        wait('Redis listens', lambda: os.path.exists(self.path) and self._answers())

    def _answers(self):
        try:
            return self.command('PING') == b'PONG'
        except (OSError, RuntimeError):  # it may be loading
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def command(self, *words):
        """The reply: bytes, a number, a list or None."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(60)
            link.connect(self.path)
            parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            link.sendall(b'*%d\r\n' % len(parts) + b''.join(b'$%d\r\n%s\r\n' % (len(part), part) for part in parts))
            with link.makefile('rb') as replies:
                return self._reply(replies)

    def _reply(self, replies):
        line = replies.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b'-':
            raise RuntimeError(rest.decode())
        if kind == b'+':
            return rest
        if kind == b':':
            return int(rest)
        if kind == b'$':
            return None if rest == b'-1' else replies.read(int(rest) + 2)[:-2]
        return [self._reply(replies) for _ in range(int(rest))]


class SlowLink:
    """A unix socket in front of a server: each request waits a moment, as on a network."""

    def __init__(self, path, target, seconds):
        self.path, self.target, self.seconds = path, target, seconds
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.target)
            for source, into, wait_for in ((client, server, self.seconds), (server, client, 0)):
                threading.Thread(target=self._pass, args=(source, into, wait_for), daemon=True).start()

    @staticmethod
    def _pass(source, into, seconds):
        try:
            for data in iter(lambda: source.recv(65536), b''):
                time.sleep(seconds)
                into.sendall(data)
        except OSError:
            pass
        for link in (source, into):
            try:
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


class Queues:
    """A private Redis with queues, and `dqctl serve` that shows them."""

    def __init__(self, dqctl, *redis_options):
        self.dqctl = dqctl
        self.folder = tempfile.mkdtemp(prefix='dq-page-')
        self.serving = None
        self.port = free_port()
        self.redis = Redis(self.folder, *redis_options)

    def close(self):
        self.stop_serving()
        self.redis.stop()
        shutil.rmtree(self.folder)

    @property
    def url(self):
        return 'http://127.0.0.1:%d/' % self.port

    def _environment(self, path=None):
        return dict(os.environ, DELAYQUEUE_URI='unix://' + (path or self.redis.path))

    def serve(self, *options, through=None):
        """Starts the server, or starts it again with other options, on the same port. through: a SlowLink to Redis."""
        self.stop_serving()
        command = [self.dqctl, 'serve', '--listen', '127.0.0.1:%d' % self.port] + list(options)
        # pylint: disable-next=consider-using-with
        self.serving = subprocess.Popen(command, env=self._environment(through and through.path),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait('dqctl serve answers', self._healthy)

    def _healthy(self):
        if self.serving.poll() is not None:
            raise AssertionError('dqctl serve ended with %d' % self.serving.returncode)
        try:
            with urllib.request.urlopen(self.url + 'healthz', timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop_serving(self):
        if self.serving:
            self.serving.terminate()
            self.serving.wait(30)
            self.serving = None

    def run(self, *arguments, text='', codes=(0,)):
        """What dqctl prints."""
        done = subprocess.run([self.dqctl] + list(arguments), input=text.encode(), env=self._environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode not in codes:
            raise AssertionError('dqctl %s: %d: %s' % (' '.join(arguments), done.returncode, done.stderr.decode()))
        return done.stdout.decode()

    def send(self, queue, payloads, delay='0ms', retries=3):
        """The ids of the new messages."""
        lines = [json.dumps({'payload': payload, 'delay': delay, 'retries': retries}) for payload in payloads]
        printed = self.run('send', '-o', 'ndjson', '--ndjson', '-', '--', queue, text='\n'.join(lines) + '\n')
        return [line['id'] for line in map(json.loads, printed.splitlines()) if 'id' in line]

    def bury(self, queue, payloads, why):
        ids = self.send(queue, payloads)
        self.run('bury', '--why', why, '--yes', '--', queue, '-', text='\n'.join(ids) + '\n')
        self.redis.command('DEL', 'dp:%s:ready' % queue)  # bury leaves the ids in this list
        return ids

    def hold(self, queue, payload, seconds, reason=''):
        """A message whose lease ends in so many seconds, as if a consumer had it."""
        (message,) = self.send(queue, [payload], '1h')
        self.redis.command('ZREM', 'dp:%s:pending' % queue, message)
        now = self.redis.command('TIME')
        end = '%d.%06d' % (int(now[0]) + seconds, int(now[1]) // 1000 * 1000 + 123)  # never a whole millisecond
        self.redis.command('ZADD', 'dp:%s:unack' % queue, end, message)
        if reason:
            self.redis.command('HSET', 'dp:%s:reason' % queue, message, reason)
        return message

    def late(self, queue, payloads, seconds):
        """Messages that have been due for so long, and that no consumer has taken."""
        ids = self.send(queue, payloads, '1h')
        due = int(self.redis.command('TIME')[0]) - seconds
        for message in ids:
            self.redis.command('ZADD', 'dp:%s:pending' % queue, 'XX', due, message)
        return ids

    def count(self, queue, state):
        command = 'LLEN' if state in ('ready', 'retry') else 'ZCARD'
        return self.redis.command(command, 'dp:%s:%s' % (queue, state))
