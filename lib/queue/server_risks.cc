#include "queue/server_risks.h"

#include "queue/info_fields.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace delayqueue {
namespace {

using redis::Pipeline;
using redis::Reply;
using std::chrono::microseconds;
using std::chrono::system_clock;

constexpr microseconds kClocksApart{5'000'000};
constexpr double kMemoryShort = 90, kMemoryFull = 99;  // percent; near the limit a send's own buffers exceed it

void eviction(const InfoFields& facts, std::vector<Risk>& risks) {
  const std::string policy = facts["maxmemory_policy"];
  const std::string most = facts["maxmemory"];
  if (policy.empty() || policy == "noeviction" || most.empty() || most == "0") return;
  const std::string what = policy.rfind("volatile-", 0) == 0
                               ? "bodies that have a TTL, as those of messages sent with a ttl or by Go workers"
                               : "messages and whole parts of a queue";
  risks.push_back({RiskKind::eviction, "maxmemory-policy " + policy + " with maxmemory " + most +
                                           ": when memory is short Redis deletes " + what +
                                           "; set maxmemory-policy noeviction"});
}

// As Redis counts it: without the buffers of replicas and of the append-only file.
void memory(const InfoFields& facts, std::vector<Risk>& risks) {
  const auto used = facts.number<std::uint64_t>("used_memory");
  const auto most = facts.number<std::uint64_t>("maxmemory");
  if (facts["maxmemory_policy"] != "noeviction" || !used || !most || *most == 0) return;
  const std::uint64_t buffers = facts.number<std::uint64_t>("mem_not_counted_for_evict").value_or(0);
  const std::uint64_t counted = *used - std::min(*used, buffers);
  const double percent = 100.0 * static_cast<double>(counted) / static_cast<double>(*most);
  if (percent < kMemoryShort) return;
  const bool full = percent >= kMemoryFull;
  char share[32];
  std::snprintf(share, sizeof share, "%.0f%%", percent);
  risks.push_back(
      {RiskKind::memory,
       "used_memory " + std::to_string(counted) + " is " + share + " of maxmemory " + std::to_string(*most) +
           " with noeviction: " +
           (full ? "Redis has no memory left and refuses sends (OOM)" : "once it is full Redis refuses sends (OOM)") +
           "; raise maxmemory, or remove what is not needed, such as dead letters",
       full});
}

void persistence(const InfoFields& facts, std::vector<Risk>& risks) {
  const bool has_file = facts["aof_enabled"] == "1";
  if (facts["aof_enabled"] == "0") {
    const std::string save = facts["save"];
    const std::string lost = !facts.has("save") ? ": a crash of Redis loses what came after the last snapshot, or all"
                             : save.empty()
                                 ? ", save \"\": a restart of Redis loses the whole queue"
                                 : ", save \"" + save + "\": a crash of Redis loses what came after the last snapshot";
    risks.push_back({RiskKind::persistence, "appendonly no" + lost + "; set appendonly yes"});
  }
  if (has_file && facts["appendfsync"] == "no") {
    risks.push_back({RiskKind::persistence,
                     "appendfsync no: a crash of its machine loses what the system had not yet written to disk, half a "
                     "minute's or more; set appendfsync everysec or always"});
  }
}

void disk(const InfoFields& facts, std::vector<Risk>& risks) {
  const auto check = [&](const char* fact, const char* meaning, bool critical) {
    if (facts[fact] != "err") return;
    risks.push_back(
        {RiskKind::disk, std::string(fact) + " err: " + meaning + "; see Redis' log and its disk", critical});
  };
  check("aof_last_write_status", "Redis could not write its append-only file, what came last may not survive a restart",
        true);
  check("aof_last_bgrewrite_status", "Redis could not rewrite its append-only file, which goes on growing", false);
  check("rdb_last_bgsave_status", "the last snapshot failed, a restart may bring back an older one", false);
}

void replica(const InfoFields& facts, std::vector<Risk>& risks) {
  if (facts["role"] != "slave") return;
  risks.push_back({RiskKind::replica,
                   "role slave: it is a replica of " + facts["master_host"] + ":" + facts["master_port"] +
                       ": writes are refused, or lost when it next syncs; connect to the master",
                   true});
}

Risk unknown(const std::string& question, std::string_view why) {
  return {RiskKind::unknown, "cannot tell all risks, for " + question + " answered: " + redis::escaped(why)};
}

void read(const InfoQuery& question, Reply reply, InfoFields& facts, std::vector<Risk>& risks) {
  if (reply.is_error()) {
    risks.push_back(unknown(question.text(), reply.text()));
  } else if (question.second == nullptr) {
    facts.add_info(reply.text());
  } else {
    for (std::size_t i = 0; i + 1 < reply.size(); i += 2) facts.add(reply[i].text(), reply[i + 1].text());
  }
}

// Hashes that all threads add to. Without a lock: a process that is forked while another thread holds one could never
// take it. Beyond its size nothing is kept.
class HashSet {
 public:
  // False if it is there already.
  bool add(std::size_t hash) {
    if (std::find(all_.begin(), all_.end(), hash) != all_.end()) return false;
    for (std::atomic<std::size_t>& one : all_) {
      std::size_t found = 0;
      if (one.compare_exchange_strong(found, hash)) return true;
      if (found == hash) return false;
    }
    return true;
  }

  void remove(std::size_t hash) {
    for (std::atomic<std::size_t>& one : all_) {
      std::size_t found = hash;
      one.compare_exchange_strong(found, 0);
    }
  }

 private:
  std::array<std::atomic<std::size_t>, 1024> all_{};  // 0: free
};

HashSet told;  // of this process: risks, each with its server

// What tells a risk from others that were logged. The figures of memory change all the time.
std::string identity_of(const Risk& risk) {
  return risk.kind == RiskKind::memory ? risk.critical ? "memory full" : "memory short" : risk.text;
}

std::string seconds(microseconds span) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(span).count());
  return text;
}

}  // namespace

std::vector<Risk> find_risks(redis::Connection& connection) {
  static constexpr InfoQuery kQuestions[] = {{"INFO", "memory", nullptr},
                                             {"INFO", "persistence", nullptr},
                                             {"INFO", "replication", nullptr},
                                             {"CONFIG", "GET", "save"},
                                             {"CONFIG", "GET", "appendfsync"}};
  ask(connection, kQuestions);
  InfoFields facts;
  std::vector<Risk> risks;
  std::vector<Risk> unknowns;
  for (const InfoQuery& question : kQuestions) {
    const redis::ReplyPtr reply = connection.read();  // all of them, whatever they are
    try {
      read(question, Reply(reply.get()), facts, unknowns);
    } catch (const ReplyError& e) {
      unknowns.push_back(unknown(question.text(), e.what()));
    }
  }
  eviction(facts, risks);
  memory(facts, risks);
  persistence(facts, risks);
  disk(facts, risks);
  replica(facts, risks);
  risks.insert(risks.end(), unknowns.begin(), unknowns.end());
  return risks;
}

std::vector<Risk> compare_clocks(redis::Connection& connection) {
  const auto asked = system_clock::now();
  connection.write(kTime);
  const redis::ReplyPtr answer = connection.read();
  const auto answered = system_clock::now();
  const Reply time(answer.get());
  if (time.is_error()) return {unknown("TIME", time.text())};
  const system_clock::time_point there(std::chrono::duration_cast<system_clock::duration>(time_of(time)));
  const auto apart = there > answered ? there - answered : there < asked ? there - asked : system_clock::duration(0);
  const auto us = std::chrono::duration_cast<microseconds>(apart);
  if (us <= kClocksApart && us >= -kClocksApart) return {};
  const bool ahead = us.count() > 0;
  return {{RiskKind::clock, "Redis' clock is " + seconds(ahead ? us : -us) + (ahead ? " ahead of" : " behind") +
                                " this machine's: a message sent `at` a time comes " + (ahead ? "early" : "late") +
                                " by as much, and the ages of messages are wrong; set both clocks right"}};
}

void RiskWatch::look(redis::Connection& connection, const EventSink& report) {
  if (std::exchange(broke_, true)) {
    broke_ = false;
    return;
  }
  const std::vector<Risk> risks = find_risks(connection);
  broke_ = false;
  tell(risks, connection.where(), report);
}

void RiskWatch::tell(const std::vector<Risk>& risks, const std::string& where, const EventSink& report) {
  std::vector<std::size_t> seen;
  for (const Risk& risk : risks) {
    seen.push_back(std::hash<std::string>()(where + '\n' + identity_of(risk)));
    if (!told.add(seen.back())) continue;
    report.log(risk.kind == RiskKind::unknown ? Severity::debug : Severity::warning,
               "redis at " + where + ": " + risk.text);
  }
  for (const std::size_t before : where == where_ ? seen_ : std::vector<std::size_t>()) {
    if (std::find(seen.begin(), seen.end(), before) == seen.end()) told.remove(before);
  }
  where_ = where;
  seen_ = std::move(seen);
}

}  // namespace delayqueue
