// What was promised of every message, checked against nothing but what the moves answered and where the ids are. Knows
// no script; a model that has the same mistake as a script does not deceive it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "support/model.h"

namespace test::model {

// One life of an id: from the send that created it until it is done, cancelled, purged, expired or given up.
struct Life {
  enum class Fate { alive, cancelled, dead, over };  // cancelled: while it was held; the holder may still settle it

  Fate fate = Fate::alive;
  std::string end;              // how it came to be over
  bool doubtful = false;        // a Go worker finished it: alive or not, as the next move decides
  bool has_body = true;         // false: its TTL ended
  std::int64_t not_before = 0;  // us; the earliest it may be delivered
  int allowed = 0;              // deliveries
  int delivered = 0;
  std::optional<std::int64_t> lease;    // until then somebody holds it
  std::optional<std::int64_t> receipt;  // of the last who got it
};

// All checks throw Mismatch.
class Lives {
 public:
  void created(const std::string& id, std::int64_t not_before, int retries);
  void existed(const std::string& id) const;
  void delivered(const std::string& id, std::int64_t lease, Span now);
  void renewed(const std::string& id, std::int64_t old_end, std::int64_t new_end);
  void done(const std::string& id, std::int64_t receipt, const std::string& how);  // ack, expire
  void nacked(const std::string& id, std::int64_t receipt, std::int64_t not_before);
  void released(const std::string& id, std::int64_t receipt, std::int64_t not_before);
  void reclaimed(const std::string& id, Span now);
  void given_up(const std::string& id, bool kept);
  void moved_by_hand(const std::string& id, std::int64_t not_before, bool from_unack);  // without a receipt
  // Lease: its new end, if it was held; who held it has lost it.
  void extended(const std::string& id, std::int64_t now, std::int64_t by, std::optional<std::int64_t> lease);
  void cancelled(const std::string& id, const std::string& was);
  void redriven(const std::string& id, std::int64_t not_before, int retries);
  void ended(const std::string& id, const std::string& how) { end(lives_[id], how); }
  void lost_body(const std::string& id) { lives_[id].has_body = false; }
  void taken_by_stranger(const std::string& id) { lives_[id].lease.reset(), lives_[id].not_before = 0; }
  void finished_by_stranger(const std::string& id) { lives_[id].doubtful = true; }
  void rewind(std::int64_t us);

  // Every message is where it can be found, and in one place.
  void check(const Dump& dump);
  // Every life came to an end.
  void check_all_over() const;

  const Life& operator[](const std::string& id) { return lives_[id]; }

 private:
  static void end(Life& life, const std::string& how);
  Life& held_by(const std::string& id, std::int64_t receipt, const std::string& what);

  std::map<std::string, Life> lives_;
};

}  // namespace test::model
