// All that the processes of a run wrote down, put together by message.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chaos/journal.h"
#include "chaos/mix.h"

namespace chaos {

using Us = std::int64_t;  // since 1970

// A call that changes a message. It ran, if it did, between `begin` and `latest`: without an answer it may still lie
// in some buffer when the caller has given up.
struct Call {
  Us begin = 0;
  Us latest = 0;
  std::string answer{};  // empty: there was none
  Us due = 0;            // of sends and reschedules: not before
};

struct Delivery {
  Us begin = 0;
  int attempt = 0;
  bool held = false;      // at the begin
  Us last_held = 0;       // the lease was held then, seen by the process itself
  Us verdict_at = 0;      // 0: it died before
  std::string verdict{};  // "ack", "nack", "reject", "snooze", "die"
  std::string by{};
  bool go = false;  // of a worker in Go: it knows neither ids nor leases
};

// A consumer says that Redis said so.
struct Acked {
  Us at = 0;
  std::string by{};
};

struct Message {
  std::string token{};
  std::string id{};
  Kind kind = Kind::ok;
  int retries = 0;
  std::vector<Call> sends{};
  std::vector<Call> cancels{};
  std::vector<Call> reschedules{};
  std::vector<Delivery> deliveries{};  // by begin
  std::vector<Acked> acked{};          // by time

  Us acknowledged() const;  // the time of the send's answer; 0: never
  Us last_send() const;     // no send of it ran later
  bool has_verdict(const char* verdict) const;
  bool may_be_cancelled() const;
};

struct Back {
  std::string kind{};
  Us at = 0;
};

class Ledger {
 public:
  explicit Ledger(const std::string& folder);

  const std::vector<Message>& messages() const { return messages_; }
  const Message* by_id(const std::string& id) const;
  const std::map<std::string, int>& faults() const { return faults_; }
  const std::vector<Back>& backs() const { return backs_; }
  const std::vector<Us>& begins() const { return begins_; }  // of all deliveries that were held, sorted

  bool mixed() const { return mixed_; }  // workers in Go were there

  // Whether something acknowledged at a time from `from` to `to` may be lost by Redis' own rules.
  bool in_window(Us from, Us to) const;

 private:
  void read(const std::string& path);
  void read_producer(const Line& line);
  void read_worker(const Line& line, const std::string& by);
  void read_go_worker(const Line& line, const std::string& by);
  void read_conductor(const Line& line);
  Message& message(const std::string& token);
  Message* find(const std::string& id);
  void name(Message& message, const std::string& id);
  void read_call(std::vector<Call> Message::*calls, const std::string& what, const Line& line, std::size_t answer);
  void sort();

  std::vector<Message> messages_;
  std::unordered_map<std::string, std::size_t> by_token_;
  std::unordered_map<std::string, std::size_t> by_id_;
  std::unordered_map<std::string, std::pair<std::size_t, std::size_t>> open_;  // deliveries of the file being read
  std::vector<Us> begins_;
  std::vector<Back> backs_;
  std::vector<std::pair<Us, Us>> windows_;
  std::map<std::string, int> faults_;
  bool mixed_ = false;
};

}  // namespace chaos
