// The ledger: the lines of all journals of a run, collected for each message.
#pragma once

#include <unordered_map>

#include "chaos/journal.h"
#include "chaos/mix.h"

namespace chaos {

using Us = std::int64_t;  // since 1970

// A call that changes a message. If it ran, it ran between `begin` and `latest`. A call without an answer may wait in a
// buffer and run after its caller has stopped waiting.
struct Call {
  Us begin = 0;
  Us latest = 0;
  std::string answer{};  // empty: no answer
  Us due = 0;            // of sends and reschedules: the earliest time of a delivery
  bool created = false;  // of sends that were answered
};

struct Delivery {
  Us begin = 0;
  int attempt = 0;
  bool held = false;      // at its begin
  Us last_held = 0;       // last time at which the process itself found the lease held
  Us verdict_at = 0;      // 0: the process died before
  std::string verdict{};  // "ack", "nack", "reject", "snooze", "die"
  std::string by{};
  bool go = false;             // of a worker in Go, which has neither ids nor leases
  bool other_headers = false;  // than those that were sent
  bool other_payload = false;  // than the one that was sent
};

// An ack that a consumer reported as confirmed by Redis.
struct Acked {
  Us at = 0;
  std::string by{};
};

// A send that stored nothing, because another message has its key.
struct Kept {
  Us begin = 0;
  Us latest = 0;
  std::string by{};  // the id of that message
};

struct Message {
  std::string token{};
  std::string key{};           // unique; empty: none
  std::optional<Kept> kept{};  // the last send
  std::string id{};
  std::string other_id{};  // a second one, which it must not have
  Kind kind = Kind::ok;
  int retries = 0;
  std::vector<Call> sends{};
  std::vector<Call> cancels{};
  std::vector<Call> reschedules{};
  std::vector<Delivery> deliveries{};  // sorted by begin
  std::vector<Acked> acked{};          // sorted by time

  bool old = false;  // of a version before partitions, whose ids name some by chance

  unsigned partition() const;  // that its id names, or 0
  const Call* made() const;    // the last send that was answered and created it, or the first answered; null: none
  Us last_send() const;        // the latest time at which a send of it may have run
  bool has_verdict(const char* verdict) const;
  bool may_be_cancelled() const;
};

struct Back {
  std::string kind{};
  Us at = 0;
};

// The number of partitions that a run has set.
struct Setting {
  unsigned partitions = 0;
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

  const std::vector<Setting>& settings() const { return settings_; }  // in their order

  std::vector<const Message*> with_key(const std::string& key) const;  // that were created
  std::size_t with_keys() const;                                       // the same, of all keys
  std::size_t kept() const;

  bool mixed() const { return mixed_; }  // whether there were workers in Go

  // Whether Redis may lose, by its own rules, a change of this message that it acknowledged between `from` and `to`.
  bool in_window(const Message& message, Us from, Us to) const;

 private:
  struct Window {
    Us from = 0, to = 0;
    std::set<unsigned> partitions{};  // empty: all
  };

  void read(const std::string& path);
  void read_producer(const Line& line, bool old);
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
  std::map<std::string, std::vector<std::size_t>> by_key_;
  std::unordered_map<std::string, std::pair<std::size_t, std::size_t>> open_;  // deliveries of the current file
  std::vector<Us> begins_;
  std::vector<Back> backs_;
  std::vector<Setting> settings_;
  std::vector<Window> windows_;
  std::map<std::string, int> faults_;
  bool mixed_ = false;
};

}  // namespace chaos
