#include "inspector/integrity_check.h"

#include "redis/escaped.h"
#include "schedules/advancer.h"
#include "store/layout.h"
#include "store/limits.h"
#include "store/queries.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;
using store::Candidate;
using store::Collection;

constexpr std::size_t kMostCandidates = 50'000;  // kept in memory; at this number they are confirmed
constexpr std::size_t kPages = 10;               // of a list in one round trip

// The order of the scans. An id becomes a candidate in the first one that finds it.
constexpr Collection kScans[] = {Collection::pending, Collection::unack,    Collection::dead,   Collection::count,
                                 Collection::garbage, Collection::attempts, Collection::reason, Collection::headers,
                                 Collection::keys,    Collection::bodies};

// Whether an earlier scan has found the id. parts: see check.lua.
bool was_scanned(Collection collection, char verdict, const std::string& parts) {
  static constexpr std::pair<Collection, char> kOrder[] = {
      {Collection::pending, 'p'}, {Collection::unack, 'u'}, {Collection::dead, 'd'}, {Collection::count, 'c'}};
  for (const auto& [earlier, part] : kOrder) {
    if (earlier == collection) return false;
    if (parts.find(part) != std::string::npos) return true;
  }
  if (collection == Collection::garbage) return false;
  if (collection == Collection::keys && parts.find('h') != std::string::npos) return true;
  if (verdict == 'G' || (verdict == 'A' && (collection == Collection::headers || collection == Collection::keys))) {
    return true;
  }
  return collection == Collection::reason && parts.find('a') != std::string::npos;
}

Problem problem_of(char verdict) {
  switch (verdict) {
    case 'M':
      return Problem::stranded;
    case 'O':
      return Problem::orphaned_body;
    case 'N':
      return Problem::no_retries;
    case 'B':
      return Problem::no_body;
    case 'T':
      return Problem::two_states;
    case 'I':
      return Problem::invalid_time;
    case 'L':
      return Problem::no_holder;
    case 'C':
    case 'K':
      return Problem::orphaned_retries;
    case 'E':
      return Problem::expired;
    case 'G':
      return Problem::garbage;
    case 'A':
      return Problem::orphaned_metadata;
    case 'H':
      return Problem::orphaned_headers;
    case 'W':
      return Problem::wrong_type;
    default:
      return Problem::foreign;
  }
}

bool can_be_repaired(char verdict) { return verdict != 'W' && verdict != 'V'; }

std::string states_of(const std::string& parts) {
  std::string states;
  for (const auto& [part, name] : {std::pair('p', "pending"), {'u', "unack"}, {'d', "dead"}}) {
    if (parts.find(part) != std::string::npos) states += (states.empty() ? "" : ", ") + std::string(name);
  }
  return states;
}

std::string places_of(const std::string& parts) {
  std::string places = states_of(parts);
  if (parts.find('c') != std::string::npos) places += places.empty() ? "retry:cnt" : ", retry:cnt";
  return places;
}

Finding describe(char verdict, const std::string& id, const std::string& parts) {
  const bool body = parts.find('b') != std::string::npos;
  const bool elsewhere = parts.find_first_of("pd") != std::string::npos;
  Finding finding{problem_of(verdict), id};
  const auto with = [&](const std::string& what, const std::string& repair) {
    finding.description = what;
    finding.repair = repair;
    return finding;
  };
  switch (verdict) {
    case 'M':
      return with("has a body and retries, but is in no state: it would never be delivered", "becomes ready at once");
    case 'O':
      return with("has a body, but no state and no retries: it would never be delivered",
                  "gets retries, and becomes ready at once");
    case 'N':
      return with("is pending without a retry count: it would be dropped when it is due", "gets retries");
    case 'B':
      return with(
          "is pending and not yet due, but its body is gone: it was deleted or evicted, and the message is lost",
          "its remains are removed");
    case 'T':
      return with("is in several states: " + states_of(parts),
                  "stays in one: in dead if it has no retry count, else in the later of pending and unack");
    case 'I':
      return with("its time in " + states_of(parts) + " is not between 1970 and 2199: another program wrote it",
                  "pending: gets the nearest time in this range, so reschedule it; dead: gets the current time");
    case 'L':
      return with("is in unack for longer than any lease or backoff: no consumer holds it",
                  elsewhere ? "leaves unack; it is in another state, too"
                  : body    ? "becomes ready at once"
                            : "its remains are removed");
    case 'C':
      return with("has a retry count, but there is no such message", "the count is removed");
    case 'K':
      return with("is dead, and still has a retry count", "the count is removed; it stays dead");
    case 'S':
      return with("is no UUID, so no message of this library; in " + places_of(parts), "removed from there");
    case 'V':
      return with("is a body whose id is no UUID" + (places_of(parts).empty() ? "" : "; in " + places_of(parts)),
                  "none, it may be data of another program: look at it, and delete its key");
    case 'W':
      return with("its body is no string: another program uses that key",
                  "none, it may be data of another program: look at it, and delete the key");
    case 'E':
      return with("its body is gone, as after the end of its TTL: it cannot be delivered", "its remains are removed");
    case 'G':
      return with("is finished; running consumers delete it within seconds", "deleted");
    case 'H':
      return with("has headers or a unique key, but there is no such message", "they are removed");
    default:
      return with("has a delivery count or a reason, but there is no such message", "they are removed");
  }
}

}  // namespace

const char* DELAYQUEUE_ABI::to_string(Problem problem) {
  switch (problem) {
    case Problem::stranded:
      return "stranded";
    case Problem::orphaned_body:
      return "orphaned_body";
    case Problem::no_retries:
      return "no_retries";
    case Problem::no_body:
      return "no_body";
    case Problem::two_states:
      return "two_states";
    case Problem::no_holder:
      return "no_holder";
    case Problem::orphaned_retries:
      return "orphaned_retries";
    case Problem::foreign:
      return "foreign";
    case Problem::invalid_time:
      return "invalid_time";
    case Problem::invalid_total:
      return "invalid_total";
    case Problem::invalid_setting:
      return "invalid_setting";
    case Problem::lost_layout:
      return "lost_layout";
    case Problem::lost_partition:
      return "lost_partition";
    case Problem::wrong_type:
      return "wrong_type";
    case Problem::expired:
      return "expired";
    case Problem::garbage:
      return "garbage";
    case Problem::invalid_schedule:
      return "invalid_schedule";
    case Problem::schedule_without_slot:
      return "schedule_without_slot";
    case Problem::slot_without_schedule:
      return "slot_without_schedule";
    case Problem::invalid_headers:
      return "invalid_headers";
    case Problem::orphaned_metadata:
      return "orphaned_metadata";
    case Problem::orphaned_headers:
      break;
  }
  return "orphaned_headers";
}

bool CheckReport::clean() const {
  return errors.empty() && std::all_of(counts.begin(), counts.end(), [](const auto& count) {
           return count.first == Problem::expired || count.first == Problem::garbage ||
                  count.first == Problem::orphaned_metadata || count.first == Problem::orphaned_headers;
         });
}

namespace {

// Adds what was found and repaired.
void add(CheckReport& sum, CheckReport report, std::size_t sample) {
  sum.examined += report.examined;
  sum.repaired += report.repaired;
  for (Finding& finding : report.findings) {
    const auto same = [&](const Finding& other) { return other.problem == finding.problem; };
    if (static_cast<std::size_t>(std::count_if(sum.findings.begin(), sum.findings.end(), same)) >= sample) continue;
    sum.findings.push_back(std::move(finding));
  }
  for (const auto& count : report.counts) sum.counts[count.first] += count.second;
}

// Adds the report of a partition.
void add(CheckReport& sum, CheckReport report, unsigned partition, std::size_t sample) {
  for (Finding& finding : report.findings) finding.partition = partition;
  for (const auto& part : report.errors) sum.errors[partition] = part.second;
  add(sum, std::move(report), sample);
}

// The set of known queues, which all queues with the prefix share.
CheckReport check_known_queues(SharedConnection& home) {
  CheckReport report;
  const std::string& key = home.moves().keys().queues;
  std::string type;
  try {
    type = home.ask([&](redis::Pipeline& pipeline) { return store::type(pipeline, key); });
  } catch (const Error&) {  // no right to read it, or its node of the Cluster is away
    return report;
  }
  if (type == "none" || type == "set") return report;
  report.counts[Problem::wrong_type] = 1;
  report.findings.push_back({Problem::wrong_type, key,
                             "is a " + type + ", expected a set: another program uses the key of the list of queues",
                             "none, it may be data of another program: rename or delete it, and check again", false});
  return report;
}

// Finds a layout that both copies have lost, and partitions with messages that no copy names: clients that start now
// use none of these partitions. Later calls of `partitions` know the whole layout.
CheckReport check_layout(Partitions& partitions, const CheckOptions& options) {
  const Partitions::Lost lost = partitions.find_lost();
  CheckReport report;
  if (lost.is_layout()) {
    const std::string& key = partitions.home().moves().keys().settings;
    const unsigned first = lost.named.top, last = lost.whole.top - 1;
    const std::string beyond =
        first > last    ? "the last number of partitions that was set, " + std::to_string(lost.whole.partitions)
        : first == last ? "partition " + std::to_string(last)
                        : "partitions " + std::to_string(first) + " to " + std::to_string(last);
    if (options.repair) partitions.layout().restore();
    report.findings.push_back({Problem::lost_layout, key,
                               "partitions 0 and 1 have lost the layout of the queue: their copies do not name " +
                                   beyond + (first > last ? "" : ", whose messages are delivered to no new consumer"),
                               "both copies are written again", options.repair});
  }
  for (const unsigned partition : lost.uncopied) {
    const store::Keys& keys = partitions.of(partition).moves().keys();
    Finding finding{Problem::lost_partition, keys.base};
    finding.description = "has messages, but no copy of the layout names this partition: no consumer serves it";
    finding.repair = "none, it may be data of another program: if it belongs to this queue, set the field top of " +
                     keys.settings + " to " + std::to_string(partition + 1) + ", and repair it then";
    finding.partition = partition;
    report.findings.push_back(std::move(finding));
  }
  if (lost.is_layout()) report.counts[Problem::lost_layout] = 1;
  if (!lost.uncopied.empty()) report.counts[Problem::lost_partition] = lost.uncopied.size();
  if (lost.is_layout() && options.repair) report.repaired = 1;
  return report;
}

}  // namespace

CheckReport check_partitions(Partitions& partitions, const CheckOptions& options) {
  const CheckReport of_layout = check_layout(partitions, options);
  const std::vector<unsigned> all = partitions.all(options.repair ? LostCopies::restore : LostCopies::leave);
  CheckReport sum = check_known_queues(partitions.of(0));
  std::exception_ptr error;
  std::size_t failed = 0;
  std::uint64_t before = 0;  // steps of the partitions before
  for (const unsigned partition : all) {
    CheckOptions of_one = options;
    std::uint64_t last = before;
    if (options.progress) {
      of_one.progress = [&](std::uint64_t done, std::uint64_t total) {
        last = before + done;
        options.progress(last, before + total);
      };
    }
    try {
      CheckReport report = IntegrityCheck(partitions.of(partition), of_one).run();
      if (report.repaired > 0 && partition > 0) partitions.wake({partition});
      add(sum, std::move(report), partition, options.sample);
    } catch (const Error& e) {
      sum.errors[partition] = e.what();
      error = std::current_exception();
      ++failed;
    }
    before = last;
  }
  if (failed == all.size()) std::rethrow_exception(error);
  add(sum, of_layout, options.sample);
  return sum;
}

CheckReport IntegrityCheck::run() {
  if (!check_types()) return std::move(report_);
  if (has_stats_) check_totals();
  check_settings();
  if (has_unique_) check_keys();
  if (has_schedules_ && can_check_schedules_) check_schedules();
  plan();
  std::size_t refused = 0;
  for (const Collection collection : kScans) {
    if (collection == Collection::keys && !has_keys_) continue;
    try {
      scan(collection);
    } catch (const ReplyError& error) {  // such as for SCAN, which only the search for payloads needs
      if (++refused == std::size(kScans)) throw;
      note_unexamined(error);
    }
    if (collection == Collection::count) find_stranded();
  }
  confirm_candidates();
  if (options_.progress) options_.progress(total_, total_);
  return std::move(report_);
}

// Reports keys of a wrong type. False if one of them makes the rest of the check impossible.
bool IntegrityCheck::check_types() {
  const std::pair<const std::string*, const char*> expected[] = {
      {&keys().pending, "zset"}, {&keys().unack, "zset"},     {&keys().dead, "zset"},     {&keys().ready, "list"},
      {&keys().retry, "list"},   {&keys().count, "hash"},     {&keys().attempts, "hash"}, {&keys().reason, "hash"},
      {&keys().garbage, "set"},  {&keys().stats, "hash"},     {&keys().wake, "zset"},     {&keys().paused, "string"},
      {&keys().watch, "string"}, {&keys().wakes, "zset"},     {&keys().headers, "hash"},  {&keys().consumers, "hash"},
      {&keys().actions, "list"}, {&keys().limits, "hash"},    {&keys().running, "zset"},  {&keys().unique, "hash"},
      {&keys().keys, "hash"},    {&keys().schedules, "hash"}, {&keys().slots, "zset"},    {&keys().open, "hash"}};
  bool can_continue = true;
  for (const auto& [key, wanted] : expected) {
    const std::string type =
        shared_connection_.ask([&, name = key](redis::Pipeline& pipeline) { return store::type(pipeline, *name); });
    has_stats_ = has_stats_ || (key == &keys().stats && type == wanted);
    has_unique_ = has_unique_ || (key == &keys().unique && type == wanted);
    has_schedules_ = has_schedules_ || ((key == &keys().schedules || key == &keys().slots) && type == wanted);
    can_check_schedules_ = can_check_schedules_ &&
                           ((key != &keys().schedules && key != &keys().slots) || type == "none" || type == wanted);
    has_keys_ = has_keys_ || (key == &keys().keys && type == wanted);
    has_limits_ = has_limits_ || (key == &keys().limits && type == wanted);
    if (type == "none" || type == wanted) continue;
    report({Problem::wrong_type, *key,
            "is a " + type + ", expected a " + wanted + ": another program uses a key of this queue",
            "none, it may be data of another program: rename or delete it, and check again", false});
    can_continue = can_continue &&
                   (key == &keys().stats || key == &keys().wake || key == &keys().wakes || key == &keys().watch ||
                    key == &keys().paused || key == &keys().consumers || key == &keys().actions ||
                    key == &keys().limits || key == &keys().running || key == &keys().unique || key == &keys().keys ||
                    key == &keys().schedules || key == &keys().slots || key == &keys().open);
  }
  return can_continue;
}

// Reports statistics that are no counts. They fail no move: they are read as 0, and a value at the limit stays there.
void IntegrityCheck::check_totals() {
  std::string cursor = "0";
  do {
    const store::ScannedTotals step =
        shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::scan_totals(pipeline, keys(), cursor); });
    cursor = step.cursor;
    std::vector<std::string> wrong;
    for (const auto& [field, value] : step.fields) {
      if (field == store::kProbe) continue;  // scripts check its value when they use it, and replace an invalid one
      const bool known =
          std::find(std::begin(store::kTotals), std::end(store::kTotals), field) != std::end(store::kTotals);
      if (known && store::is_total(value)) continue;
      wrong.push_back(field);
      report({Problem::invalid_total, field,
              known ? "is \"" + redis::escaped(value.substr(0, 32)) + "\", which is no count of up to 15 digits"
                    : "is no statistic of this library, but a field of " + keys().stats,
              known ? "starts again at 0" : "removed", options_.repair});
    }
    if (!options_.repair || wrong.empty()) continue;
    shared_connection_.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      pipeline.command("HDEL").key(keys().stats);
      for (const std::string& field : wrong) pipeline.arg(field);
      pipeline.run();
      pipeline.reply(0);
    });
  } while (cursor != "0");
}

// Reports settings that count as absent. They fail no move: clients write those of the layout again.
void IntegrityCheck::check_settings() {
  const std::vector<std::string> invalid =
      shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::invalid_settings(pipeline, keys()); });
  for (const std::string& field : invalid) {
    report({Problem::invalid_setting, field,
            "a field of " + keys().settings + ": has a value that no client writes, and counts as absent", "removed",
            options_.repair});
  }
  delete_invalid(keys().settings, invalid);
  if (!has_limits_) return;
  const std::vector<std::string> limits =
      shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::invalid_limits(pipeline, keys()); });
  for (const std::string& field : limits) {
    report({Problem::invalid_setting, field,
            "a field of " + keys().limits + ": has a value that no client writes, and counts as absent", "removed",
            options_.repair});
  }
  delete_invalid(keys().limits, limits);
}

// Reports schedules that consumers do not keep going.
void IntegrityCheck::check_schedules() {
  for (const std::string* key : {&keys().schedules, &keys().slots}) {
    std::string cursor = "0";
    do {
      std::vector<std::string> names, long_names;
      shared_connection_.with_connection([&](redis::Connection& connection) {
        redis::Pipeline pipeline(connection);
        pipeline.command(key == &keys().slots ? "ZSCAN" : "HSCAN").key(*key).arg(cursor);
        pipeline.run();
        cursor = pipeline.reply(0)[0].text();
        const redis::Reply found = pipeline.reply(0)[1];
        for (std::size_t i = 0; i + 1 < found.size(); i += 2) {
          const std::string_view name = found[i].text();
          (name.size() <= store::kLongestScheduleName ? names : long_names).emplace_back(name);
        }
      });
      for (const std::string& name : long_names) report_schedule(*key, name);
      if (names.empty()) continue;
      const store::ReadSchedules read = shared_connection_.ask(
          [&](redis::Pipeline& pipeline) { return shared_connection_.moves().read_schedules(pipeline, names); });
      for (std::size_t i = 0; i < read.schedules.size(); ++i) {
        key == &keys().slots ? check_slot(read.schedules[i]) : check_schedule(read, read.schedules[i]);
      }
    } while (cursor != "0");
  }
}

void IntegrityCheck::check_schedule(const store::ReadSchedules& read, const store::StoredSchedule& stored) {
  std::string problem;
  schedules::Advancer advancer([&](const std::string&, const std::string& why) { problem = why; });
  const auto calls = advancer.repair({read.now_us, {}, false, false, {stored}});
  const store::ScheduleText text = store::parsed_schedule(stored.text);
  if (text.generation == 0) problem = "its stored text cannot be read";
  if (!problem.empty()) return report_schedule(keys().schedules, stored.name, problem);
  if (stored.slot_ms || calls.empty()) return;
  bool repaired = false;
  if (options_.repair) {
    repaired = shared_connection_
                   .ask([&](redis::Pipeline& pipeline) {
                     return shared_connection_.moves().advance(pipeline, calls.front()->call);
                   })
                   .outcome == 'a';
  }
  report({Problem::schedule_without_slot, stored.name, "is active, and has lost when it is due", "its next slot is set",
          repaired});
}

void IntegrityCheck::check_slot(const store::StoredSchedule& stored) {
  const store::ScheduleText text = store::parsed_schedule(stored.text);
  const bool is_gone = stored.text.empty() || (text.generation > 0 && text.state != "active");
  if (is_gone) report_schedule(keys().slots, stored.name);
}

void IntegrityCheck::report_schedule(const std::string& key, const std::string& name, const std::string& problem) {
  const std::string shown = name.substr(0, store::kLongestScheduleName);
  if (key == keys().schedules) {
    return report({Problem::invalid_schedule, shown, problem.empty() ? "its name is too long" : redis::escaped(problem),
                   "none: set or remove it, with a program of its version", false});
  }
  report({Problem::slot_without_schedule, shown, "has a slot, but there is no active schedule of this name", "removed",
          options_.repair});
  if (!options_.repair) return;
  shared_connection_.with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    pipeline.command("ZREM").key(keys().slots).arg(name);
    pipeline.run();
    pipeline.reply(0);
  });
}

// Reports entries of unique keys that count as absent. They hold nothing, and the next send with the key replaces them.
void IntegrityCheck::check_keys() {
  std::string cursor = "0";
  do {
    const store::ScannedKeys step =
        shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::scan_unique(pipeline, keys(), cursor); });
    cursor = step.cursor;
    for (const std::string& key : step.damaged) {
      report({Problem::invalid_setting, key,
              "a unique key in " + keys().unique + ": has a value that no client writes, and counts as absent",
              "removed", options_.repair});
    }
    delete_invalid(keys().unique, step.damaged);
  } while (cursor != "0");
}

void IntegrityCheck::delete_invalid(const std::string& hash, const std::vector<std::string>& fields) {
  if (!options_.repair || fields.empty()) return;
  shared_connection_.with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    pipeline.command("HDEL").key(hash);
    for (const std::string& field : fields) pipeline.arg(field);
    pipeline.run();
    pipeline.reply(0);
  });
}

// Adds up the number of steps, for the progress.
void IntegrityCheck::plan() {
  for (const Collection collection : kScans) {
    try {
      total_ +=
          shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::size(pipeline, keys(), collection); });
    } catch (const ReplyError&) {  // the progress has a smaller total then
    }
  }
  for (const std::string* list : {&keys().ready, &keys().retry}) {
    total_ += shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::list_length(pipeline, *list); });
  }
}

void IntegrityCheck::advance(std::uint64_t steps) {
  done_ += steps;
  total_ = std::max(total_, done_);
  if (options_.progress) options_.progress(done_, total_);
}

// Another command may be one that this user may run.
void IntegrityCheck::note_unexamined(const Error& error) {
  std::string& text = report_.errors[0];  // the caller knows the number of the partition
  text += (text.empty() ? "only a part was examined: " : "; ") + std::string(error.what());
}

void IntegrityCheck::scan(Collection collection) {
  std::string cursor = "0";
  do {
    store::Scanned scanned = shared_connection_.ask(
        [&](redis::Pipeline& pipeline) { return store::scan(pipeline, keys(), collection, cursor); });
    cursor = scanned.cursor;
    std::vector<std::string> ids;
    for (std::string& id : scanned.ids) {
      ids.push_back(collection == Collection::bodies ? id.substr(std::min(id.size(), keys().bodies.size()))
                                                     : std::move(id));
      if (ids.size() == store::kJudged) judge(collection, std::exchange(ids, {}));
    }
    if (!ids.empty()) judge(collection, ids);
    while (!scanned.damaged.empty()) {
      const auto rest =
          scanned.damaged.end() - static_cast<std::ptrdiff_t>(std::min(store::kJudged, scanned.damaged.size()));
      report_damaged({rest, scanned.damaged.end()});
      scanned.damaged.erase(rest, scanned.damaged.end());
    }
    advance(collection == Collection::bodies ? store::kScannedKeys : scanned.ids.size());
  } while (cursor != "0");
}

void IntegrityCheck::judge(Collection collection, const std::vector<std::string>& ids) {
  const std::vector<std::string> words =
      shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::classify(pipeline, keys(), ids); });
  report_.examined += ids.size();
  for (std::size_t i = 0; i < std::min(ids.size(), words.size()); ++i) {
    const char verdict = words[i].empty() ? '.' : words[i].front();
    if (verdict == '.' || was_scanned(collection, verdict, words[i].substr(1))) continue;
    const auto bytes = verdict == 'M' || verdict == 'C' ? store::bytes_of(ids[i]) : std::nullopt;
    if (bytes) {
      listed_.push_back({*bytes, verdict});
    } else {
      add_candidate(ids[i], verdict);
    }
  }
}

void IntegrityCheck::add_candidate(std::string id, char verdict) {
  candidates_.emplace_back(std::move(id), verdict);
  if (candidates_.size() >= kMostCandidates) confirm_candidates();
}

// Changes the verdicts of the ids that a list holds (see Listed). If a list grows faster than it can be read, the
// result is unknown, and all ids count as healthy.
void IntegrityCheck::search_lists(std::vector<Listed>& ids) {
  std::sort(ids.begin(), ids.end(), [](const Listed& a, const Listed& b) { return a.id < b.id; });
  if (ids.empty() || (search_list(keys().ready, ids) && search_list(keys().retry, ids))) return;
  for (Listed& id : ids) id.verdict = '.';
}

bool IntegrityCheck::search_list(const std::string& list, std::vector<Listed>& ids) {
  const std::size_t length =
      shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::list_length(pipeline, list); });
  for (std::size_t from = 0; from < 4 * length + 1'000'000; from += kPages * store::kBatch) {
    std::vector<std::string> page;
    shared_connection_.with_connection([&](redis::Connection& connection) {
      redis::Pipeline pipeline(connection);
      std::vector<redis::Answer<std::vector<std::string>>> answers;
      for (std::size_t i = 0; i < kPages; ++i) {
        answers.push_back(store::list_page(pipeline, list, from + i * store::kBatch, store::kBatch));
      }
      pipeline.run();
      for (const auto& answer : answers) {
        std::vector<std::string> part = answer.get();
        std::move(part.begin(), part.end(), std::back_inserter(page));
      }
    });
    for (const std::string& id : page) {
      const auto bytes = store::bytes_of(id);
      if (!bytes) continue;
      const auto at = std::lower_bound(ids.begin(), ids.end(), *bytes,
                                       [](const Listed& a, const store::IdBytes& b) { return a.id < b; });
      if (at == ids.end() || at->id != *bytes || store::text_of(*bytes) != id) continue;
      at->verdict = at->verdict == 'C' ? 'E' : at->verdict == 'M' ? '.' : at->verdict;
    }
    if (from < length) advance(page.size());
    if (page.size() < kPages * store::kBatch) return true;
  }
  return false;
}

void IntegrityCheck::find_stranded() {
  std::vector<Listed> all = std::exchange(listed_, {});
  search_lists(all);
  for (const Listed& listed : all) {
    if (listed.verdict != '.') add_candidate(store::text_of(listed.id), listed.verdict);
  }
}

// Drops the candidates that a list holds by now.
void IntegrityCheck::drop_listed() {
  std::vector<Listed> searched;
  for (const auto& [id, verdict] : candidates_) {
    if (verdict != 'M' && verdict != 'C') continue;
    if (const auto bytes = store::bytes_of(id)) searched.push_back({*bytes, verdict});
  }
  search_lists(searched);
  std::set<std::string> found;
  for (const Listed& listed : searched) {
    if (listed.verdict != 'M' && listed.verdict != 'C') found.insert(store::text_of(listed.id));
  }
  if (found.empty()) return;
  const auto is_found = [&](const Candidate& one) {
    return (one.second == 'M' || one.second == 'C') && found.count(one.first) > 0;
  };
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), is_found), candidates_.end());
}

// Waits, and then confirms all candidates.
void IntegrityCheck::confirm_candidates() {
  if (candidates_.empty()) return;
  std::sort(candidates_.begin(), candidates_.end());  // a scan may return an id twice
  candidates_.erase(std::unique(candidates_.begin(), candidates_.end()), candidates_.end());
  for (const auto end = Clock::now() + options_.recheck_after; Clock::now() < end;) {
    advance(0);  // the callback may end the check
    std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), milliseconds(50)));
  }
  drop_listed();
  const std::vector<Candidate> all = std::exchange(candidates_, {});
  for (std::size_t from = 0; from < all.size(); from += store::kConfirmed) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
    const auto count = static_cast<std::ptrdiff_t>(std::min(store::kConfirmed, all.size() - from));
    confirm({begin, begin + count});
  }
}

// Reports, and if asked to repairs, those whose verdict is still the same.
void IntegrityCheck::confirm(const std::vector<Candidate>& some) {
  const std::vector<std::string> words = shared_connection_.ask([&](redis::Pipeline& pipeline) {
    return options_.repair ? store::repair(pipeline, keys(), some, options_.retries)
                           : store::confirm(pipeline, keys(), some);
  });
  report_.examined += some.size();
  std::vector<std::string> garbage;
  bool ready = false;
  for (std::size_t i = 0; i < std::min(some.size(), words.size()); ++i) {
    const char verdict = words[i].empty() ? '.' : words[i].front();
    if (verdict == '.') continue;
    const std::string& id = some[i].first;
    Finding finding = describe(verdict, id, words[i].substr(1));
    finding.repaired = options_.repair && can_be_repaired(verdict);
    if (finding.repaired && std::string_view("GBCEL").find(verdict) != std::string_view::npos) garbage.push_back(id);
    ready = ready || std::string_view("MOL").find(verdict) != std::string_view::npos;
    report(std::move(finding));
  }
  collect(garbage);
  if (!ready || !options_.repair) return;
  shared_connection_.with_connection([&](redis::Connection& connection) {
    redis::Pipeline pipeline(connection);
    shared_connection_.moves().wake(pipeline);
    pipeline.run();
  });
}

// Reports those of these headers that belong to a message. They never change while it lives, so one look is enough. No
// repair removes them: a later version of this library may be able to read them.
void IntegrityCheck::report_damaged(const std::vector<std::string>& ids) {
  const std::vector<std::string> words =
      shared_connection_.ask([&](redis::Pipeline& pipeline) { return store::classify(pipeline, keys(), ids); });
  for (std::size_t i = 0; i < std::min(ids.size(), words.size()); ++i) {
    if (std::string_view("AGH").find(words[i].substr(0, 1)) != std::string_view::npos) continue;
    report({Problem::invalid_headers, ids[i],
            "has headers that this version cannot read: damaged, or of a later version; it is delivered without them",
            "none: look at the field of " + keys().headers + ", which is deleted with the message"});
  }
}

// Deletes those of the ids that are still garbage.
void IntegrityCheck::collect(const std::vector<std::string>& garbage) {
  if (garbage.empty()) return;
  shared_connection_.ask([&](redis::Pipeline& pipeline) { return shared_connection_.moves().gc(pipeline, garbage); });
}

void IntegrityCheck::report(Finding finding) {
  if (finding.repaired) ++report_.repaired;
  if (++report_.counts[finding.problem] <= options_.sample) report_.findings.push_back(std::move(finding));
}

}  // namespace delayqueue
