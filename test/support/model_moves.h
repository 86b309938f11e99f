// Random moves on a real queue. After each the promises are checked (model_lives.h).
#pragma once

#include "redis/connection.h"
#include "store/moves.h"
#include "support/model_lives.h"

namespace test::model {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  std::int64_t of(std::initializer_list<std::int64_t> list) { return list.begin()[below(list.size())]; }
  std::string uuid();

  // One of the elements, each as likely as its `weight` says.
  template <class Kind, std::size_t n>
  const Kind& weighted(const Kind (&kinds)[n]) {
    std::size_t all = 0;
    for (const Kind& kind : kinds) all += kind.weight;
    std::size_t drawn = below(all);
    const Kind* kind = kinds;
    for (; drawn >= kind->weight; ++kind) drawn -= kind->weight;
    return *kind;
  }

 private:
  std::mt19937_64 engine_;  // same sequence on every platform
};

std::vector<delayqueue::store::Receipt> receipts(const std::vector<Hold>& holds);
std::string joined(const std::vector<std::string>& ids);  // the first 8 characters of each

// Connects to test::server() with the library's own client.
delayqueue::redis::Connection connect();

// With a third of the seeds the moves are those in a partition of a queue; nullopt: in a queue with one partition.
std::optional<unsigned> partition_for(std::uint64_t seed);

// Gives the queue its partitions, and returns the keys of this one.
delayqueue::store::Keys prepared_keys(const std::string& queue, std::optional<unsigned> partition);

class Play {
 public:
  static constexpr std::size_t kSearchLists = 4;

  // go_interference: now and then a Go worker settles a message that it no longer holds.
  struct Options {
    bool keep_dead = true;
    bool go_interference = false;
  };

  Play(std::uint64_t seed, delayqueue::redis::Connection& connection, const Options& options);

  // step: one random move. drain: brings all messages to their end. Throw Mismatch.
  void step();
  void drain();

  // Checks that QueueAdmin::check reports only bodies that the test deleted, and dead letters that a Go worker put into
  // unack.
  void check_finds_nothing();

  const std::vector<std::string>& log() const { return log_; }

 private:
  using Holds = std::vector<Hold>;
  using Ids = std::vector<std::string>;
  using Due = delayqueue::store::Due;

  // A message to restore. Owns the texts that RestoreRecord points to.
  struct RestoreEntry {
    std::string id, reason, payload;
    delayqueue::store::RestoreRecord terms;
  };

  // Draw the arguments of one move and run it ...
  void draw_send();
  void draw_take();
  void draw_pending2unack();
  void draw_ack();
  void draw_nack();
  void draw_release();
  void draw_renew();
  void draw_persist();
  void draw_gc();
  void draw_delete_orphaned_metadata();
  void draw_cancel();
  void draw_reschedule();
  void draw_redrive();
  void draw_purge();
  void draw_release_waiting();
  void draw_bury();
  void draw_extend();
  void draw_purge_ids();
  void draw_restore();
  void draw_rewind();
  void draw_go_interference();
  void lose_a_body();
  void pause_or_go_on();
  void die();
  void repeat();

  // ... with these, which run the move and check it.
  void send(const std::vector<std::pair<std::string, std::string>>& messages,
            const delayqueue::store::SendTerms& terms);
  void pending2ready();
  void take(const delayqueue::store::TakeLimits& limits, std::chrono::milliseconds lease, bool answer_is_lost);
  void pending2unack(const delayqueue::store::DueLimits& limits, std::chrono::milliseconds lease, bool answer_is_lost);
  void remove(const Holds& holds, bool expired);
  void nack(const Holds& holds, std::optional<std::int64_t> delay_ms, const std::string& why);
  void renew(const Holds& holds, std::int64_t new_end, bool answer_is_lost);
  void release(const Holds& holds, std::int64_t delay_ms);
  void release_waiting(const Ids& ids, bool force);
  void unack2retry();
  void persist(const Ids& ids);
  void gc(const Ids& ids);
  void delete_orphaned_metadata(const Ids& ids);
  void cancel(const std::string& id, bool search);
  void reschedule(const std::string& id, const Due& due, bool search);
  void redrive(const Ids& ids, int retries);
  void purge_zset(bool pending, std::size_t limit, std::optional<std::int64_t> age_ms, std::int64_t leave);
  void purge_list(bool ready, std::size_t limit);
  void bury(const Ids& ids, const std::string& why, bool force, bool search);
  void extend(const Ids& ids, std::int64_t by_ms, bool force);
  void purge_ids(char state, const Ids& ids);
  void restore(const std::vector<RestoreEntry>& entries);
  void rewind(std::int64_t ms);
  void pause(bool on);

  template <class Add>
  auto ask(const std::string& move, Add add);
  void read_state(const std::string& event);
  void check_promoted(const delayqueue::store::Promoted& promoted);
  void check_taken(const delayqueue::store::Taken& taken, std::size_t total, std::chrono::milliseconds lease,
                   bool answer_is_lost);
  // What the move put into the list ready: behind it, and before it.
  void check(const Ids& back = {}, const Ids& front = {});
  void perform(std::function<void()> move);

  Due draw_due();
  Ids draw_ids(std::size_t most);
  Holds draw_holds();
  const Hold* draw_hold();
  void remember(const Hold& hold);
  void finish_round();

  const std::string queue_;
  Random random_;
  const Options options_;
  delayqueue::redis::Connection& connection_;
  const std::optional<unsigned> only_;  // the partition of the moves
  const delayqueue::store::Moves moves_;
  const delayqueue::store::Moves searching_;  // removes ids from short lists, too
  Lives lives_;
  Ids ids_;                       // all ids ever sent
  std::vector<Holds> consumers_;  // leases of each consumer, ended ones too
  std::size_t consumer_ = 0;      // the consumer of this move
  Span now_;                      // time of the last move
  Dump before_, dump_;            // before and after the last move
  std::function<void()> again_;   // repeats the last move
  std::vector<std::string> log_;
};

}  // namespace test::model
