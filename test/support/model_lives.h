// Checks the promises about each message, from nothing but the answers of the moves and the places of the ids. It does
// not use the model: a mistake that the model shares with a script is still found.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "support/model.h"

namespace test::model {

// One life of an id: from the send that creates it until it is acked, cancelled, purged, expired or a dead letter.
struct Life {
  enum class Fate { alive, cancelled, dead, over };  // cancelled: while held; its holder may still settle it

  Fate fate = Fate::alive;
  std::string end;              // how it ended
  bool doubtful = false;        // a Go worker finished it: the next move decides whether it is alive
  bool has_body = true;         // false: its TTL has ended
  std::int64_t not_before = 0;  // us; earliest time of the next delivery
  int allowed = 0;              // number of deliveries
  int delivered = 0;
  std::optional<std::int64_t> lease;    // held until then
  std::optional<std::int64_t> receipt;  // of the last delivery
};

// All checks throw Mismatch.
class Lives {
 public:
  void created(const std::string& id, std::int64_t not_before, int retries);
  void existed(const std::string& id) const;
  void delivered(const std::string& id, std::int64_t lease, Span now);
  void renewed(const std::string& id, std::int64_t old_end, std::int64_t new_end);
  void done(const std::string& id, std::int64_t receipt, const std::string& how);  // ack and expire
  void nacked(const std::string& id, std::int64_t receipt, std::int64_t not_before);
  void released(const std::string& id, std::int64_t receipt, std::int64_t not_before);
  void reclaimed(const std::string& id, Span now);
  void dead_lettered(const std::string& id, bool kept);
  void moved_by_operator(const std::string& id, std::int64_t not_before, bool from_unack);  // operators need no receipt
  // lease: the new end if the message was held. Its holder has then lost it.
  void extended(const std::string& id, std::int64_t now, std::int64_t by, std::optional<std::int64_t> lease);
  void cancelled(const std::string& id, const std::string& was);
  void redriven(const std::string& id, std::int64_t not_before, int retries);
  void ended(const std::string& id, const std::string& how) { end(lives_[id], how); }
  void lost_body(const std::string& id) { lives_[id].has_body = false; }
  void leased_by_go(const std::string& id) { lives_[id].lease.reset(), lives_[id].not_before = 0; }
  void finished_by_go(const std::string& id) { lives_[id].doubtful = true; }
  void rewind(std::int64_t us);

  // Every message that is alive has exactly one place.
  void check(const Dump& dump);
  // Every life has ended.
  void check_all_over() const;

  const Life& operator[](const std::string& id) { return lives_[id]; }

 private:
  static void end(Life& life, const std::string& how);
  Life& held_by(const std::string& id, std::int64_t receipt, const std::string& what);

  std::map<std::string, Life> lives_;
};

}  // namespace test::model
