// dqctl doctor
#include <delayqueue/queue_admin.h>
#include <delayqueue/server.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>

#include "commands.h"
#include "limits_text.h"
#include "row_error.h"
#include "signals.h"
#include "stuck.h"

namespace dqctl {
namespace {

using delayqueue::CheckReport;
using delayqueue::Finding;
using delayqueue::Inspector;
using delayqueue::Problem;
using delayqueue::Risk;
using delayqueue::RiskKind;
using delayqueue::ServerInfo;
using std::chrono::microseconds;

constexpr int kPings = 20;

struct DoctorArgs {
  std::string queue{};
  bool repair = false;
  bool yes = false;
  std::uint64_t sample = 20;
  std::optional<milliseconds> settle{2000};
  std::vector<std::string> accepted{};  // names of kinds of risks
};

struct Interrupted {};

struct Latency {
  microseconds least{}, median{}, most{};
};

// The latency of counts(), the call that reads a queue. Unset if it fails, such as on a key of a wrong type or an
// unreachable node of the Cluster.
std::optional<Latency> latency_of(Inspector& inspector) try {
  std::vector<microseconds> spans;
  for (int i = 0; i < kPings && !interrupted(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(inspector.counts());
    spans.push_back(std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - begin));
  }
  if (spans.empty()) return std::nullopt;
  std::sort(spans.begin(), spans.end());
  return Latency{spans.front(), spans[spans.size() / 2], spans.back()};
} catch (const delayqueue::Error&) {
  return std::nullopt;
}

// Throws if the queue does not exist. A queue with a key of a wrong type exists, but cannot be counted; neither can one
// with partitions if the master of one of them is away. Returns how many partitions it has.
std::size_t must_be_there(Context& context, const std::string& queue) {
  try {
    const std::size_t partitions = context.inspector(queue).partitions().size();
    if (partitions == 1) context.counts(queue);
    return partitions;
  } catch (const delayqueue::ReplyError&) {
    return 1;
  }
}

// The id of a message that a program older than partitions has sent, if one can be read.
std::string unpartitioned_id(Inspector& inspector) try {
  const auto found = inspector.find_unpartitioned();
  return found ? found->id : "";
} catch (const delayqueue::Error&) {
  return "";
}

// The risks that --accept takes. RiskKind::unknown is a note and does not change the exit code.
std::vector<std::string> names_of_risks() {
  std::vector<std::string> names;
  for (const RiskKind kind : {RiskKind::eviction, RiskKind::memory, RiskKind::persistence, RiskKind::disk,
                              RiskKind::replica, RiskKind::clock, RiskKind::coverage}) {
    names.emplace_back(delayqueue::to_string(kind));
  }
  return names;
}

// An unknown risk is a note.
Level level_of(const Risk& risk) {
  if (risk.kind == RiskKind::unknown) return Level::ok;
  return risk.critical ? Level::critical : Level::warning;
}

bool is_accepted(const Risk& risk, const DoctorArgs& args) {
  return std::find(args.accepted.begin(), args.accepted.end(), delayqueue::to_string(risk.kind)) != args.accepted.end();
}

std::string ms_text(microseconds span) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f ms", static_cast<double>(span.count()) / 1000);
  return text;
}

struct Findings {
  std::vector<ServerInfo> masters{};
  ServerInfo server{};  // the server that holds the queue; without a queue the first one that answered
  std::optional<Latency> latency{};
  std::size_t partitions = 1;
  std::string unpartitioned{};  // a message of a program older than partitions; empty: none was found
  bool has_limits = false;
  std::vector<std::string> without_limits{};  // consumers that do not keep them
  std::optional<CheckReport> check{};
};

// Who does not keep the limits of the queue, if it has any.
void read_limits(Inspector& inspector, Findings& found) try {
  const delayqueue::QueueLimits limits = inspector.limits();
  found.has_limits = limits.rate || limits.running;
  if (found.has_limits) found.without_limits = consumers_without_limits(inspector);
} catch (const delayqueue::ReplyError&) {
}

// A queue with partitions has several; that of partition 0 is shown, if it answers.
ServerInfo server_of(Inspector& inspector, const std::vector<ServerInfo>& masters, std::size_t partitions,
                     const DoctorArgs& args) {
  try {
    if (masters.size() > 1 && !args.queue.empty()) return inspector.server();
  } catch (const delayqueue::ConnectionError&) {
    if (partitions == 1) throw;
  }
  const auto answered = std::find_if(masters.begin(), masters.end(), [](const auto& one) { return one.error.empty(); });
  return answered == masters.end() ? masters.front() : *answered;
}

CheckReport check(Context& context, const DoctorArgs& args) {
  Output& out = context.out();
  Progress progress(out, args.repair && args.yes ? "checked and repaired" : "checked");
  delayqueue::CheckOptions options;
  options.repair = args.repair && args.yes;
  options.sample = static_cast<std::size_t>(args.sample);
  options.recheck_after = *args.settle;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (interrupted()) throw Interrupted();
    progress.update(done, total);
  };
  CheckReport report = context.admin(args.queue).check(options);
  context.note_change(args.queue, report.repaired);
  return report;
}

// Whether there is damage. Partitions that could not be examined are another matter.
bool is_damaged(const CheckReport& report) {
  CheckReport examined = report;
  examined.errors.clear();
  return !examined.clean();
}

// How many findings a repair leaves to a person, such as foreign ids and keys of a wrong type.
std::uint64_t left_of(const CheckReport& report) {
  std::uint64_t found = 0;
  for (const auto& [problem, count] : report.counts) found += count;
  return found - std::min(found, report.repaired);
}

Object object_of(const ServerInfo& server) {
  Object object;
  object.add("where", server.address).add("product", server.product).add("version", server.version);
  object.add("role", server.role).add("mode", server.mode);
  object.add("uptime_s", server.uptime ? std::optional(server.uptime->count()) : std::nullopt);
  object.add("clients", server.clients).add("memory", server.memory).add("memory_limit", server.memory_limit);
  object.add("eviction", server.eviction).add("append_only", server.append_only).add("fsync", server.fsync);
  object.add("snapshots", server.snapshots).add("round_trip_us", server.round_trip.count());
  return object.add("clock_ahead_us", server.clock_ahead.count());
}

Object object_with_latency(const ServerInfo& server, const std::optional<Latency>& latency) {
  Object object = object_of(server);
  if (!latency) return object.add_null("call_us");
  Object call;
  call.add("least", latency->least.count()).add("median", latency->median.count()).add("most", latency->most.count());
  return object.add("call_us", call);
}

Object object_with_error(const ServerInfo& master) {
  Object object = object_of(master);
  return master.error.empty() ? object.add_null("error") : object.add("error", printable(master.error));
}

Object object_of(const Risk& risk, const std::string& address, const DoctorArgs& args) {
  Object object;
  object.add("server", address).add("kind", delayqueue::to_string(risk.kind)).add("level", to_string(level_of(risk)));
  return object.add("accepted", is_accepted(risk, args)).add("text", risk.text);
}

Object object_of(const CheckReport& report) {
  Object counts;
  for (const auto& [problem, count] : report.counts) counts.add(delayqueue::to_string(problem), count);
  std::vector<Object> findings;
  for (const Finding& finding : report.findings) {
    findings.push_back(Object()
                           .add("problem", delayqueue::to_string(finding.problem))
                           .add("id", finding.id)
                           .add("what", finding.description)
                           .add("repair", finding.repair)
                           .add("repaired", finding.repaired));
    if (finding.partition > 0) findings.back().add("partition", finding.partition);
  }
  Object object;
  object.add("clean", report.clean()).add("looked", report.examined).add("repaired", report.repaired);
  object.add("counts", counts).add("findings", findings);
  if (report.errors.empty()) return object;
  std::vector<Object> errors;
  for (const auto& [partition, error] : report.errors) {
    errors.push_back(Object().add("partition", partition).add("error", printable(error)));
  }
  return object.add("errors", errors);
}

void write_server(Output& out, const Findings& found) {
  const ServerInfo& server = found.server;
  const auto line = [&](const char* name, const std::string& text) {
    if (!text.empty()) out.line(name + std::string(12 - std::char_traits<char>::length(name), ' ') + text);
  };
  line("server", printable(server.address));
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
}

struct ShownRisk {
  const Risk* risk;
  std::string addresses;  // of all servers that have it
};

// Each risk once: the masters of a Cluster often have the same settings.
std::vector<ShownRisk> risks_of(const std::vector<ServerInfo>& masters) {
  std::vector<ShownRisk> shown;
  for (const ServerInfo& master : masters) {
    for (const Risk& risk : master.risks) {
      const auto same = std::find_if(shown.begin(), shown.end(), [&](const ShownRisk& one) {
        return one.risk->kind == risk.kind && one.risk->text == risk.text;
      });
      if (same == shown.end()) {
        shown.push_back({&risk, master.address});
      } else {
        same->addresses += ", " + master.address;
      }
    }
  }
  return shown;
}

void write_risks(Output& out, const Findings& found, const DoctorArgs& args) {
  const auto line = [&](const std::string& name, Colour colour, const std::string& text) {
    out.line(out.paint(colour, name) + std::string(12 - name.size(), ' ') + printable(text));
  };
  const bool several = found.masters.size() > 1;
  if (several) line("masters", Colour::plain, count_text(found.masters.size()) + " in this Cluster");
  bool clean = true;
  for (const ServerInfo& master : found.masters) {
    if (master.error.empty()) continue;
    line("error", Colour::red, master.address + ": " + master.error);
    clean = false;
  }
  for (const ShownRisk& one : risks_of(found.masters)) {
    const std::string text = several ? one.addresses + ": " + one.risk->text : one.risk->text;
    const Level level = level_of(*one.risk);
    if (level == Level::ok) {
      line("unknown", Colour::yellow, text);
    } else if (is_accepted(*one.risk, args)) {
      line("accepted", Colour::plain, text);
    } else {
      line(level == Level::critical ? "critical" : "risk", Colour::red, text);
    }
    clean = false;
  }
  if (clean) out.line("risks       " + out.paint(Colour::green, "none found"));
  for (const std::string& one : found.without_limits) {
    line("note", Colour::yellow, one + ", does not keep the limits of the queue: update it");
  }
  if (found.has_limits) {
    line("note", Colour::plain,
         "the queue has limits; workers of the Go library do not keep them, and are in no list of consumers");
  }
  if (found.unpartitioned.empty()) return;
  line("note", Colour::yellow,
       "partition 0 has messages of a program that knows no partitions, such as " + found.unpartitioned +
           ": an older version of this library, a worker of the Go library, or one that sends its own UUIDs of version "
           "7. It sends to partition 0 only; an older consumer serves no other");
}

// Whether a partition was examined but for what this user may not read.
bool is_partial(const std::string& error) { return error.rfind("only a part was examined", 0) == 0; }

void write_check(Output& out, const CheckReport& report, const DoctorArgs& args) {
  out.line("");
  const std::string name = printable(args.queue);
  for (const auto& [partition, error] : report.errors) {
    out.line(out.paint(Colour::red, "partition " + std::to_string(partition) +
                                        (is_partial(error) ? ": " : " not examined: ") + printable(error)));
  }
  if (report.counts.empty()) {
    return out.line(name + ": " +
                    (report.errors.empty() ? out.paint(Colour::green, "all in order")
                     : std::any_of(report.errors.begin(), report.errors.end(),
                                   [](const auto& one) { return is_partial(one.second); })
                         ? "the rest is in order"
                         : "the other partitions are in order"));
  }
  out.line(name + ": " +
           (!is_damaged(report)
                ? out.paint(Colour::green, "in order, except for remains that consumers remove by themselves")
                : out.paint(Colour::red, "damaged")));
  for (const auto& [problem, count] : report.counts) {
    out.line("");
    out.line(out.paint(Colour::bold, count_text(count) + "x " + delayqueue::to_string(problem)));
    bool first = true;
    for (const Finding& finding : report.findings) {
      if (finding.problem != problem) continue;
      if (first) {
        out.line("  what    " + printable(finding.description));
        out.line("  " + std::string(finding.repaired ? "did" : "repair ") + (finding.repaired ? "     " : " ") +
                 printable(finding.repair));
      }
      out.line("  such as " + printable(finding.id) +
               (finding.partition > 0 ? " in partition " + std::to_string(finding.partition) : ""));
      first = false;
    }
  }
}

Exit code_of(const Findings& found, const DoctorArgs& args) {
  bool risky = false;
  RowErrors errors;
  for (const ServerInfo& master : found.masters) {
    errors.add(master.error.empty() ? std::nullopt : std::optional(RowError{master.error}));
    for (const Risk& risk : master.risks) risky = risky || (level_of(risk) != Level::ok && !is_accepted(risk, args));
  }
  if (found.check && args.repair && args.yes) {
    const std::uint64_t left = left_of(*found.check);
    if (left > 0) return Exit::partly;
  } else if (found.check && is_damaged(*found.check)) {
    return Exit::threshold;
  }
  for (const auto& one : found.check ? found.check->errors : std::map<unsigned, std::string>()) {
    errors.add(RowError{one.second});
  }
  return risky ? Exit::threshold : errors.code();
}

void print_next_step(Output& out, const Findings& found, const DoctorArgs& args) {
  if (!found.check) return;
  const std::uint64_t left = left_of(*found.check);
  if (args.repair && args.yes) {
    out.stderr_line("repaired " + count_text(found.check->repaired) +
                    (left > 0 ? "; " + counted(left, "finding", "needs", "need") + " a person" : ""));
  } else if (left > 0 && args.repair) {
    out.stderr_line("dry run: this is what a repair would do; add --yes to do it");
  } else if (is_damaged(*found.check)) {
    out.stderr_line(command_text("doctor", {args.queue}, "--repair") + " shows what a repair would do");
  }
}

Exit doctor(Context& context, const DoctorArgs& args) {
  if (args.repair && args.queue.empty()) throw Usage("--repair: repairs a queue; expected QUEUE, too");
  if (args.yes && !args.repair) throw Usage("--yes: does what --repair shows; expected --repair, too");
  if (context.options.partition && args.queue.empty()) throw Usage("--partition: of a queue; expected QUEUE, too");
  Output& out = context.out();
  Findings found;
  Inspector& inspector = context.inspector(args.queue.empty() ? "doctor" : args.queue);
  found.masters = delayqueue::server_info(context.client());
  std::exception_ptr connection_error;  // the node that holds the queue is unreachable; the others are shown first
  try {
    if (!args.queue.empty()) found.partitions = must_be_there(context, args.queue);
    if (found.partitions > 1) {
      delayqueue::add_partition_risks(found.masters);
      found.unpartitioned = unpartitioned_id(inspector);
    }
    if (!args.queue.empty() && !context.options.partition) read_limits(inspector, found);
    found.server = server_of(inspector, found.masters, found.partitions, args);
    found.latency = latency_of(inspector);
  } catch (const delayqueue::ConnectionError&) {
    connection_error = std::current_exception();
  }
  if (out.is_table()) {
    if (!connection_error) write_server(out, found);
    write_risks(out, found, args);
    out.flush();
  }
  if (connection_error) std::rethrow_exception(connection_error);
  if (!args.queue.empty()) {
    try {
      found.check = check(context, args);
    } catch (const Interrupted&) {
      out.stderr_line(
          "interrupted before the check was complete" +
          std::string(args.repair && args.yes ? "; all repairs so far are complete, run it again for the rest" : ""));
      return args.repair && args.yes ? Exit::partly : Exit::interrupted;
    }
    if (out.is_table()) write_check(out, *found.check, args);
  }
  if (!out.is_table()) {
    std::vector<Object> servers, risks;
    for (const ServerInfo& master : found.masters) {
      servers.push_back(object_with_error(master));
      for (const Risk& risk : master.risks) risks.push_back(object_of(risk, master.address, args));
    }
    Object object;
    object.add("server", object_with_latency(found.server, found.latency)).add("servers", servers).add("risks", risks);
    if (found.check) object.add("queue", args.queue).add("check", object_of(*found.check));
    if (found.has_limits) object.add("without_limits", found.without_limits);
    if (found.partitions > 1) {
      object.add("partitions", found.partitions);
      found.unpartitioned.empty() ? object.add_null("unpartitioned") : object.add("unpartitioned", found.unpartitioned);
    }
    out.object(object);
  }
  print_next_step(out, found, args);
  return code_of(found, args);
}

}  // namespace

void add_doctor(Cli& cli, Context& context) {
  const auto args = std::make_shared<DoctorArgs>();
  Command& command = cli.add(
      "doctor",
      "Checks the server (of a Cluster all masters) for settings that can lose messages, and the keys of a queue",
      {"doctor", "doctor orders", "doctor orders --accept persistence", "doctor orders --repair --yes"});
  command.argument("QUEUE", args->queue, "Its name; without it only the server is checked", false)
      .flag("--repair", args->repair, "Show what a repair would do; with --yes do it")
      .flag("--yes", args->yes, "Repair. No body is ever deleted")
      .number("--sample", args->sample, 1, 10'000, "Most findings of each kind to show (20)")
      .duration("--settle", args->settle, "How long a finding must last to be reported (2s)")
      .choices("--accept", args->accepted, names_of_risks(), "RISK",
               "A known risk that does not change the exit code, by its name: eviction, memory, persistence, disk, "
               "replica, clock or coverage; may be repeated");
  add_partition(command, context);
  command.run([&context, args] { return doctor(context, *args); });
}

}  // namespace dqctl
