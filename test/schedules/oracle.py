#!/usr/bin/env python3
"""Prints a table of random cron expressions with their slots, found by the definition of docs/recurring.md alone, with
Python's zoneinfo: no search, and no parser, because each field is made together with the numbers that it means.

  oracle.py SEED CASES FIRST_YEAR LAST_YEAR PER_CHANGE

PER_CHANGE cases are near each change of the offset of 20 zones in these years; the other ones are at random times in
these years, half of them in UTC. Each line: expression|zone|a time in seconds since 1970+the first slots later than it,
as seconds after it. oracle.txt is the output for 37 440 2019 2024 1: of years whose rules do not change any
more. To compare another table:

  python3 test/schedules/oracle.py 1 2000 2019 2028 3 >table
  DELAYQUEUE_CRON_TABLE=table build/release/bin/delayqueue_test --source-file='*/schedules/times_test.cc'
"""
import calendar
import random
import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

ZONES = """Europe/Berlin Europe/London Europe/Dublin America/New_York America/Sao_Paulo America/Santiago America/Havana
America/Nuuk America/Asuncion Australia/Lord_Howe Australia/Sydney Pacific/Auckland Pacific/Chatham Pacific/Fiji
Africa/Cairo Africa/Casablanca Asia/Beirut Asia/Jerusalem Asia/Tehran Antarctica/Troll""".split()
DAY = 86400
EPOCH = date(1970, 1, 1)
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()


class Zone:
    """The periods of one offset of a zone between two times: (begin, end, offset)."""

    def __init__(self, name, begin, end):
        self.zone = ZoneInfo(name)
        self.periods = []
        at = begin
        while at < end:
            change = self.next_change(at, end)
            self.periods.append((at, change, self.offset(at)))
            at = change

    def offset(self, at):
        return int(datetime.fromtimestamp(at, self.zone).utcoffset().total_seconds())

    def next_change(self, at, end):
        offset = self.offset(at)
        low = at
        while low < end:
            high = min(low + DAY // 4, end)
            if self.offset(high) != offset:
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if self.offset(middle) == offset else (low, middle)
                return high
            low = high
        return end

    def slots_of(self, local, interval, every_hour):
        """The moments for which a local time counts."""
        moments = [local - offset for begin, end, offset in self.periods if begin <= local - offset < end]
        if moments:
            return moments if interval else moments[:1]
        if every_hour:
            return []
        return [now[0] for before, now in zip(self.periods, self.periods[1:])
                if before[1] + before[2] <= local < now[0] + now[2]]


class Expression:
    """A random expression, and which dates and times it means."""

    def __init__(self, rng, near_change):
        self.rng = rng
        second = self.field(0, 59, 0.1) if rng.random() < 0.2 else None
        if near_change:
            minute = rng.choice([self.one(0), self.one(30), self.step(0, 59, 15), self.step(0, 59, 20), self.one(59),
                                 self.some([5, 35]), self.all(0, 59), self.one(15)])
            hours = [self.one(h) for h in (0, 1, 2, 3, 4, 23)] + [
                self.all(0, 23), self.step(0, 23, 2), self.step(0, 23, 3), self.some([1, 2]), self.some([2, 3]),
                self.some([23, 0, 1, 2]), self.span(0, 3), self.span(1, 5), self.span(0, 23)]
            hour = rng.choice(hours)
        else:
            minute, hour = self.field(0, 59, 0.15), self.field(0, 23, 0.35)
        month = self.all(1, 12) if near_change else self.field(1, 12, 0.7, MONTHS)
        self.date_text, self.is_date, date_star = self.date()
        self.weekday_text, self.is_weekday, weekday_star = self.weekday()
        if near_change or "*/" in self.date_text + self.weekday_text:  # with a step: only without days in the other
            if rng.random() < 0.5:
                self.date_text, self.is_date, date_star = "*", lambda day: True, True
            else:
                self.weekday_text, self.is_weekday, weekday_star = "?", lambda day: True, True
            if near_change and rng.random() < 0.8:
                self.date_text, self.is_date, date_star = "*", lambda day: True, True
                self.weekday_text, self.is_weekday, weekday_star = "*", lambda day: True, True
        self.both = date_star or weekday_star
        self.months = month[1]
        self.times = sorted(h * 3600 + m * 60 + s for h in hour[1] for m in minute[1]
                            for s in (second[1] if second else [0]))
        self.every_hour = len(hour[1]) == 24
        self.interval = self.every_hour or any(f and f[0][0] == "*" for f in (second, minute, hour))
        texts = [minute[0], hour[0], self.date_text, month[0], self.weekday_text]
        self.text = " ".join(([second[0]] if second else []) + texts)

    def matches(self, day):
        if day.month not in self.months:
            return False
        a, b = self.is_date(day), self.is_weekday(day)
        return (a and b) if self.both else (a or b)

    # ---- A field: its text, and the numbers that it means.
    def one(self, value):
        return str(value), {value}

    def some(self, values):
        return ",".join(map(str, values)), set(values)

    def all(self, low, high):
        return "*", set(range(low, high + 1))

    def step(self, low, high, step):
        return f"*/{step}", set(range(low, high + 1, step))

    def span(self, low, high):
        return f"{low}-{high}", set(range(low, high + 1))

    def field(self, low, high, star, names=None):
        rng = self.rng

        def name(value):
            return rng.choice([names[value - low], names[value - low].lower(), str(value)]) if names else str(value)

        if rng.random() < star:
            return self.all(low, high)
        kind = rng.randrange(6)
        a = rng.randrange(low, high)
        b = rng.randrange(a + 1, high + 1)
        step = rng.randrange(1, high - low + 1)
        if kind == 0:
            return name(a), {a}
        if kind == 1:
            return f"{name(a)}-{name(b)}", set(range(a, b + 1))
        if kind == 2:
            return self.step(low, high, step)
        if kind == 3:
            return f"{name(a)}-{name(b)}/{step}", set(range(a, b + 1, step))
        if kind == 4:
            return f"{name(a)}/{step}", set(range(a, high + 1, step))
        values = rng.sample(range(low, high + 1), 3)
        return ",".join(name(value) for value in values), set(values)

    def date(self):
        rng, n = self.rng, self.rng.randrange(1, 31)

        def last(day):
            return calendar.monthrange(day.year, day.month)[1]

        def nearest(day, target):  # the nearest day from Monday to Friday of the month
            if not 1 <= target <= last(day):
                return False
            days = [date(day.year, day.month, d) for d in range(1, last(day) + 1)]
            workdays = [d for d in days if d.weekday() < 5]
            return day == min(workdays, key=lambda d: (abs(d.day - target), d.day > target))

        special = {
            "L": lambda day: day.day == last(day),
            f"L-{n}": lambda day: day.day == last(day) - n,
            "LW": lambda day: nearest(day, last(day)),
            f"L-{n}W": lambda day: nearest(day, last(day) - n),
            f"{n}W": lambda day: nearest(day, n),
            "?": lambda day: True,
        }
        if rng.random() < 0.3:
            text = rng.choice(list(special))
            return text, special[text], text == "?"
        text, days = self.field(1, 31, 0.6)
        return text, lambda day: day.day in days, text == "*" or text.startswith("*/")

    def weekday(self):
        rng, n, w = self.rng, self.rng.randrange(1, 6), self.rng.randrange(8)

        def is_weekday(day, number):
            return day.isoweekday() % 7 == number % 7

        name = rng.choice([WEEKDAYS[w % 7], str(w)])
        if rng.random() < 0.1:
            return f"{name}#{n}", lambda day: is_weekday(day, w) and (day.day - 1) // 7 == n - 1, False
        if rng.random() < 0.1:
            return f"{name}L", lambda day: is_weekday(day, w) and (day + timedelta(7)).month != day.month, False
        if rng.random() < 0.1:
            return "FRI-SUN", lambda day: day.isoweekday() >= 5, False
        text, days = self.field(0, 6, 0.65, WEEKDAYS)
        return text, lambda day: day.isoweekday() % 7 in days, text == "*" or text.startswith("*/")


def slots_after(expression, zone_name, after, count, most_days):
    zone = Zone(zone_name, after - 4 * DAY, after + (most_days + 4) * DAY)
    slots = set()
    first = EPOCH + timedelta(seconds=after + zone.offset(after)) - timedelta(2)
    for number in range(most_days):
        day = first + timedelta(number)
        midnight = (day - EPOCH).days * DAY
        if len([slot for slot in slots if slot < midnight - 2 * DAY]) >= count:
            break
        if expression.matches(day):
            for time in expression.times:
                slots.update(slot for slot in zone.slots_of(midnight + time, expression.interval, expression.every_hour)
                             if slot > after)
    else:  # only as far as all slots are known
        slots = {slot for slot in slots if slot < midnight - 2 * DAY}
    return sorted(slots)[:count]


def main():
    seed, cases, first_year, last_year, per_change = map(int, sys.argv[1:])
    rng = random.Random(seed)
    begin = int(datetime(first_year, 1, 1, tzinfo=timezone.utc).timestamp())
    end = int(datetime(last_year + 1, 1, 1, tzinfo=timezone.utc).timestamp())
    rows = []
    for name in ZONES:
        for _, change, _ in Zone(name, begin, end).periods[:-1]:
            for _ in range(per_change):
                rows.append((Expression(rng, True), name, change - rng.choice([1, 900, 1800, 3700, 7200, 10800, DAY]), 5))
    print(f"{len(rows)} cases near changes, {cases - len(rows)} elsewhere", file=sys.stderr)
    while len(rows) < cases:
        zone = rng.choice([rng.choice(ZONES), "UTC"])
        rows.append((Expression(rng, False), zone, rng.randrange(begin, end - 400 * DAY), 3))
    for expression, zone, after, count in rows:
        slots = slots_after(expression, zone, after, count, 60 if count == 5 else 390)
        if slots:
            print(f"{expression.text}|{zone}|{after}+{','.join(str(slot - after) for slot in slots)}")


if __name__ == "__main__":
    main()
