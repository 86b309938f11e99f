// dqctl doctor
#include <algorithm>
#include <chrono>

#include "commands.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::CheckReport;
using delayqueue::Finding;
using delayqueue::Inspector;
using delayqueue::Problem;
using delayqueue::Risk;
using delayqueue::RiskKind;
using delayqueue::ServerReport;
using std::chrono::microseconds;

constexpr int kPings = 20;

struct Args {
  std::string queue{};
  bool repair = false;
  bool yes = false;
  std::uint64_t sample = 20;
  std::optional<milliseconds> settle{2000};
};

struct Interrupted {};

struct Latency {
  microseconds least{}, median{}, most{};
};

// Of the call that a look at a queue is made of. Nothing: it is refused, as when a key is of a wrong type.
std::optional<Latency> latency_of(Inspector& inspector) try {
  std::vector<microseconds> spans;
  for (int i = 0; i < kPings && !interrupted(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    inspector.counts();
    spans.push_back(std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - begin));
  }
  if (spans.empty()) return std::nullopt;
  std::sort(spans.begin(), spans.end());
  return Latency{spans.front(), spans[spans.size() / 2], spans.back()};
} catch (const delayqueue::ReplyError&) {
  return std::nullopt;
}

// A queue with a key of a wrong type cannot be counted, and is there.
void must_be_there(Context& context, const std::string& queue) {
  try {
    context.counts(queue);
  } catch (const delayqueue::ReplyError&) {
    return;
  }
}

const char* to_string(RiskKind kind) {
  switch (kind) {
    case RiskKind::eviction:
      return "eviction";
    case RiskKind::persistence:
      return "persistence";
    case RiskKind::disk:
      return "disk";
    case RiskKind::replica:
      return "replica";
    case RiskKind::clock:
      return "clock";
    case RiskKind::unknown:
      break;
  }
  return "unknown";
}

std::string ms_text(microseconds span) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f ms", static_cast<double>(span.count()) / 1000);
  return text;
}

struct Findings {
  ServerReport server{};
  std::optional<Latency> latency{};
  std::vector<Risk> risks{};
  std::optional<CheckReport> check{};
};

CheckReport check(Context& context, const Args& args) {
  Output& out = context.out();
  Progress progress(out, args.repair && args.yes ? "checked and repaired" : "checked");
  delayqueue::CheckOptions options;
  options.repair = args.repair && args.yes;
  options.sample = static_cast<std::size_t>(args.sample);
  options.settle = *args.settle;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (interrupted()) throw Interrupted();
    progress.update(done, total);
  };
  return context.inspector(args.queue).check(options);
}

// Strangers and keys of other types are for a person.
std::uint64_t left_of(const CheckReport& report) {
  std::uint64_t found = 0;
  for (const auto& [problem, count] : report.counts) found += count;
  return found - std::min(found, report.repaired);
}

Object object_of(const ServerReport& server, const std::optional<Latency>& latency) {
  Object object;
  object.add("where", server.where).add("product", server.product).add("version", server.version);
  object.add("role", server.role).add("mode", server.mode);
  object.add("uptime_s", server.uptime ? std::optional(server.uptime->count()) : std::nullopt);
  object.add("clients", server.clients).add("memory", server.memory).add("memory_limit", server.memory_limit);
  object.add("eviction", server.eviction).add("append_only", server.append_only).add("fsync", server.fsync);
  object.add("snapshots", server.snapshots).add("round_trip_us", server.round_trip.count());
  object.add("clock_ahead_us", server.clock_ahead.count());
  if (!latency) return object.add_null("call_us");
  Object call;
  call.add("least", latency->least.count()).add("median", latency->median.count()).add("most", latency->most.count());
  return object.add("call_us", call);
}

Object object_of(const CheckReport& report) {
  Object counts;
  for (const auto& [problem, count] : report.counts) counts.add(delayqueue::to_string(problem), count);
  std::vector<Object> findings;
  for (const Finding& finding : report.findings) {
    findings.push_back(Object()
                           .add("problem", delayqueue::to_string(finding.problem))
                           .add("id", finding.id)
                           .add("what", finding.what)
                           .add("repair", finding.repair)
                           .add("repaired", finding.repaired));
  }
  Object object;
  object.add("clean", report.clean()).add("looked", report.looked).add("repaired", report.repaired);
  return object.add("counts", counts).add("findings", findings);
}

void write_server(Output& out, const Findings& found) {
  const ServerReport& server = found.server;
  const auto line = [&](const char* name, const std::string& text) {
    if (!text.empty()) out.line(name + std::string(12 - std::char_traits<char>::length(name), ' ') + text);
  };
  line("server", printable(server.where));
  line("version", printable(server.product + ' ' + server.version));
  line("role", printable(server.role + (server.mode.empty() ? "" : ", " + server.mode)));
  if (server.uptime) line("up for", span_text(*server.uptime));
  if (server.clients) line("clients", count_text(*server.clients));
  if (server.memory) {
    const bool limited = server.memory_limit && *server.memory_limit > 0;
    line("memory", size_text(*server.memory) + (limited ? " of " + size_text(*server.memory_limit) : ", no limit") +
                       ", " + printable(server.eviction));
  }
  if (!server.append_only.empty()) {
    line("on disk", "appendonly " + printable(server.append_only) + ", appendfsync " + printable(server.fsync) +
                        ", save \"" + printable(server.snapshots) + "\"");
  }
  line("round trip", ms_text(server.round_trip));
  if (found.latency) {
    line("a call", ms_text(found.latency->least) + " at best, " + ms_text(found.latency->median) + " as a rule, " +
                       ms_text(found.latency->most) + " at worst");
  }
  const auto ahead = std::chrono::duration_cast<milliseconds>(server.clock_ahead);
  line("clock", ahead.count() == 0 ? "that of this machine"
                                   : span_text(ahead.count() < 0 ? -ahead : ahead) +
                                         (ahead.count() > 0 ? " ahead of" : " behind") + " this machine's");
  for (const Risk& risk : found.risks) {
    const bool unknown = risk.kind == RiskKind::unknown;
    out.line(out.paint(unknown ? Colour::yellow : Colour::red, unknown ? "unknown" : "risk") +
             std::string(unknown ? 5 : 8, ' ') + printable(risk.text));
  }
  if (found.risks.empty()) line("risks", out.paint(Colour::green, "none found"));
}

void write_check(Output& out, const CheckReport& report, const Args& args) {
  out.line("");
  const std::string name = printable(args.queue);
  if (report.counts.empty()) return out.line(name + ": " + out.paint(Colour::green, "all in order"));
  out.line(name + ": " +
           (report.clean() ? out.paint(Colour::green, "in order, but for what consumers remove by themselves")
                           : out.paint(Colour::red, "damaged")));
  for (const auto& [problem, count] : report.counts) {
    out.line("");
    out.line(out.paint(Colour::bold, count_text(count) + "x " + delayqueue::to_string(problem)));
    bool first = true;
    for (const Finding& finding : report.findings) {
      if (finding.problem != problem) continue;
      if (first) {
        out.line("  what    " + printable(finding.what));
        out.line("  " + std::string(finding.repaired ? "did" : "repair ") + (finding.repaired ? "     " : " ") +
                 printable(finding.repair));
      }
      out.line("  such as " + printable(finding.id));
      first = false;
    }
  }
}

Exit code_of(const Findings& found, const Args& args) {
  const bool risky = std::any_of(found.risks.begin(), found.risks.end(),
                                 [](const Risk& risk) { return risk.kind != RiskKind::unknown; });
  if (found.check && args.repair && args.yes) {
    const std::uint64_t left = left_of(*found.check);
    if (left > 0) return Exit::partly;
  } else if (found.check && !found.check->clean()) {
    return Exit::threshold;
  }
  return risky ? Exit::threshold : Exit::done;
}

void say_what_next(Output& out, const Findings& found, const Args& args) {
  if (!found.check) return;
  const std::uint64_t left = left_of(*found.check);
  if (args.repair && args.yes) {
    out.say("repaired " + count_text(found.check->repaired) +
            (left > 0 ? "; " + count_text(left) + " need a person" : ""));
  } else if (left > 0 && args.repair) {
    out.say("dry run: this is what a repair would do; add --yes to do it");
  } else if (!found.check->clean()) {
    out.say(command_text("doctor", {args.queue}, "--repair") + " shows what a repair would do");
  }
}

Exit doctor(Context& context, const Args& args) {
  if (args.repair && args.queue.empty()) throw Usage("--repair: repairs a queue; expected QUEUE, too");
  if (args.yes && !args.repair) throw Usage("--yes: does what --repair shows; expected --repair, too");
  Output& out = context.out();
  Findings found;
  if (!args.queue.empty()) must_be_there(context, args.queue);
  Inspector& inspector = context.inspector(args.queue.empty() ? "doctor" : args.queue);
  found.server = inspector.server();
  found.risks = inspector.risks();
  found.latency = latency_of(inspector);
  if (out.is_table()) {
    write_server(out, found);
    out.flush();
  }
  if (!args.queue.empty()) {
    try {
      found.check = check(context, args);
    } catch (const Interrupted&) {
      out.say("interrupted before the check was through" +
              std::string(args.repair && args.yes ? "; what was repaired is whole, run it again for the rest" : ""));
      return args.repair && args.yes ? Exit::partly : Exit::interrupted;
    }
    if (out.is_table()) write_check(out, *found.check, args);
  }
  if (!out.is_table()) {
    std::vector<Object> risks;
    for (const Risk& risk : found.risks)
      risks.push_back(Object().add("kind", to_string(risk.kind)).add("text", risk.text));
    Object object;
    object.add("server", object_of(found.server, found.latency)).add("risks", risks);
    if (found.check) object.add("queue", args.queue).add("check", object_of(*found.check));
    out.object(object);
  }
  say_what_next(out, found, args);
  return code_of(found, args);
}

}  // namespace

void add_doctor(Cli& cli, Context& context) {
  const auto args = std::make_shared<Args>();
  cli.add("doctor", "Checks the server for what can lose messages, and the keys of a queue",
          {"doctor", "doctor orders", "doctor orders --repair --yes"})
      .argument("QUEUE", args->queue, "Its name; without it only the server is looked at", false)
      .flag("--repair", args->repair, "Show what a repair would do; with --yes do it")
      .flag("--yes", args->yes, "Repair. No body is ever deleted")
      .number("--sample", args->sample, 1, 10'000, "Most findings of each kind to show (20)")
      .duration("--settle", args->settle, "What looks wrong must look so for so long (2s)")
      .run([&context, args] { return doctor(context, *args); });
}

}  // namespace dqctl
