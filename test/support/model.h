// What a queue should hold after each move, by the contract: one record a message, and two lists of hints.
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

// A moment known to lie between two others, us. A move sees one moment between the readings of Redis' clock before and
// after it; what it writes is known exactly only when it has been read back.
struct Span {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

Span operator+(Span span, std::int64_t us);
Span whole_ms(Span span);  // up

// A lease as its holder knows it.
struct Hold {
  std::string id;
  std::int64_t end = 0;
};

// The queue is not what it should be.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A move ran so near to a due time that nobody can say on which side. Moves are made some seconds off: it takes a
// machine that stood still.
struct Undecided : std::runtime_error {
  Undecided() : std::runtime_error("too near to a due time") {}
};

bool is_over(Span time, Span now);  // throws Undecided

struct Record {
  std::optional<std::string> body;
  std::optional<std::int64_t> expires_us;
  std::optional<Span> due, lease, dead;  // the score in pending, unack, dead
  std::optional<int> retries;
  int deliveries = 0;                    // 0: not noted, or
  bool undelivered = false;              // noted that there were none
  std::optional<std::int64_t> last_end;  // noted with them
  std::optional<std::string> reason;
  bool garbage = false;

  bool placed() const { return due || lease || dead; }
  // Finished is what has no body, or is garbage and in no zset.
  bool exists() const { return body && !(garbage && !placed()); }
  // To a late ack or nack what is in garbage is gone, whatever zset it is in.
  bool gone_to_verdicts() const { return !body || garbage; }
  // What a send of its id answers: there already, to be made, or cancelled while a consumer has it.
  char sent_again() const { return !exists() ? '1' : dead || retries ? '0' : lease ? 'C' : '1'; }
  bool backs_off() const;  // in unack, held by nobody
  bool noted() const { return deliveries > 0 || undelivered; }
  void forget_notes();  // deliveries and reason
  void strip();         // all but body, garbage, and places
};

class Model {
 public:
  using TakeLimits = delayqueue::store::TakeLimits;
  using Terms = delayqueue::store::SendTerms;
  using Due = delayqueue::store::Due;

  explicit Model(bool keep_dead) : keep_dead_(keep_dead) {}

  // Each move: what it must answer. `now` is the time of the move.
  std::string send(Span now, const std::vector<std::pair<std::string, std::string>>& messages, const Terms& terms);
  std::vector<std::string> pending2ready(Span now);
  delayqueue::store::Taken ready2unack(const TakeLimits& places, std::int64_t lease_us);
  std::string remove(const std::vector<Hold>& holds, const std::string& counted_as);  // ack, expire
  std::string nack(Span now, const std::vector<Hold>& holds, std::optional<std::int64_t> delay_ms,
                   const std::string& why);
  std::string renew(Span now, const std::vector<Hold>& holds, std::int64_t new_end);
  std::string release(Span now, const std::vector<Hold>& holds, std::int64_t delay_ms);
  std::string release_waiting(Span now, const std::vector<std::string>& ids, bool force);
  delayqueue::store::Reclaimed unack2retry(Span now);  // but for `next`
  std::size_t persist(const std::vector<std::string>& ids);
  std::size_t gc(const std::vector<std::string>& ids);
  std::size_t sweep(const std::vector<std::string>& ids);
  std::string cancel(const std::string& id, std::size_t search_lists);
  std::string reschedule(Span now, const std::string& id, const Due& due, std::size_t search_lists);
  std::string redrive(const std::vector<std::string>& ids, int retries);
  delayqueue::store::Purged purge_zset(Span now, bool pending, std::size_t limit, std::optional<std::int64_t> age_us,
                                       std::int64_t leave);
  delayqueue::store::Purged purge_list(bool ready, std::size_t limit);
  std::string kill(Span now, const std::vector<std::string>& ids, const std::string& why, bool force,
                   std::size_t search_lists);
  std::string extend(Span now, const std::vector<std::string>& ids, std::int64_t by_ms, bool force);
  // state: 'p', 'd', or the list 'r' (ready), 't' (retry).
  delayqueue::store::Discarded discard(char state, const std::vector<std::string>& ids);
  std::string restore(Span now, const std::vector<delayqueue::store::Saved>& messages);

  // What others do to the queue.
  void lose_body(const std::string& id) { records_[id].body.reset(), records_[id].expires_us.reset(); }
  void pause(bool on) { paused_ = on; }
  void late_go_nack(const std::string& id, std::int64_t end_us) { records_[id].lease = Span{end_us, end_us}; }
  void make_garbage(const std::string& id) { records_[id].garbage = true; }
  void rewind(std::int64_t us);

  // The first time in pending, or in unack.
  std::optional<Span> first_due() const { return first(&Record::due); }
  std::optional<Span> first_lease() const { return first(&Record::lease); }

  // Throws Mismatch that names what differs; then learns the exact times.
  void compare(const Dump& dump);

  const Record& operator[](const std::string& id) { return records_[id]; }

 private:
  using Time = std::optional<Span> Record::*;

  std::optional<Span> first(Time time) const;
  std::vector<std::string> in_order(Time time) const;
  void search(const std::string& id, std::size_t longest);
  void finish(const std::string& id);  // to garbage
  void give_up(Span now, const std::string& id);
  void put(Span now, const std::string& id, std::int64_t delay_ms);
  void leave_unack(Span now, const std::string& id, std::int64_t delay_ms, bool counted);
  void reclaim(Span now, const std::string& id, delayqueue::store::Reclaimed& result);
  char late(const Record& record, std::int64_t receipt) const;
  std::vector<std::string> choose(const TakeLimits& places, std::size_t most, delayqueue::store::Taken& taken);

  void compare_times(const std::string& name, const std::map<std::string, std::int64_t>& real, Time time);
  void compare_notes(const Dump& dump) const;
  void compare_bodies(const Dump& dump) const;

  const bool keep_dead_;
  bool paused_ = false;
  std::map<std::string, Record> records_;
  std::deque<std::string> ready_, retry_;  // the front is next
  std::map<std::string, long long> stats_;
};

}  // namespace test::model
