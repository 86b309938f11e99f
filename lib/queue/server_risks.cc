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

enum class Evictions { unknown, excluded, possible };
std::atomic<Evictions> evictions{Evictions::unknown};  // by the servers of this process

void eviction(const InfoFields& info, std::vector<Risk>& risks) {
  const std::string policy = info["maxmemory_policy"];
  const std::string most = info["maxmemory"];
  if (policy.empty() || policy == "noeviction" || most.empty() || most == "0") return;
  const std::string what = policy.rfind("volatile-", 0) == 0
                               ? "payloads with a TTL, such as those of messages sent with a ttl or by Go workers"
                               : "messages and whole parts of a queue";
  risks.push_back({RiskKind::eviction, "maxmemory-policy " + policy + " with maxmemory " + most +
                                           ": when memory is short Redis deletes " + what +
                                           "; set maxmemory-policy noeviction"});
}

// Computes the used share of maxmemory as Redis does: without the buffers for replicas and for the append-only file.
void memory(const InfoFields& info, std::vector<Risk>& risks) {
  const auto used = info.number<std::uint64_t>("used_memory");
  const auto most = info.number<std::uint64_t>("maxmemory");
  if (info["maxmemory_policy"] != "noeviction" || !used || !most || *most == 0) return;
  const std::uint64_t buffers = info.number<std::uint64_t>("mem_not_counted_for_evict").value_or(0);
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
           "; raise maxmemory, or delete messages that are not needed, such as dead letters",
       full});
}

void persistence(const InfoFields& info, std::vector<Risk>& risks) {
  const bool has_file = info["aof_enabled"] == "1";
  // While Redis loads its data, aof_enabled is 0 with an append-only file, too.
  if (info["aof_enabled"] == "0" && info["loading"] != "1") {
    const std::string save = info["save"];
    const std::string lost = !info.has("save") ? ": a crash of Redis loses all writes after the last snapshot, or all"
                             : save.empty()
                                 ? ", save \"\": a restart of Redis loses the whole queue"
                                 : ", save \"" + save + "\": a crash of Redis loses all writes after the last snapshot";
    risks.push_back({RiskKind::persistence, "appendonly no" + lost + "; set appendonly yes"});
  }
  if (has_file && info["appendfsync"] == "no") {
    risks.push_back(
        {RiskKind::persistence,
         "appendfsync no: a crash of Redis' machine loses the writes that are not on its disk yet, those of half a "
         "minute or more; set appendfsync everysec or always"});
  }
}

void disk(const InfoFields& info, std::vector<Risk>& risks) {
  const auto check = [&](const char* field, const char* meaning, bool critical) {
    if (info[field] != "err") return;
    risks.push_back(
        {RiskKind::disk, std::string(field) + " err: " + meaning + "; check the log and the disk of Redis", critical});
  };
  check("aof_last_write_status",
        "Redis could not write its append-only file, the latest writes may not survive a restart", true);
  check("aof_last_bgrewrite_status", "Redis could not rewrite its append-only file, which goes on growing", false);
  check("rdb_last_bgsave_status", "the last snapshot failed, a restart may bring back an older one", false);
}

void replica(const InfoFields& info, std::vector<Risk>& risks) {
  if (info["role"] != "slave") return;
  risks.push_back({RiskKind::replica,
                   "role slave: it is a replica of " + info["master_host"] + ":" + info["master_port"] +
                       ": writes are refused, or lost when it next syncs; connect to the master",
                   true});
}

Risk unknown(const std::string& query, std::string_view why) {
  return {RiskKind::unknown, "cannot examine all risks: " + query + " failed: " + redis::escaped(why)};
}

void read(const InfoQuery& query, Reply reply, InfoFields& info, std::vector<Risk>& risks) {
  if (reply.is_error()) {
    risks.push_back(unknown(query.text(), reply.text()));
  } else if (query.second == nullptr) {
    info.add_info(reply.text());
  } else {
    for (std::size_t i = 0; i + 1 < reply.size(); i += 2) info.add(reply[i].text(), reply[i + 1].text());
  }
}

// A set of hashes that all threads share. Lock-free, because a fork could inherit a mutex that another thread has
// locked. It does not store more hashes than fit into its array.
class HashSet {
 public:
  // Returns false if the hash is in the set already.
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

HashSet logged_risks;  // hashes of server and risk, for the whole process

// The part of a risk that identifies it in `logged_risks`. Not the text for memory, whose numbers always change.
std::string identity_of(const Risk& risk) {
  return risk.kind == RiskKind::memory ? risk.critical ? "memory full" : "memory short" : risk.text;
}

std::string in_seconds(microseconds span) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(span).count());
  return text;
}

}  // namespace

std::vector<Risk> find_risks(redis::Connection& connection) {
  static constexpr InfoQuery kQueries[] = {{"INFO", "memory", nullptr},
                                           {"INFO", "persistence", nullptr},
                                           {"INFO", "replication", nullptr},
                                           {"CONFIG", "GET", "save"},
                                           {"CONFIG", "GET", "appendfsync"}};
  ask(connection, kQueries);
  InfoFields info;
  std::vector<Risk> risks;
  std::vector<Risk> unknowns;
  for (const InfoQuery& query : kQueries) {
    const redis::ReplyPtr reply = connection.read();  // one for each query, also after an error reply
    try {
      read(query, Reply(reply.get()), info, unknowns);
    } catch (const ReplyError& e) {
      unknowns.push_back(unknown(query.text(), e.what()));
    }
  }
  eviction(info, risks);
  if (info["maxmemory_policy"].empty() || !risks.empty()) {
    evictions = Evictions::possible;
  } else if (evictions == Evictions::unknown) {
    evictions = Evictions::excluded;
  }
  memory(info, risks);
  persistence(info, risks);
  disk(info, risks);
  replica(info, risks);
  risks.insert(risks.end(), unknowns.begin(), unknowns.end());
  return risks;
}

bool is_eviction_excluded() { return evictions == Evictions::excluded; }

std::vector<Risk> compare_clocks(redis::Connection& connection) {
  const auto sent_at = system_clock::now();
  connection.write(kTime);
  const redis::ReplyPtr answer = connection.read();
  const auto received_at = system_clock::now();
  const Reply time(answer.get());
  if (time.is_error()) return {unknown("TIME", time.text())};
  const system_clock::time_point there(std::chrono::duration_cast<system_clock::duration>(time_of(time)));
  const auto apart = there > received_at ? there - received_at
                     : there < sent_at   ? there - sent_at
                                         : system_clock::duration(0);
  const auto us = std::chrono::duration_cast<microseconds>(apart);
  if (us <= kClocksApart && us >= -kClocksApart) return {};
  const bool ahead = us.count() > 0;
  return {{RiskKind::clock, "Redis' clock is " + in_seconds(ahead ? us : -us) + (ahead ? " ahead of" : " behind") +
                                " this machine's: a message sent `at` a time comes " + (ahead ? "early" : "late") +
                                " by as much, and the ages of messages are wrong; correct the clocks"}};
}

std::optional<std::vector<Risk>> RiskWatch::find(redis::Connection& connection) {
  if (std::exchange(skip_next_, true)) {
    skip_next_ = false;
    return std::nullopt;
  }
  std::vector<Risk> risks = find_risks(connection);
  skip_next_ = false;
  return risks;
}

void RiskWatch::log(const std::vector<Risk>& risks, const std::string& where, const EventSink& sink) {
  std::vector<std::size_t> seen;
  for (const Risk& risk : risks) {
    seen.push_back(std::hash<std::string>()(where + '\n' + identity_of(risk)));
    if (!logged_risks.add(seen.back())) continue;
    sink.log(risk.kind == RiskKind::unknown ? Severity::debug : Severity::warning,
             "redis at " + where + ": " + risk.text, {where, ""});
  }
  for (const std::size_t before : where == where_ ? seen_ : std::vector<std::size_t>()) {
    if (std::find(seen.begin(), seen.end(), before) == seen.end()) logged_risks.remove(before);
  }
  where_ = where;
  seen_ = std::move(seen);
}

}  // namespace delayqueue
