// dqctl schedule
#include <delayqueue/schedules.h>

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "commands.h"
#include "output/table.h"
#include "parse.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Missed;
using delayqueue::Overlap;
using delayqueue::Schedule;
using delayqueue::ScheduleInfo;
using delayqueue::Schedules;
using delayqueue::ScheduleState;

constexpr milliseconds kBehind{2000};      // what is due for so long should have been advanced
constexpr milliseconds kRunInterval{500};  // of `run`, between two looks
constexpr std::size_t kShownTimes = 5;

struct ScheduleArgs {
  std::string action{}, queue{}, name{};
  Schedule schedule{};
  bool has_zone = false;
  std::optional<When> until{};
  std::uint64_t count = kShownTimes;
  bool dry_run = false;
};

template <class Enum>
Enum one_of(const char* option, const std::string& value, std::initializer_list<Enum> all) {
  std::string names;
  for (const Enum one : all) {
    if (value == to_string(one)) return one;
    names += (names.empty() ? "" : ", ") + std::string(to_string(one));
  }
  throw Usage(option + (": " + in_quotes(value)) + "; expected one of " + names);
}

std::string payload_in(const std::string& value) {
  if (value.empty() || value.front() != '@') return value;
  std::ifstream file(value.substr(1), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) throw Usage("--payload: cannot read " + in_quotes(value.substr(1)));
  return bytes;
}

void add_schedule_header(delayqueue::Headers& headers, const std::string& given) {
  const std::size_t end = given.find('=');
  if (end == std::string::npos) throw Usage("--header: " + in_quotes(given) + "; expected NAME=VALUE");
  try {
    headers.set(given.substr(0, end), given.substr(end + 1));
  } catch (const std::invalid_argument& error) {
    throw Usage(std::string("--header: ") + error.what());
  }
}

std::string when_of(const Schedule& schedule) {
  if (schedule.cron.empty()) return "every " + span_text(schedule.every);
  return schedule.cron + (schedule.zone == "UTC" ? "" : " " + schedule.zone);
}

std::vector<Time> times_of(const Schedule& schedule, std::uint64_t count) {
  return delayqueue::next_times(schedule, std::chrono::system_clock::now(), static_cast<std::size_t>(count));
}

Exit show_times(Context& context, const Schedule& schedule, std::uint64_t count) {
  const std::vector<Time> times = times_of(schedule, count);
  Listing listing(context.out(), {{"NEXT"}}, "times");
  for (const Time time : times) listing.add({{context.out().time(time)}}, Object().add("time", time));
  listing.end();
  return times.empty() ? Exit::not_found : Exit::done;
}

Object object_of(const ScheduleInfo& info) {
  Object object;
  object.add("name", info.name).add("state", to_string(info.state));
  if (info.problem.empty()) {
    const Schedule& schedule = info.schedule;
    const auto optional = [&](const char* field, const std::string& value) {
      value.empty() ? object.add_null(field) : object.add(field, value);
    };
    optional("cron", schedule.cron);
    if (schedule.cron.empty()) {
      object.add_null("zone").add("every_ms", schedule.every.count());
    } else {
      object.add("zone", schedule.zone).add_null("every_ms");
    }
    object.add("missed", to_string(schedule.missed)).add("overlap", to_string(schedule.overlap));
    object.add("retries", schedule.retries)
        .add("ttl_ms", schedule.ttl ? std::optional(schedule.ttl->count()) : std::nullopt)
        .add("until", schedule.until)
        .add("payload_bytes", schedule.payload.size());
  }
  object.add("next", info.next).add("behind_ms", info.behind.count());
  info.next_id.empty() ? object.add_null("next_id") : object.add("next_id", info.next_id);
  info.problem.empty() ? object.add_null("problem") : object.add("problem", info.problem);
  return object;
}

Exit list(Context& context, Schedules& schedules, const std::string& queue) {
  const std::vector<ScheduleInfo> all = schedules.list();
  Listing listing(context.out(), {{"NAME"}, {"WHEN"}, {"NEXT"}, {"STATE"}, {"BEHIND"}}, "schedules",
                  Object().add("queue", queue));
  for (const ScheduleInfo& info : all) {
    const bool is_behind = info.behind > kBehind;
    listing.add({{printable(info.name)},
                 {info.problem.empty() ? printable(when_of(info.schedule)) : "cannot be read", Colour::plain},
                 {info.next ? context.out().time(*info.next) : "-"},
                 {to_string(info.state), info.state == ScheduleState::paused ? Colour::yellow : Colour::plain},
                 {is_behind ? span_text(info.behind) : "-", is_behind ? Colour::red : Colour::plain}},
                object_of(info));
  }
  listing.end();
  return all.empty() ? Exit::not_found : Exit::done;
}

Failure no_such(const ScheduleArgs& args) {
  return {Exit::not_found, in_quotes(args.queue) + " has no schedule " + in_quotes(args.name) + "; " +
                               command_text("schedule", {"ls", args.queue}) + " lists them"};
}

Exit show(Context& context, Schedules& schedules, const ScheduleArgs& args) {
  const auto info = schedules.find(args.name);
  if (!info) throw no_such(args);
  Output& out = context.out();
  if (!out.is_table()) {
    out.object(object_of(*info));
    return Exit::done;
  }
  const auto line = [&](const std::string& field, const std::string& value) {
    out.line(field + std::string(10 - field.size(), ' ') + value);
  };
  line("name", printable(info->name));
  line("state", to_string(info->state));
  if (!info->problem.empty()) {
    line("problem", printable(info->problem));
    return Exit::done;
  }
  const Schedule& schedule = info->schedule;
  line("when", printable(when_of(schedule)));
  if (info->next) line("next", out.time(*info->next) + "  " + info->next_id);
  if (info->behind > kBehind) line("behind", span_text(info->behind) + ": no consumer of this library looks at it");
  line("missed", to_string(schedule.missed));
  line("overlap", to_string(schedule.overlap));
  if (schedule.until) line("until", out.time(*schedule.until));
  if (schedule.retries) line("retries", std::to_string(*schedule.retries));
  if (schedule.ttl) line("ttl", span_text(*schedule.ttl));
  for (const auto& [name, value] : schedule.headers) line("header", printable(name + "=" + value));
  line("payload", cut(printable(schedule.payload), 200));
  return Exit::done;
}

Exit add(Context& context, Schedules& schedules, ScheduleArgs args) {
  if (args.until) {
    args.schedule.until = args.until->at ? *args.until->at : std::chrono::system_clock::now() + args.until->delay;
  }
  if (args.dry_run) return show_times(context, args.schedule, args.count);
  const delayqueue::SetResult result = schedules.set(args.name, args.schedule);
  if (result != delayqueue::SetResult::unchanged) context.note_change(args.queue, std::nullopt);
  Output& out = context.out();
  const auto info = schedules.find(args.name);
  if (out.is_table()) {
    const std::string next = info && info->next ? "; next: " + out.time(*info->next) : "; it has ended";
    const bool paused = info && info->state == ScheduleState::paused;
    out.line(in_quotes(args.name) + " is " + to_string(result) + (paused ? "; it is paused" : next));
  } else {
    Object object;
    object.add("result", to_string(result));
    if (info) object.append(object_of(*info));
    out.object(object);
  }
  return Exit::done;
}

// Until a signal arrives. An outage does not end it.
Exit run_schedules(Context& context, Schedules& schedules, const std::string& queue) {
  Output& out = context.out();
  out.stderr_line("stores the messages of the schedules of " + in_quotes(queue) + ", and takes none");
  bool failed = false;
  do {
    try {
      schedules.advance();
      if (failed) out.stderr_line("works again");
      failed = false;
    } catch (const delayqueue::Error& error) {
      if (!failed) out.stderr_line(error.what());
      failed = true;
    }
  } while (sleep_for(kRunInterval));
  return Exit::done;
}

Exit change(Context& context, Schedules& schedules, const ScheduleArgs& args) {
  const bool done = args.action == "rm"      ? schedules.remove(args.name)
                    : args.action == "pause" ? schedules.pause(args.name)
                                             : schedules.resume(args.name);
  if (!done) throw no_such(args);
  context.note_change(args.queue, std::nullopt);
  if (args.action != "rm") return show(context, schedules, args);
  if (context.out().is_table()) {
    context.out().line("removed " + in_quotes(args.name));
  } else {
    context.out().object(Object().add("queue", args.queue).add("name", args.name).add("removed", true));
  }
  return Exit::done;
}

Exit schedule(Context& context, const ScheduleArgs& args) {
  const bool has_times = !args.schedule.cron.empty() || args.schedule.every.count() > 0;
  const auto is = [&](const char* action) { return args.action == action; };
  if (!(is("add") || is("ls") || is("show") || is("rm") || is("pause") || is("resume") || is("next") || is("run"))) {
    throw Usage("ACTION: " + in_quotes(args.action) + "; expected add, ls, show, rm, pause, resume, next or run");
  }
  if (!is("add") && !is("next") && has_times) throw Usage("--cron, --every: expected with add and next only");
  if (is("next") && has_times) return show_times(context, args.schedule, args.count);
  if (args.queue.empty()) throw Usage("QUEUE: expected after schedule " + args.action);
  const bool needs_name = !is("ls") && !is("run");
  if (needs_name && args.name.empty()) throw Usage("NAME: expected after schedule " + args.action + " QUEUE");
  if (!needs_name && !args.name.empty()) throw Usage("NAME: " + in_quotes(args.name) + "; expected none");
  if (is("add") && !has_times) throw Usage("--cron or --every: expected one of them");
  if (!is("add")) context.counts(args.queue);
  Schedules schedules(context.client(), args.queue);
  if (is("add")) return add(context, schedules, args);
  if (is("ls")) return list(context, schedules, args.queue);
  if (is("show")) return show(context, schedules, args);
  if (is("run")) return run_schedules(context, schedules, args.queue);
  if (!is("next")) return change(context, schedules, args);
  const auto info = schedules.find(args.name);
  if (!info) throw no_such(args);
  if (!info->problem.empty()) throw Failure(Exit::failed, printable(info->problem));
  return show_times(context, info->schedule, args.count);
}

}  // namespace

void add_schedule(Cli& cli, Context& context) {
  const auto args = std::make_shared<ScheduleArgs>();
  cli.add("schedule",
          "Recurring messages: add, ls, show, rm, pause, resume, next (the next times), run (stores the messages where "
          "no consumer of this library does)",
          {"schedule add orders nightly --cron '0 3 * * *' --zone Europe/Berlin", "schedule add orders poll --every 5m",
           "schedule ls orders", "schedule pause orders nightly", "schedule next --cron '*/15 9-17 * * MON-FRI'"})
      .argument("ACTION", args->action, "add, ls, show, rm, pause, resume, next or run")
      .argument("QUEUE", args->queue, "The queue", false)
      .argument("NAME", args->name, "The schedule", false)
      .text("--cron", args->schedule.cron, "EXPR", "5 fields, or 6 with the second first; or a name such as @daily")
      .text("--zone", args->schedule.zone, "ZONE", "The time zone of --cron, such as Europe/Berlin (UTC)")
      .custom(
          "--every", [args](const std::string& value) { args->schedule.every = parse_duration("--every", value); },
          "DURATION", "At the multiples of this since 1970; at least 1s")
      .custom(
          "--payload", [args](const std::string& value) { args->schedule.payload = payload_in(value); }, "TEXT|@FILE",
          "The payload of each message")
      .custom(
          "--header", [args](const std::string& value) { add_schedule_header(args->schedule.headers, value); },
          "NAME=VALUE", "A header; may be given several times")
      .repeatable()
      .custom("--missed",
              [args](const std::string& value) {
                args->schedule.missed = one_of("--missed", value, {Missed::none, Missed::last, Missed::all});
              },
              "WHICH",
              "Of the times that passed before a consumer looked, make up for none, the last one, or all (last)",
              {"none", "last", "all"})
      .custom("--overlap",
              [args](const std::string& value) {
                args->schedule.overlap = one_of("--overlap", value, {Overlap::allow, Overlap::skip});
              },
              "HOW", "While an earlier message is not finished, skip the next one, or allow both (skip)",
              {"allow", "skip"})
      .custom(
          "--until", [args](const std::string& value) { args->until = parse_when("--until", value); }, "TIME",
          "No later time: 2026-11-21T19:36:45Z, or relative: +30d")
      .custom(
          "--retries",
          [args](const std::string& value) {
            args->schedule.retries = static_cast<int>(parse_number("--retries", value, 0, 1'000'000));
          },
          "N", "How often a message is delivered again (3)")
      .custom(
          "--ttl", [args](const std::string& value) { args->schedule.ttl = parse_duration("--ttl", value); },
          "DURATION", "Each message expires this long after its time")
      .custom(
          "-n,--count", [args](const std::string& value) { args->count = parse_number("--count", value, 1, 10'000); },
          "N", "How many times next shows (5)")
      .flag("--dry-run", args->dry_run, "With add: only show the next times")
      .run([&context, args] { return schedule(context, *args); });
}

}  // namespace dqctl
