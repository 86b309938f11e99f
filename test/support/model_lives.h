// The model of a queue: what has happened to each message. It checks the promises from nothing but the answers of the
// moves and the contents of the keys; it does not predict what a move does.
#pragma once

#include "support/model_dump.h"

namespace test::model {

// A moment between two readings of Redis' clock, in us. A move sees one moment between the reading before and the
// reading after it.
struct Span {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

// A lease and its end, as its holder knows it.
struct Hold {
  std::string id;
  std::int64_t end = 0;
};

// The queue breaks a promise.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One life of an id: from the send that creates it until it is acked, cancelled, purged, expired or a dead letter.
struct Life {
  enum class Fate { alive, cancelled, dead, over };  // cancelled: while held; its holder may still settle it

  Fate fate = Fate::alive;
  std::string end;  // how it ended
  std::string payload;
  bool doubtful = false;        // a Go worker finished it: the next move decides whether it is alive
  bool leased_by_go = false;    // counts as one more delivery, or as none
  bool has_body = true;         // false: its TTL has ended
  std::int64_t not_before = 0;  // us; earliest time of the next delivery
  int allowed = 0;              // number of deliveries
  int delivered = 0;
  int retries = 0;                      // left
  int attempts = 0;                     // deliveries that count: since the last redrive, without released ones
  std::optional<std::int64_t> lease;    // held until then
  std::optional<std::int64_t> receipt;  // of the last delivery
};

// The packed headers of the messages that a model sends: of some of them none.
std::string headers_of(const std::string& payload);

// All checks throw Mismatch.
class Lives {
 public:
  void created(const std::string& id, const std::string& payload, std::int64_t not_before, int retries);
  void restored(const std::string& id, int deliveries, bool dead);  // after created()
  void existed(const std::string& id) const;
  void delivered(const std::string& id, std::int64_t lease, int attempt, Span now);
  void renewed(const std::string& id, std::int64_t old_end, std::int64_t new_end);
  void done(const std::string& id, std::int64_t receipt, const std::string& how);  // acked or expired
  void nacked(const std::string& id, std::int64_t receipt, std::int64_t not_before);
  void released(const std::string& id, std::int64_t receipt, std::int64_t not_before);
  void refused(const std::string& id, std::int64_t receipt, const std::string& what) const;  // what its holder did
  void lease_ended(const std::string& id, Span now);
  void retried(const std::string& id, Span now);
  void dead_lettered(const std::string& id, bool kept);
  void moved_by_operator(const std::string& id, std::int64_t not_before, bool from_unack);  // operators need no receipt
  // lease: the new end if the message was held. Its holder has then lost it.
  void extended(const std::string& id, std::int64_t now, std::int64_t by, std::optional<std::int64_t> lease);
  void cancelled(const std::string& id, const std::string& was);
  void redriven(const std::string& id, std::int64_t not_before, int retries);
  void purged(const std::string& id);
  void ended(const std::string& id, const std::string& how) { end(lives_[id], how); }
  void lost_body(const std::string& id) { lives_[id].has_body = false; }
  void leased_by_go(const std::string& id);
  void finished_by_go(const std::string& id) { lives_[id].doubtful = true; }
  void rewind(std::int64_t us);

  // Every message that is alive has exactly one place, its payload and its retries, and the statistics are the sums.
  void check(const Dump& dump);
  // Every life has ended.
  void check_all_over() const;

  const Life& operator[](const std::string& id) { return lives_[id]; }

 private:
  static void end(Life& life, const std::string& how);
  Life& held_by(const std::string& id, std::int64_t receipt, const std::string& what);
  Life& taken_back(const std::string& id, std::int64_t receipt, std::int64_t not_before, const std::string& what);
  void check_stats(const Dump& dump);

  std::map<std::string, Life> lives_;
  std::map<std::string, int> stats_;
};

// Checks that what stays in a list keeps its order, and that all else is what a move put in: `back` behind it, `front`
// before it, each in this order. A list is delivered from its right end.
void check_list(const std::string& name, const std::vector<std::string>& before, const std::vector<std::string>& after,
                const std::vector<std::string>& back, const std::vector<std::string>& front);

}  // namespace test::model
