#include "support/model_lives.h"

#include "store/headers.h"

namespace test::model {
namespace {

void demand(bool promise, const std::string& id, const std::string& breach) {
  if (!promise) throw Mismatch(id + ": " + breach);
}

bool is_in(const std::vector<std::string>& list, const std::string& id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

void check_alive(const Dump& dump, const std::string& id, const Life& life) {
  const std::size_t zsets = dump.pending.count(id) + dump.unack.count(id) + dump.dead.count(id);
  const bool listed = is_in(dump.ready, id) || is_in(dump.retry, id);
  const auto retries = dump.count.find(id);
  demand(retries != dump.count.end(), id, "lost: alive, and without retries recorded");
  demand(retries->second == std::to_string(life.retries), id, "has another number of retries: " + retries->second);
  demand(zsets > 0 || listed, id, "lost: alive, and nowhere");
  demand(zsets < 2, id, "in several places");
  demand(dump.dead.count(id) == 0, id, "dead, and no move made it a dead letter");
}

void check_body(const Dump& dump, const std::string& id, const Life& life) {
  const auto body = dump.bodies.find(id);
  if (!life.has_body) return;
  demand(body != dump.bodies.end(), id, "lost: its body is gone");
  demand(body->second.payload == life.payload, id, "has another payload");
  const auto headers = dump.headers.find(id);
  const std::string stored = headers == dump.headers.end() ? "" : headers->second;
  demand(stored == headers_of(life.payload), id, "has other headers: \"" + stored + "\"");
}

}  // namespace

std::string headers_of(const std::string& payload) {
  return payload.size() % 2 == 0 ? "" : delayqueue::store::packed({{"headers-of", payload}});
}

void Lives::end(Life& life, const std::string& how) {
  life.fate = Life::Fate::over;
  life.end = how;
  life.lease.reset();
}

void Lives::created(const std::string& id, const std::string& payload, std::int64_t not_before, int retries) {
  const auto known = lives_.find(id);
  const bool free = known == lives_.end() || known->second.fate == Life::Fate::over || !known->second.has_body ||
                    known->second.doubtful;
  demand(free, id, "made a second time while the first was alive");
  Life life;
  life.payload = payload;
  life.not_before = not_before;
  life.allowed = retries + 1;
  life.retries = retries;
  lives_[id] = life;
  ++stats_["sent"];
}

void Lives::restored(const std::string& id, int deliveries, bool dead) {
  Life& life = lives_[id];
  life.attempts = deliveries;
  if (dead) life.fate = Life::Fate::dead;
}

void Lives::existed(const std::string& id) const {
  const auto known = lives_.find(id);
  demand(known != lives_.end() && known->second.fate != Life::Fate::over, id, "'existed', and it does not");
}

void Lives::delivered(const std::string& id, std::int64_t lease, int attempt, Span now) {
  Life& life = lives_[id];
  demand(life.fate == Life::Fate::alive, id, "delivered, and it is over: " + life.end);
  demand(life.not_before <= now.to, id, "delivered early");
  demand(!life.lease || *life.lease <= now.to, id, "two holders");
  demand(++life.delivered <= life.allowed, id, "delivered more often than retries + 1");
  demand(++life.attempts == attempt || life.leased_by_go, id, "delivered as attempt " + std::to_string(attempt));
  demand(lease % 1000 != 0, id, "a lease end that looks like a backoff's");
  life.lease = life.receipt = lease;
  ++stats_["delivered"];
}

// Only the receipt of the last delivery settles. It is valid after the lease has ended, as long as no other consumer
// got the message.
Life& Lives::held_by(const std::string& id, std::int64_t receipt, const std::string& what) {
  Life& life = lives_[id];
  demand(life.fate != Life::Fate::over, id, what + " of what is over: " + life.end);
  demand(life.receipt == receipt, id, what + " without the receipt of its last delivery");
  return life;
}

void Lives::renewed(const std::string& id, std::int64_t old_end, std::int64_t new_end) {
  const bool repeated = lives_[id].receipt == new_end;
  Life& life = held_by(id, repeated ? new_end : old_end, "renewed");
  life.lease = life.receipt = new_end;
}

void Lives::done(const std::string& id, std::int64_t receipt, const std::string& how) {
  end(held_by(id, receipt, how), how);
  ++stats_[how];
}

Life& Lives::taken_back(const std::string& id, std::int64_t receipt, std::int64_t not_before, const std::string& what) {
  Life& life = held_by(id, receipt, what);
  life.lease.reset();
  life.receipt.reset();
  life.not_before = not_before;
  if (life.fate == Life::Fate::cancelled) end(life, "cancelled");
  return life;
}

void Lives::nacked(const std::string& id, std::int64_t receipt, std::int64_t not_before) {
  taken_back(id, receipt, not_before, "nacked");
  ++stats_["nacked"];
}

void Lives::released(const std::string& id, std::int64_t receipt, std::int64_t not_before) {
  Life& life = taken_back(id, receipt, not_before, "released");
  --life.delivered;
  --life.attempts;
}

void Lives::refused(const std::string& id, std::int64_t receipt, const std::string& what) const {
  const auto known = lives_.find(id);
  const bool held = known != lives_.end() && known->second.lease && known->second.receipt == receipt;
  demand(!held, id, what + " refused to its holder");
}

void Lives::lease_ended(const std::string& id, Span now) {
  Life& life = lives_[id];
  demand(!life.lease || *life.lease <= now.to, id, "taken from its holder");
  demand(life.not_before <= now.to, id, "back before its time");
  life.lease.reset();
}

void Lives::retried(const std::string& id, Span now) {
  lease_ended(id, now);
  --lives_[id].retries;
  ++stats_["retried"];
}

void Lives::dead_lettered(const std::string& id, bool kept) {
  Life& life = lives_[id];
  demand(life.fate == Life::Fate::alive, id, "dead-lettered, and it was not alive");
  life.fate = Life::Fate::dead;
  life.lease.reset();
  if (!kept) end(life, "dead-lettered");
  ++stats_["dead"];
}

void Lives::moved_by_operator(const std::string& id, std::int64_t not_before, bool from_unack) {
  Life& life = lives_[id];
  if (life.fate == Life::Fate::dead) life.doubtful = true;  // a Go worker had added it to unack
  if (from_unack) ++life.allowed;                           // that delivery spent no retry
  life.lease.reset();
  life.receipt.reset();
  life.not_before = not_before;
  if (life.fate == Life::Fate::cancelled) end(life, "cancelled");
}

void Lives::extended(const std::string& id, std::int64_t now, std::int64_t by, std::optional<std::int64_t> lease) {
  Life& life = lives_[id];
  life.not_before = std::max(life.not_before, now) + by;
  if (!lease) return;
  demand(!life.lease || *lease >= *life.lease + by, id, "a lease that ends too early");
  life.lease = lease;
  life.receipt.reset();
}

void Lives::cancelled(const std::string& id, const std::string& was) {
  Life& life = lives_[id];
  demand(life.fate == Life::Fate::alive || life.fate == Life::Fate::dead, id, "cancelled, and it was not alive");
  demand((was == "dead") == (life.fate == Life::Fate::dead), id, "cancelled as " + was);
  demand(was == "unack" || !life.lease, id, "taken from its holder by cancel");
  ++stats_["cancelled"];
  if (was != "unack") return end(life, "cancelled");
  life.fate = Life::Fate::cancelled;
}

void Lives::redriven(const std::string& id, std::int64_t not_before, int retries) {
  Life& life = lives_[id];
  demand(life.fate == Life::Fate::dead, id, "redriven, and it was not dead");
  life.fate = Life::Fate::alive;
  life.doubtful = false;
  life.not_before = not_before;
  life.allowed = life.delivered + retries + 1;
  life.retries = retries;
  life.attempts = 0;
  life.receipt.reset();
  ++stats_["redriven"];
}

void Lives::purged(const std::string& id) {
  const Life::Fate fate = lives_[id].fate;
  if (fate == Life::Fate::alive || fate == Life::Fate::dead) ++stats_["purged"];
  ended(id, "purged");
}

void Lives::leased_by_go(const std::string& id) {
  Life& life = lives_[id];
  life.leased_by_go = true;
  life.lease.reset();
  life.not_before = 0;
}

void Lives::rewind(std::int64_t us) {
  for (auto& [id, life] : lives_) {
    life.not_before -= us;
    if (life.lease) *life.lease -= us;
    if (life.receipt) *life.receipt -= us;
  }
}

void Lives::check(const Dump& dump) {
  for (auto& [id, life] : lives_) {
    if (life.fate == Life::Fate::alive) check_alive(dump, id, life);
    if (life.fate == Life::Fate::cancelled && dump.unack.count(id) == 0) {
      demand(dump.garbage.count(id) > 0, id, "cancelled while held, and left somewhere on its way out");
      end(life, "cancelled");
    }
    if (life.fate == Life::Fate::dead) demand(dump.dead.count(id) > 0, id, "lost: a dead letter, and not in dead");
    if (life.fate == Life::Fate::alive || life.fate == Life::Fate::dead) check_body(dump, id, life);
  }
  check_stats(dump);
}

void Lives::check_stats(const Dump& dump) {
  for (const auto& [name, value] : dump.stats) stats_[name];
  for (const auto& [name, sum] : stats_) {
    const auto found = dump.stats.find(name);
    const std::string value = found == dump.stats.end() ? "0" : found->second;
    demand(value == std::to_string(sum), "stats", name + " is " + value + ", should be " + std::to_string(sum));
  }
}

void Lives::check_all_over() const {
  for (const auto& [id, life] : lives_) {
    const bool over = life.fate == Life::Fate::over || life.fate == Life::Fate::cancelled;
    demand(over, id, "lost: neither done nor cancelled, purged, expired or a dead letter");
  }
}

void check_list(const std::string& name, const std::vector<std::string>& before, const std::vector<std::string>& after,
                const std::vector<std::string>& back, const std::vector<std::string>& front) {
  const std::size_t at_front = std::min(front.size(), after.size());
  auto place = after.rbegin() + static_cast<std::ptrdiff_t>(at_front);
  bool right = std::equal(front.begin(), front.end(), place.base(), after.end());
  for (auto old = before.rbegin(); place != after.rend(); ++place, ++old) {
    old = std::find(old, before.rend(), *place);
    if (old == before.rend()) break;
  }
  const auto added = static_cast<std::size_t>(after.rend() - place);
  right = right && added <= back.size() &&
          std::equal(place, after.rend(), back.end() - static_cast<std::ptrdiff_t>(std::min(added, back.size())));
  if (!right) throw Mismatch(name + ": in another order, or with other ids than the move put in");
}

}  // namespace test::model
