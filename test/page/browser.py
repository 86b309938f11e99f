"""A headless Chromium, driven through chromedriver's HTTP interface (W3C WebDriver) with the standard library only."""
import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'
KEYS = {'Enter': '\ue007', 'Tab': '\ue004', 'Escape': '\ue00c', 'Space': '\ue00d', 'Shift': '\ue008'}


class BrowserError(Exception):
    """An answer of chromedriver that is an error."""


def missing():
    """The first program that is needed and not installed, or None."""
    for names in (('chromium', 'chromium-browser', 'google-chrome'), ('chromedriver',)):
        if not any(shutil.which(name) for name in names):
            return names[0]
    return None


class Browser:
    """One window. Its methods wait for what they name, at most `patience` seconds."""

    def __init__(self, patience=15):
        self.patience = patience
        self.driver = subprocess.Popen([shutil.which('chromedriver'), '--port=0'], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL)
        self.session = ''
        try:
            self.base = 'http://127.0.0.1:%d' % self._port()
            program = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))))
            options = {'binary': program, 'args': ['--headless=new', '--no-sandbox', '--disable-gpu',
                                                   '--disable-dev-shm-usage', '--force-device-scale-factor=1',
                                                   '--hide-scrollbars']}
            answer = self._call('POST', '/session', {'capabilities': {'alwaysMatch': {
                'browserName': 'chrome', 'goog:chromeOptions': options, 'goog:loggingPrefs': {'browser': 'ALL'}}}})
            self.session = '/session/' + answer['sessionId']
        except BaseException:
            self.close()
            raise

    def _port(self):
        for line in self.driver.stdout:
            found = re.search(rb'successfully on port (\d+)', line)
            if found:
                return int(found.group(1))
        raise BrowserError('chromedriver ended before it listened')

    def _call(self, method, path, body=None):
        data = json.dumps(body).encode() if method == 'POST' else None
        request = urllib.request.Request(self.base + self.session + path, data, method=method,
                                         headers={'Content-Type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)['value']
        except urllib.error.HTTPError as error:
            value = json.load(error)['value']
            raise BrowserError('%s: %s' % (value['error'], value['message'].splitlines()[0])) from None

    def close(self):
        if self.session:
            try:
                self._call('DELETE', '')
            except (BrowserError, OSError):
                pass
        self.driver.terminate()
        self.driver.wait(30)
        self.driver.stdout.close()

    def devtools(self, command, **parameters):
        return self._call('POST', '/goog/cdp/execute', {'cmd': command, 'params': parameters})

    def show_as(self, width, height, scheme='light', motion='no-preference'):
        """Sets the size of the window and what the user prefers."""
        self.devtools('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1,
                      mobile=False)
        self.devtools('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme},
                                                              {'name': 'prefers-reduced-motion', 'value': motion}])

    def open(self, url):
        self._call('POST', '/url', {'url': url})

    def run(self, script, *arguments):
        """What a function body returns in the page."""
        return self._call('POST', '/execute/sync', {'script': script, 'args': list(arguments)})

    def run_async(self, script, *arguments):
        return self._call('POST', '/execute/async', {'script': script, 'args': list(arguments)})

    def wait(self, what, condition):
        """The first true value of condition(), which may throw meanwhile: the page may be in change."""
        end = time.monotonic() + self.patience
        last = None
        while time.monotonic() < end:
            try:
                value = condition()
                if value:
                    return value
            except BrowserError as error:
                last = error
            time.sleep(0.05)
        shown = self.run('return document.body.innerText')
        raise AssertionError('%s: not within %d s%s; the page shows:\n%s' % (
            what, self.patience, ' (%s)' % last if last else '', shown))

    def text(self, css='body'):
        return self.run('return [...document.querySelectorAll(arguments[0])].map(e => e.innerText).join("\\n")', css)

    def wait_text(self, text, css='body'):
        return self.wait('"%s" in %s' % (text, css), lambda: text in self.text(css))

    def wait_no_text(self, text, css='body'):
        return self.wait('no "%s" in %s' % (text, css), lambda: text not in self.text(css))

    def find(self, css, label=None):
        """The visible element that matches, with this text or accessible name if a label is given."""
        script = '''
          const named = e => (e.getAttribute('aria-label') || e.innerText || e.value || '').trim();
          return [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility())
            .find(e => arguments[1] === null || named(e) === arguments[1]) || null'''
        found = self.wait('%s%s' % (css, ' "%s"' % label if label else ''), lambda: self.run(script, css, label))
        return found[ELEMENT]

    def click(self, css, label=None):
        self.wait('a click on %s' % css, lambda: self._call(
            'POST', '/element/%s/click' % self.find(css, label), {}) is None)

    def write(self, css, text):
        element = self.find(css)
        self._call('POST', '/element/%s/clear' % element, {})
        self._call('POST', '/element/%s/value' % element, {'text': text})

    def choose(self, css, value):
        self.run('''const e = arguments[0]; e.value = arguments[1];
                    e.dispatchEvent(new Event('input', {bubbles: true}));
                    e.dispatchEvent(new Event('change', {bubbles: true}))''', {ELEMENT: self.find(css)}, value)

    def press(self, *names):
        """Presses keys, one after the other, where the focus is."""
        for name in names:
            keys = [KEYS.get(part, part) for part in name.split('+')]
            actions = [{'type': 'keyDown', 'value': key} for key in keys]
            actions += [{'type': 'keyUp', 'value': key} for key in reversed(keys)]
            self._call('POST', '/actions', {'actions': [{'type': 'key', 'id': 'keys', 'actions': actions}]})

    def screenshot(self, path, whole=True):
        shot = self.devtools('Page.captureScreenshot', format='png', captureBeyondViewport=whole)
        with open(path, 'wb') as file:
            file.write(base64.b64decode(shot['data']))

    def complaints(self):
        """Errors in the console since the last call, such as a breach of the content security policy."""
        log = self._call('POST', '/se/log', {'type': 'browser'})
        return [entry['message'] for entry in log if entry['level'] == 'SEVERE']
