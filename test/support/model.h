// A model of a queue: predicts from the contract what the queue holds after each move. It keeps one record per message,
// and the lists ready and retry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "store/moves.h"
#include "support/model_dump.h"

namespace test::model {

// A moment between two readings of Redis' clock, in us. A move sees one moment between the reading before and the
// reading after it. The exact time is known only when the value that the move wrote has been read back.
struct Span {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

Span operator+(Span span, std::int64_t us);
Span whole_ms(Span span);  // rounded up

// A lease and its end, as its holder knows it.
struct Hold {
  std::string id;
  std::int64_t end = 0;
};

// The queue differs from the model, or breaks a promise.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A move ran so near to a due time that the outcome cannot be predicted. All times lie seconds away from a move, so
// this happens only if the machine stopped for seconds.
struct Undecided : std::runtime_error {
  Undecided() : std::runtime_error("too near to a due time") {}
};

bool is_over(Span time, Span now);  // throws Undecided

struct Record {
  std::optional<std::string> body;
  std::optional<std::int64_t> expires_us;
  std::optional<Span> due, lease, dead;  // scores in pending, unack, dead
  std::optional<int> retries;
  int deliveries = 0;                    // in attempts; 0: no entry, or an entry of 0
  bool undelivered = false;              // the entry is 0
  std::optional<std::int64_t> last_end;  // the lease end in that entry
  std::optional<std::string> reason;
  bool garbage = false;

  bool placed() const { return due || lease || dead; }
  // A message without a body is finished. So is one that is in garbage and in no zset.
  bool exists() const { return body && !(garbage && !placed()); }
  // A late ack or nack answers that the message is gone if it is in garbage, even if it is in a zset.
  bool gone_to_verdicts() const { return !body || garbage; }
  // The answer to a send of this id: '0' it exists, '1' created, 'C' cancelled while a consumer holds it.
  char sent_again() const { return !exists() ? '1' : dead || retries ? '0' : lease ? 'C' : '1'; }
  bool backs_off() const;  // in unack with the end of a backoff
  bool in_attempts() const { return deliveries > 0 || undelivered; }
  void clear_metadata();  // attempts and reason
  void strip();           // keeps only the body, garbage and the scores
};

class Model {
 public:
  using TakeLimits = delayqueue::store::TakeLimits;
  using Terms = delayqueue::store::SendTerms;
  using Due = delayqueue::store::Due;

  explicit Model(bool keep_dead) : keep_dead_(keep_dead) {}

  // Each move returns the expected answer of its script. `now` is the time of the move.
  std::string send(Span now, const std::vector<std::pair<std::string, std::string>>& messages, const Terms& terms);
  std::vector<std::string> pending2ready(Span now);
  delayqueue::store::Taken ready2unack(const TakeLimits& limits, std::int64_t lease_us);
  std::string remove(const std::vector<Hold>& holds, const std::string& counted_as);  // ack and expire
  std::string nack(Span now, const std::vector<Hold>& holds, std::optional<std::int64_t> delay_ms,
                   const std::string& why);
  std::string renew(Span now, const std::vector<Hold>& holds, std::int64_t new_end);
  std::string release(Span now, const std::vector<Hold>& holds, std::int64_t delay_ms);
  std::string release_waiting(Span now, const std::vector<std::string>& ids, bool force);
  delayqueue::store::Reclaimed unack2retry(Span now);  // without `next`
  std::size_t persist(const std::vector<std::string>& ids);
  std::size_t gc(const std::vector<std::string>& ids);
  std::size_t delete_orphaned_metadata(const std::vector<std::string>& ids);
  std::string cancel(const std::string& id, std::size_t search_lists);
  std::string reschedule(Span now, const std::string& id, const Due& due, std::size_t search_lists);
  std::string redrive(const std::vector<std::string>& ids, int retries);
  delayqueue::store::Purged purge_zset(Span now, bool pending, std::size_t limit, std::optional<std::int64_t> age_us,
                                       std::int64_t leave);
  delayqueue::store::Purged purge_list(bool ready, std::size_t limit);
  std::string kill(Span now, const std::vector<std::string>& ids, const std::string& why, bool force,
                   std::size_t search_lists);
  std::string extend(Span now, const std::vector<std::string>& ids, std::int64_t by_ms, bool force);
  // state: 'p' pending, 'd' dead, 'r' the list ready, 't' the list retry.
  delayqueue::store::PurgedIds purge_ids(char state, const std::vector<std::string>& ids);
  std::string restore(Span now, const std::vector<delayqueue::store::RestoreRecord>& messages);

  // Changes by others than the moves.
  void lose_body(const std::string& id) { records_[id].body.reset(), records_[id].expires_us.reset(); }
  void pause(bool on) { paused_ = on; }
  void late_go_nack(const std::string& id, std::int64_t end_us) { records_[id].lease = Span{end_us, end_us}; }
  void make_garbage(const std::string& id) { records_[id].garbage = true; }
  void rewind(std::int64_t us);

  // The lowest score in pending and in unack.
  std::optional<Span> first_due() const { return first(&Record::due); }
  std::optional<Span> first_lease() const { return first(&Record::lease); }

  // Throws Mismatch that names the difference. Otherwise stores the exact times of the dump.
  void compare(const Dump& dump);

  const Record& operator[](const std::string& id) { return records_[id]; }

 private:
  using Time = std::optional<Span> Record::*;

  std::optional<Span> first(Time time) const;
  std::vector<std::string> in_order(Time time) const;
  void search(const std::string& id, std::size_t longest);
  void finish(const std::string& id);  // moves it to garbage
  void give_up(Span now, const std::string& id);
  void put(Span now, const std::string& id, std::int64_t delay_ms);
  void leave_unack(Span now, const std::string& id, std::int64_t delay_ms, bool counted);
  void reclaim(Span now, const std::string& id, delayqueue::store::Reclaimed& result);
  char late(const Record& record, std::int64_t receipt) const;
  std::vector<std::string> choose(const TakeLimits& limits, std::size_t most, delayqueue::store::Taken& taken);

  void compare_times(const std::string& name, const std::map<std::string, std::int64_t>& real, Time time);
  void compare_metadata(const Dump& dump) const;
  void compare_bodies(const Dump& dump) const;

  const bool keep_dead_;
  bool paused_ = false;
  std::map<std::string, Record> records_;
  std::deque<std::string> ready_, retry_;  // the front is delivered next
  std::map<std::string, long long> stats_;
};

}  // namespace test::model
