

#include "support/model_moves.h"
#include "support/server.h"

// How the arguments of the moves in model_moves.cc are drawn. All delays are multiples of 10 s, so that the few ms that
// a sequence takes do not change any outcome.
namespace test::model {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kSecond = 1000;
constexpr std::size_t kMostIds = 40;
constexpr std::size_t kConsumers = 3;

}  // namespace

std::string Random::uuid() {
  char text[40];
  const auto part = [this](std::uint64_t mask) { return static_cast<unsigned long long>(engine_() & mask); };
  std::snprintf(text, sizeof text, "%08llx-%04llx-7%03llx-8%03llx-%012llx", part(0xffffffff), part(0xffff), part(0xfff),
                part(0xfff), part(0xffffffffffff));
  return text;
}

std::optional<unsigned> partition_for(std::uint64_t seed) {
  return seed / 3 % 3 == 0 ? std::optional(5U) : std::nullopt;
}

delayqueue::store::Keys prepared_keys(const std::string& queue, std::optional<unsigned> partition) {
  if (partition) delayqueue::QueueAdmin(test::server().url(), queue).set_partitions(8);
  return delayqueue::store::make_keys(queue, {}, partition.value_or(0));
}

delayqueue::redis::Connection connect() {
  delayqueue::redis::Address address;
  address.path = test::server().socket();
  delayqueue::ClientOptions options;
  options.connect_timeout = options.command_timeout = std::chrono::seconds(60);  // a busy machine may stop for long
  return {address, {}, options};
}

Play::Play(std::uint64_t seed, delayqueue::redis::Connection& connection, const Options& options)
    : queue_(test::fresh_queue()),
      random_(seed),
      options_(options),
      connection_(connection),
      only_(partition_for(seed)),
      moves_(prepared_keys(queue_, only_), {options.keep_dead, 0, seed % 3 == 0 ? 0 : delayqueue::store::kStagedBytes}),
      searching_(moves_.keys(), {options.keep_dead, kSearchLists}),
      consumers_(kConsumers) {
  read_state("queue " + queue_ + (only_ ? ", partition " + std::to_string(*only_) : ""));
}

void Play::step() {
  struct Kind {
    std::size_t weight;
    void (Play::*move)();
  };
  static constexpr Kind kKinds[] = {
      {14, &Play::draw_send},
      {8, &Play::pending2ready},
      {16, &Play::draw_take},
      {8, &Play::draw_pending2unack},
      {8, &Play::draw_ack},
      {12, &Play::draw_nack},
      {7, &Play::draw_release},
      {6, &Play::draw_renew},
      {10, &Play::unack2retry},
      {3, &Play::draw_persist},
      {5, &Play::draw_gc},
      {3, &Play::draw_delete_orphaned_metadata},
      {6, &Play::draw_cancel},
      {6, &Play::draw_reschedule},
      {4, &Play::draw_redrive},
      {6, &Play::draw_purge},
      {4, &Play::draw_release_waiting},
      {3, &Play::draw_bury},
      {4, &Play::draw_extend},
      {3, &Play::draw_purge_ids},
      {4, &Play::draw_restore},
      {14, &Play::draw_rewind},
      {4, &Play::draw_go_interference},
      {2, &Play::lose_a_body},
      {1, &Play::pause_or_go_on},
      {1, &Play::die},
      {6, &Play::repeat},
  };
  const Kind& kind = random_.weighted(kKinds);
  consumer_ = random_.below(consumers_.size());
  (this->*kind.move)();
}

void Play::perform(std::function<void()> move) {
  move();
  again_ = std::move(move);
}

// Repeats the last move, as a caller does that lost the answer.
void Play::repeat() {
  if (again_) again_();
}

void Play::remember(const Hold& hold) {
  Holds& holds = consumers_[consumer_];
  holds.push_back(hold);
  if (holds.size() > 60) holds.erase(holds.begin());
}

Play::Due Play::draw_due() {
  const std::int64_t ms = random_.of({0, 0, 10, 10, 20, 60, 300, 3600}) * kSecond;
  if (!random_.one_in(4)) return {milliseconds(ms), 0};
  const std::int64_t now_ms = now_.to / 1000;
  return {std::nullopt, random_.one_in(6) ? now_ms - 20 * kSecond : now_ms + ms};
}

Play::Ids Play::draw_ids(std::size_t most) {
  Ids ids;
  for (std::size_t n = ids_.empty() ? 0 : 1 + random_.below(most); n > 0; --n) {
    const std::string& id = ids_[random_.below(ids_.size())];
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

void Play::draw_send() {
  std::vector<std::pair<std::string, std::string>> messages;
  delayqueue::store::SendTerms terms;
  terms.new_ids = random_.one_in(4);
  terms.due = draw_due();
  terms.retries = static_cast<int>(random_.of({0, 0, 1, 2, 3}));
  terms.ttl = milliseconds(random_.of({0, 0, 2, 24}) * 3600 * kSecond);
  for (std::size_t n = 1 + random_.below(4); n > 0; --n) {
    const bool known = !terms.new_ids && !ids_.empty() && (ids_.size() >= kMostIds || random_.one_in(2));
    if (!known && ids_.size() < 2 * kMostIds) ids_.push_back(random_.uuid());
    const std::string& id =
        known || terms.new_ids ? ids_[known ? random_.below(ids_.size()) : ids_.size() - 1] : ids_.back();
    messages.emplace_back(id, random_.one_in(10) ? "" : id.substr(0, 8) + " of move " + std::to_string(log_.size()));
  }
  if (terms.new_ids && ids_.size() >= 2 * kMostIds) terms.new_ids = false;
  if (!terms.new_ids && random_.one_in(3)) messages.push_back(messages.front());
  if (terms.new_ids) {
    send(messages, terms);
    terms.new_ids = false;  // only in the first send the ids may be new
    again_ = [=] { send(messages, terms); };
  } else {
    perform([=] { send(messages, terms); });
  }
}

void Play::draw_take() {
  delayqueue::store::TakeLimits limits;
  limits.total = 1 + random_.below(6);
  limits.retry_max = random_.below(limits.total + 1);
  limits.retry_share = random_.below(3);
  if (!random_.one_in(3)) limits.poison_max = random_.below(3);
  if (random_.one_in(2)) limits.poison_skip = random_.below(4);
  const milliseconds lease(random_.of({10, 20, 60, 600}) * kSecond);
  take(limits, lease, random_.one_in(10));
}

void Play::draw_pending2unack() {
  const std::size_t total = 1 + random_.below(6);
  const std::size_t moved = random_.one_in(2) ? total : delayqueue::store::kBatch;
  const milliseconds lease(random_.of({10, 20, 60, 600}) * kSecond);
  pending2unack({moved, total}, lease, random_.one_in(10));
}

const Hold* Play::draw_hold() {
  const Holds& mine = consumers_[random_.one_in(8) ? random_.below(consumers_.size()) : consumer_];
  if (mine.empty()) return nullptr;
  const Hold* hold = nullptr;
  for (int tries = random_.one_in(3) ? 1 : 8; tries > 0; --tries) {
    hold = &mine[random_.below(mine.size())];
    const auto lease = dump_.unack.find(hold->id);
    if (lease != dump_.unack.end() && lease->second == hold->end) break;
  }
  return hold;
}

Play::Holds Play::draw_holds() {
  Holds holds;
  for (std::size_t n = 1 + random_.below(4); n > 0; --n) {
    const Hold* drawn = draw_hold();
    if (drawn == nullptr) continue;
    const Hold hold = *drawn;
    const auto same = [&hold](const Hold& other) { return other.id == hold.id; };
    if (std::none_of(holds.begin(), holds.end(), same)) holds.push_back(hold);
  }
  if (holds.size() > 1 && random_.one_in(12)) holds[0].end = holds[1].end;  // a receipt of another message
  return holds;
}

void Play::draw_ack() {
  const Holds holds = draw_holds();
  const bool expired = random_.one_in(4);
  if (!holds.empty()) perform([=] { remove(holds, expired); });
}

void Play::draw_nack() {
  const Holds holds = draw_holds();
  if (holds.empty()) return;
  std::optional<std::int64_t> delay = random_.of({0, 10, 10, 20, 60, 300}) * kSecond;
  // Sometimes aims at a whole second, where a backoff must not end. It is 5 s away from all other times.
  if (random_.one_in(3)) *delay += 15 * kSecond - 1 - now_.to / 1000 % kSecond;
  if (random_.one_in(6)) delay.reset();
  const std::string why = random_.one_in(3) ? "" : "no luck in move " + std::to_string(log_.size());
  perform([=] { nack(holds, delay, why); });
}

void Play::draw_release() {
  const Holds holds = draw_holds();
  const std::int64_t delay = random_.of({0, 0, 10, 60}) * kSecond;
  if (!holds.empty()) perform([=] { release(holds, delay); });
}

void Play::draw_renew() {
  const Holds holds = draw_holds();
  if (holds.empty()) return;
  std::int64_t end = now_.to + random_.of({10, 20, 60, 600, -10}) * 1'000'000;
  if (end % 1000 == 0) ++end;
  const bool lost = random_.one_in(4);
  perform([=] { renew(holds, end, lost); });
}

void Play::draw_release_waiting() {
  const Ids ids = draw_ids(4);
  const bool force = random_.one_in(2);
  if (!ids.empty()) perform([=] { release_waiting(ids, force); });
}

void Play::draw_persist() {
  const Ids ids = draw_ids(20);
  if (!ids.empty()) perform([=] { persist(ids); });
}

void Play::draw_gc() {
  const Ids ids = draw_ids(10);
  if (!ids.empty()) perform([=] { gc(ids); });
}

void Play::draw_delete_orphaned_metadata() {
  const Ids ids = draw_ids(20);
  if (!ids.empty()) perform([=] { delete_orphaned_metadata(ids); });
}

void Play::draw_cancel() {
  const bool search = random_.one_in(2);
  for (const std::string& id : draw_ids(1)) perform([=] { cancel(id, search); });
}

void Play::draw_reschedule() {
  const bool search = random_.one_in(2);
  const Due due = draw_due();
  for (const std::string& id : draw_ids(1)) perform([=] { reschedule(id, due, search); });
}

void Play::draw_redrive() {
  const Ids ids = draw_ids(8);
  const int retries = static_cast<int>(random_.below(3));
  if (!ids.empty()) perform([=] { redrive(ids, retries); });
}

void Play::draw_purge() {
  const std::size_t limit = random_.one_in(3) ? 200 : random_.below(6);
  const std::int64_t leave = random_.of({0, 0, 1, 2});
  const std::int64_t age = random_.of({-1, 0, 10, 60}) * kSecond;
  const bool first = random_.one_in(2);
  if (random_.one_in(2)) {
    purge_zset(first, limit, age < 0 ? std::nullopt : std::optional(age), leave);
  } else {
    purge_list(first, limit);
  }
}

void Play::draw_bury() {
  const Ids ids = draw_ids(4);
  const std::string why = random_.one_in(3) ? "" : "buried in move " + std::to_string(log_.size());
  const bool force = random_.one_in(3);
  const bool search = random_.one_in(2);
  if (!ids.empty()) perform([=] { bury(ids, why, force, search); });
}

void Play::draw_extend() {
  const Ids ids = draw_ids(8);
  const std::int64_t by = random_.of({10, 20, 60, 300}) * kSecond;
  const bool force = random_.one_in(3);
  if (!ids.empty()) perform([=] { extend(ids, by, force); });
}

void Play::draw_purge_ids() {
  const Ids ids = draw_ids(4);
  const char state = "pdrt"[random_.below(4)];
  if (!ids.empty()) perform([=] { purge_ids(state, ids); });
}

void Play::draw_restore() {
  std::vector<RestoreEntry> entries;
  for (std::size_t n = 1 + random_.below(4); n > 0; --n) {
    const bool known = !ids_.empty() && (ids_.size() >= kMostIds || random_.one_in(2));
    if (!known) ids_.push_back(random_.uuid());
    RestoreEntry entry;
    entry.id = known ? ids_[random_.below(ids_.size())] : ids_.back();
    entry.payload = "restored in move " + std::to_string(log_.size());
    entry.reason = random_.one_in(2) ? "" : "it once failed";
    entry.terms.dead = random_.one_in(3);
    const std::int64_t seconds = entry.terms.dead ? -20 : random_.of({-20, 10, 10, 60, 300});
    entry.terms.at_us = now_.to / 1000 * 1000 + seconds * 1'000'000 + static_cast<std::int64_t>(random_.below(1000));
    if (!entry.terms.dead) entry.terms.retries = static_cast<int>(random_.below(3));
    entry.terms.deliveries = static_cast<int>(random_.below(3));
    if (!entry.terms.dead) entry.terms.ttl = milliseconds(random_.of({0, 0, 24}) * 3600 * kSecond);
    entries.push_back(entry);
  }
  perform([=] { restore(entries); });
}

void Play::draw_rewind() { rewind(random_.of({10, 10, 10, 20, 20, 60, 300, 3600}) * kSecond); }

// A Go worker settles a message that it no longer holds: see docs/protocol.md.
void Play::draw_go_interference() {
  Ids ids = draw_ids(1);
  if (!options_.go_interference || ids.empty()) return;
  if (!dump_.dead.empty() && random_.one_in(2)) ids = {dump_.dead.begin()->first};
  const std::string id = ids[0];
  if (random_.one_in(2)) {
    if (dump_.pending.count(id) > 0) return;
    const std::int64_t end = (now_.to / 1'000'000 + 15) * 1'000'000;
    test::redis().cmd({"ZADD", moves_.keys().unack, std::to_string(end / 1'000'000), id});
    lives_.leased_by_go(id);
    read_state("late nack of a Go worker: " + id.substr(0, 8));
  } else {
    if (dump_.pending.count(id) + dump_.unack.count(id) + dump_.dead.count(id) == 0) return;
    test::redis().cmd({"SADD", moves_.keys().garbage, id});
    const bool stays = dump_.dead.count(id) > 0 && random_.one_in(2);
    if (stays) lives_.finished_by_go(id);
    read_state("garbage, and in a zset: " + id.substr(0, 8));
    if (!stays) return gc(ids);
    if (random_.one_in(3)) return cancel(id, false);
    if (random_.one_in(2)) return reschedule(id, draw_due(), false);
  }
}

void Play::lose_a_body() {
  for (const std::string& id : draw_ids(1)) {
    const auto body = dump_.bodies.find(id);
    if (body == dump_.bodies.end() || !body->second.expires_us || dump_.dead.count(id) > 0) continue;
    test::redis().cmd({"DEL", moves_.keys().bodies + id});
    lives_.lost_body(id);
    read_state("TTL ends: " + id.substr(0, 8));
  }
}

void Play::pause_or_go_on() { pause(dump_.others.count("paused") == 0 && random_.one_in(2)); }

void Play::die() {
  consumers_[consumer_].clear();
  again_ = nullptr;
  log_.push_back("consumer " + std::to_string(consumer_) + " dies");
}

void Play::finish_round() {
  rewind(24 * 3600 * kSecond);
  unack2retry();
  pending2ready();
  consumers_.assign(kConsumers, {});
  take({200, 25, 200}, milliseconds(10 * kSecond), false);
  const Holds holds = consumers_[consumer_];
  for (const bool expired : {true, false}) {
    Holds some;
    std::copy_if(holds.begin(), holds.end(), std::back_inserter(some),
                 [&](const Hold& hold) { return (dump_.bodies.count(hold.id) == 0) == expired; });
    if (!some.empty()) remove(some, expired);
  }
  if (!dump_.garbage.empty()) gc({dump_.garbage.begin(), dump_.garbage.end()});
  Ids with_metadata;
  for (const auto* hash : {&dump_.attempts, &dump_.reason, &dump_.headers}) {
    for (const auto& [id, text] : *hash) with_metadata.push_back(id);
  }
  if (!with_metadata.empty()) delete_orphaned_metadata(with_metadata);
}

void Play::drain() {
  pause(false);
  const Dump before = dump_;
  Ids dead;
  for (const auto& [id, since] : before.dead) dead.push_back(id);
  if (!dead.empty() && random_.one_in(2)) redrive(dead, 1);
  for (int round = 0; round < 20 && !dump_.only_stats(); ++round) {
    finish_round();
    if (round > 5) purge_zset(false, 200, std::nullopt, 0);
  }
  if (!dump_.only_stats()) throw Mismatch("left over at the end: " + dump_.left_over());
  lives_.check_all_over();
  test::redis().cmd({"DEL", moves_.keys().stats});
}

}  // namespace test::model
