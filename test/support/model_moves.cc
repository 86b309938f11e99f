#include "support/model_moves.h"

#include "support/server.h"

// How moves run and are checked. How their arguments are drawn: model_draw.cc.
namespace test::model {
namespace {

using delayqueue::store::Pipeline;
using delayqueue::store::PurgedIds;
using delayqueue::store::Receipt;
using delayqueue::store::RestoreRecord;
using delayqueue::store::TakeLimits;
using std::chrono::milliseconds;

std::string shown(const std::string& text) { return text; }
std::string shown(std::size_t count) { return std::to_string(count); }

std::string shown(const std::vector<Hold>& holds) {
  std::string out;
  for (const Hold& hold : holds) out += ' ' + hold.id.substr(0, 8) + '@' + std::to_string(hold.end);
  return out;
}

std::string shown(const delayqueue::store::Promoted& promoted) { return joined(promoted.ids); }

std::string shown(const delayqueue::store::Taken& taken) {
  std::string out = std::to_string(taken.popped) + " popped, " + std::to_string(taken.from_retry) + " from retry:";
  for (const auto& [id, attempt] : taken.messages) out += ' ' + id.substr(0, 8) + '#' + std::to_string(attempt);
  return out + "; possible poison:" + joined(taken.possible_poison);
}

std::string shown(const delayqueue::store::PromotedAndTaken& both) {
  return shown(both.promoted) + (both.taken ? "; " + shown(*both.taken) : "");
}

std::string shown(const delayqueue::store::Renewed& renewed) { return renewed.outcomes; }

std::string shown(const delayqueue::store::Reclaimed& reclaimed) {
  return "retry:" + joined(reclaimed.retried) + ", dead-lettered:" + joined(reclaimed.dead_lettered);
}

std::string shown(const delayqueue::store::Purged& purged) {
  return std::to_string(purged.purged) + " purged:" + joined(purged.garbage);
}

std::string shown(const PurgedIds& purged) { return purged.outcomes; }

}  // namespace

std::vector<Receipt> receipts(const std::vector<Hold>& holds) {
  std::vector<Receipt> out;
  for (const Hold& hold : holds) out.push_back({hold.id, hold.end});
  return out;
}

std::string joined(const std::vector<std::string>& ids) {
  std::string out;
  for (const std::string& id : ids) out += ' ' + id.substr(0, 8);
  return out;
}

// Runs one move: reads the time before it, dumps the queue after it, and logs the move.
template <class Add>
auto Play::ask(const std::string& move, Add add) {
  Pipeline pipeline(connection_);
  add_time(pipeline);
  const auto answer = add(pipeline);
  add_dump(pipeline, moves_.keys().base);
  log_.push_back(move);
  pipeline.run();
  const auto real = answer.get();
  before_ = std::exchange(dump_, read_dump(pipeline.reply(pipeline.size() - 1)));
  now_ = {read_time(pipeline.reply(0)), dump_.now_us};
  log_.back() += " -> " + shown(real);
  return real;
}

void Play::read_state(const std::string& event) {
  Pipeline pipeline(connection_);
  add_dump(pipeline, moves_.keys().base);
  pipeline.run();
  dump_ = read_dump(pipeline.reply(0));
  now_ = {dump_.now_us, dump_.now_us};
  log_.push_back(event);
  lives_.check(dump_);
}

void Play::check(const Ids& back, const Ids& front) {
  check_list("ready", before_.ready, dump_.ready, back, front);
  check_list("retry", before_.retry, dump_.retry, {}, {});
  lives_.check(dump_);
}

void Play::send(const std::vector<std::pair<std::string, std::string>>& messages,
                const delayqueue::store::SendTerms& terms) {
  std::vector<delayqueue::store::NewMessage> all;
  std::vector<std::string> headers;
  headers.reserve(messages.size());
  Ids ids;
  for (const auto& [id, payload] : messages) {
    headers.push_back(headers_of(payload));
    all.push_back({id, payload, headers.back()});
    ids.push_back(id);
  }
  const auto& due = terms.due;
  const std::string when = due.delay ? "in " + std::to_string(due.delay->count()) : "at " + std::to_string(due.at_ms);
  const std::string answer = ask("send" + joined(ids) + ' ' + when + " retries " + std::to_string(terms.retries) +
                                     " ttl " + std::to_string(terms.ttl.count()) + (terms.new_ids ? " new ids" : ""),
                                 [&](Pipeline& pipeline) { return moves_.send(pipeline, all, terms); });
  const std::int64_t from = due.delay ? now_.from + due.delay->count() * 1000 : due.at_ms * 1000;
  Ids ready;
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] == '1') lives_.created(ids[i], messages[i].second, from, terms.retries);
    if (answer[i] == '1' && dump_.pending.count(ids[i]) == 0) ready.push_back(ids[i]);
    if (answer[i] == '0' && dump_.unack.count(ids[i]) == 0) lives_.existed(ids[i]);
  }
  check(ready);
}

void Play::check_promoted(const delayqueue::store::Promoted& promoted) {
  const auto due = [this](const std::string& a, const std::string& b) {
    return before_.pending[a] < before_.pending[b];
  };
  if (!std::is_sorted(promoted.ids.begin(), promoted.ids.end(), due)) throw Mismatch("moved in another order than due");
}

void Play::pending2ready() {
  const auto moved = ask("pending2ready", [&](Pipeline& pipeline) {
    return moves_.pending2ready(pipeline, true, {"me", std::chrono::seconds(1)});
  });
  check_promoted(moved);
  check(moved.ids);
}

void Play::check_taken(const delayqueue::store::Taken& taken, std::size_t total, milliseconds lease,
                       bool answer_is_lost) {
  for (const auto& [id, attempt] : taken.messages) {
    lives_.delivered(id, taken.lease_us, attempt, now_);
    if (!answer_is_lost) remember({id, taken.lease_us});
  }
  const bool paused = dump_.others.count("paused") > 0;
  if (taken.messages.size() > (paused ? 0 : total)) throw Mismatch("taken: more than was asked for");
  if (taken.now_us < now_.from || taken.now_us > now_.to) throw Mismatch("taken: the time is not Redis' time");
  const std::int64_t length = taken.lease_us - taken.now_us - lease.count() * 1000;
  if (!taken.messages.empty() && (length < 0 || length > 1)) throw Mismatch("taken: another lease than was asked for");
}

void Play::take(const TakeLimits& limits, milliseconds lease, bool answer_is_lost) {
  const auto taken =
      ask("ready2unack " + std::to_string(limits.total) + " share " + std::to_string(limits.retry_share) +
              " retry_max " + std::to_string(limits.retry_max) + " poison_max " + std::to_string(limits.poison_max) +
              " poison_skip " + std::to_string(limits.poison_skip) + " lease " + std::to_string(lease.count()),
          [&](Pipeline& pipeline) { return moves_.ready2unack(pipeline, limits, lease); });
  check_taken(taken, limits.total, lease, answer_is_lost);
  if (taken.possible_poison.size() > limits.poison_max) throw Mismatch("taken: too many that may be poison");
  const bool in_order = dump_.ready.size() <= before_.ready.size() &&
                        std::equal(dump_.ready.begin(), dump_.ready.end(), before_.ready.begin());
  if (!in_order) throw Mismatch("taken: not the first in ready");
  lives_.check(dump_);
}

void Play::pending2unack(const delayqueue::store::DueLimits& limits, milliseconds lease, bool answer_is_lost) {
  const std::size_t total = limits.taken;
  const auto both = ask("pending2unack " + std::to_string(total) + " of " + std::to_string(limits.moved) + " lease " +
                            std::to_string(lease.count()),
                        [&](Pipeline& pipeline) {
                          return moves_.pending2unack(pipeline, true, {"me", std::chrono::seconds(1)}, limits, lease);
                        });
  if (both.promoted.moved > limits.moved) throw Mismatch("pending2unack: moved more than was asked for");
  const bool may_take = before_.ready.empty() && before_.retry.empty() && before_.others.count("paused") == 0;
  if (both.taken.has_value() != may_take) throw Mismatch("pending2unack: taken before others, or not taken");
  check_promoted(both.promoted);
  Ids left = both.promoted.ids;
  if (!both.taken) return check(left);
  check_taken(*both.taken, total, lease, answer_is_lost);
  left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(std::min(total, left.size())));
  check_list("ready", before_.ready, dump_.ready, left, {});
  if (dump_.retry.size() != both.taken->retry_left) throw Mismatch("pending2unack: another number left in retry");
  lives_.check(dump_);
}

void Play::remove(const Holds& holds, bool expired) {
  const std::string what = expired ? "expired" : "acked";
  const std::string answer = ask(what + shown(holds), [&](Pipeline& pipeline) {
    return expired ? moves_.expire(pipeline, receipts(holds)) : moves_.ack(pipeline, receipts(holds));
  });
  for (std::size_t i = 0; i < holds.size() && i < answer.size(); ++i) {
    answer[i] == 'S' ? lives_.done(holds[i].id, holds[i].end, what) : lives_.refused(holds[i].id, holds[i].end, what);
  }
  check();
}

void Play::nack(const Holds& holds, std::optional<std::int64_t> delay_ms, const std::string& why) {
  std::vector<delayqueue::store::Nack> nacks;
  const auto delay = delay_ms ? std::optional(milliseconds(*delay_ms)) : std::nullopt;
  for (const Receipt& receipt : receipts(holds)) nacks.push_back({receipt, delay, why});
  const std::string answer = ask("nack" + shown(holds) + (delay_ms ? " in " + std::to_string(*delay_ms) : " never"),
                                 [&](Pipeline& pipeline) { return moves_.nack(pipeline, nacks); });
  for (std::size_t i = 0; i < holds.size() && i < answer.size(); ++i) {
    if (answer[i] != 'S' && answer[i] != 'D') {
      lives_.refused(holds[i].id, holds[i].end, "nack");
      continue;
    }
    lives_.nacked(holds[i].id, holds[i].end, now_.from + delay_ms.value_or(0) * 1000);
    if (answer[i] == 'D') lives_.dead_lettered(holds[i].id, options_.keep_dead);
  }
  check();
}

void Play::renew(const Holds& holds, std::int64_t new_end, bool answer_is_lost) {
  const auto real = ask("renew" + shown(holds) + " until " + std::to_string(new_end),
                        [&](Pipeline& pipeline) { return moves_.renew(pipeline, receipts(holds), new_end); });
  const bool in_time = new_end > now_.from;
  for (std::size_t i = 0; i < holds.size() && i < real.outcomes.size(); ++i) {
    if (!in_time) continue;
    if (real.outcomes[i] != 'N') {
      lives_.refused(holds[i].id, holds[i].end, "renewal");
      continue;
    }
    lives_.renewed(holds[i].id, holds[i].end, new_end);
    if (!answer_is_lost) remember({holds[i].id, new_end});
  }
  if (real.now_us < now_.from || real.now_us > now_.to) throw Mismatch("renewed: the time is not Redis' time");
  check();
}

void Play::release(const Holds& holds, std::int64_t delay_ms) {
  const std::string answer = ask("release" + shown(holds) + " in " + std::to_string(delay_ms), [&](Pipeline& pipeline) {
    return moves_.release(pipeline, receipts(holds), milliseconds(delay_ms));
  });
  Ids ready;
  for (std::size_t i = 0; i < holds.size() && i < answer.size(); ++i) {
    if (answer[i] != 'S') {
      lives_.refused(holds[i].id, holds[i].end, "release");
      continue;
    }
    if (delay_ms == 0 && lives_[holds[i].id].fate == Life::Fate::alive) ready.push_back(holds[i].id);
    lives_.released(holds[i].id, holds[i].end, now_.from + delay_ms * 1000);
  }
  check({}, ready);
}

void Play::release_waiting(const Ids& ids, bool force) {
  const std::string answer = ask((force ? "force release" : "release waiting") + joined(ids),
                                 [&](Pipeline& pipeline) { return moves_.release_waiting(pipeline, ids, force); });
  Ids ready;
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] != 'S') continue;
    lives_.moved_by_operator(ids[i], now_.from, before_.unack.count(ids[i]) > 0);
    ready.push_back(ids[i]);
  }
  check({}, ready);
}

void Play::unack2retry() {
  const auto real = ask("unack2retry", [&](Pipeline& pipeline) { return moves_.unack2retry(pipeline); });
  for (const std::string& id : real.retried) lives_.retried(id, now_);
  for (const std::string& id : real.dead_lettered) {
    lives_.lease_ended(id, now_);
    lives_.dead_lettered(id, options_.keep_dead);
  }
  check_list("ready", before_.ready, dump_.ready, {}, {});
  check_list("retry", before_.retry, dump_.retry, real.retried, {});
  lives_.check(dump_);
}

void Play::persist(const Ids& ids) {
  ask("persist" + joined(ids), [&](Pipeline& pipeline) { return moves_.persist(pipeline, ids); });
  check();
}

void Play::gc(const Ids& ids) {
  ask("gc" + joined(ids), [&](Pipeline& pipeline) { return moves_.gc(pipeline, ids); });
  check();
}

void Play::delete_orphaned_metadata(const Ids& ids) {
  ask("delete_orphaned_metadata" + joined(ids),
      [&](Pipeline& pipeline) { return moves_.delete_orphaned_metadata(pipeline, ids); });
  check();
}

void Play::cancel(const std::string& id, bool search) {
  const std::string was = ask("cancel " + id.substr(0, 8),
                              [&](Pipeline& pipeline) { return (search ? searching_ : moves_).cancel(pipeline, id); });
  const bool again = before_.count.count(id) == 0 && was == "unack";  // cancelled before, and still held
  if (was != "unknown" && !again) lives_.cancelled(id, was);
  check();
}

void Play::reschedule(const std::string& id, const Due& due, bool search) {
  const std::string when = due.delay ? " in " + std::to_string(due.delay->count()) : " at " + std::to_string(due.at_ms);
  const std::string answer = ask("reschedule " + id.substr(0, 8) + when, [&](Pipeline& pipeline) {
    return (search ? searching_ : moves_).reschedule(pipeline, id, due);
  });
  const std::int64_t from = due.delay ? now_.from + due.delay->count() * 1000 : due.at_ms * 1000;
  const bool moved = answer == "moved";
  if (moved) lives_.moved_by_operator(id, from, before_.unack.count(id) > 0);
  check(moved && dump_.pending.count(id) == 0 ? Ids{id} : Ids{});
}

void Play::redrive(const Ids& ids, int retries) {
  const std::string answer = ask("redrive" + joined(ids) + " retries " + std::to_string(retries),
                                 [&](Pipeline& pipeline) { return moves_.redrive(pipeline, ids, retries); });
  Ids ready;
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] == 'S') lives_.redriven(ids[i], now_.from, retries);
    if (answer[i] == 'S') ready.push_back(ids[i]);
    if (answer[i] == 'B') lives_.ended(ids[i], "redriven without a body");
  }
  check(ready);
}

void Play::purge_zset(bool pending, std::size_t limit, std::optional<std::int64_t> age_ms, std::int64_t leave) {
  const std::string& state = pending ? moves_.keys().pending : moves_.keys().dead;
  const auto age = age_ms ? std::optional(milliseconds(*age_ms)) : std::nullopt;
  const auto real = ask("purge " + state + " limit " + std::to_string(limit) + " age " +
                            std::to_string(age_ms.value_or(-1)) + " leave " + std::to_string(leave),
                        [&](Pipeline& pipeline) { return moves_.purge_zset(pipeline, state, limit, age, leave); });
  for (const std::string& id : real.garbage) lives_.purged(id);
  check();
}

void Play::purge_list(bool ready, std::size_t limit) {
  const std::string& state = ready ? moves_.keys().ready : moves_.keys().retry;
  const auto real = ask("purge " + state + " limit " + std::to_string(limit),
                        [&](Pipeline& pipeline) { return moves_.purge_list(pipeline, state, limit); });
  for (const std::string& id : real.garbage) lives_.purged(id);
  check();
}

void Play::bury(const Ids& ids, const std::string& why, bool force, bool search) {
  const std::string answer = ask((force ? "bury by force" : "bury") + joined(ids), [&](Pipeline& pipeline) {
    return (search ? searching_ : moves_).bury(pipeline, ids, why, force);
  });
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] == 'S') lives_.dead_lettered(ids[i], true);
  }
  check();
}

void Play::extend(const Ids& ids, std::int64_t by_ms, bool force) {
  const std::string answer =
      ask((force ? "extend by force" : "extend") + joined(ids) + " by " + std::to_string(by_ms),
          [&](Pipeline& pipeline) { return moves_.extend(pipeline, ids, milliseconds(by_ms), force); });
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] != 'S') continue;
    const auto end = dump_.unack.find(ids[i]);
    if (end == dump_.unack.end()) throw Mismatch("extended, and not in unack");
    const bool held = delayqueue::store::is_lease(before_.unack[ids[i]]);
    lives_.extended(ids[i], now_.from, by_ms * 1000, held ? std::optional(end->second) : std::nullopt);
  }
  check();
}

void Play::purge_ids(char state, const Ids& ids) {
  const auto& keys = moves_.keys();
  const std::string& key = state == 'p'   ? keys.pending
                           : state == 'd' ? keys.dead
                           : state == 'r' ? keys.ready
                                          : keys.retry;
  const PurgedIds real =
      ask("purge_ids " + key + joined(ids), [&](Pipeline& pipeline) { return moves_.purge_ids(pipeline, key, ids); });
  for (std::size_t i = 0; i < ids.size() && i < real.outcomes.size(); ++i) {
    if (real.outcomes[i] == 'S') lives_.purged(ids[i]);
  }
  check();
}

void Play::restore(const std::vector<RestoreEntry>& entries) {
  std::vector<RestoreRecord> messages;
  std::string names;
  for (const RestoreEntry& entry : entries) {
    RestoreRecord one = entry.terms;
    one.id = entry.id;
    one.reason = entry.reason;
    one.payload = entry.payload;
    one.headers = headers_of(entry.payload);
    messages.push_back(one);
    names += ' ' + entry.id.substr(0, 8) + (one.dead ? " dead at " : " at ") + std::to_string(one.at_us);
  }
  const std::string answer =
      ask("restore" + names, [&](Pipeline& pipeline) { return moves_.restore(pipeline, messages); });
  Ids ready;
  for (std::size_t i = 0; i < entries.size() && i < answer.size(); ++i) {
    const std::string& id = entries[i].id;
    if (answer[i] == '0' && dump_.unack.count(id) == 0) lives_.existed(id);
    if (answer[i] != '1') continue;
    lives_.created(id, entries[i].payload, messages[i].at_us, messages[i].retries);
    lives_.restored(id, messages[i].deliveries, messages[i].dead);
    if (!messages[i].dead && dump_.pending.count(id) == 0) ready.push_back(id);
  }
  check(ready);
}

void Play::check_finds_nothing() {
  using delayqueue::Problem;
  delayqueue::CheckOptions options;
  options.recheck_after = milliseconds(0);
  options.sample = 1000;
  const auto report = delayqueue::QueueAdmin(test::server().url(), queue_, {only_}).check(options);
  for (const delayqueue::Finding& finding : report.findings) {
    const std::string& id = finding.id;
    const bool body = dump_.bodies.count(id) > 0;
    const bool lost = finding.problem == Problem::no_body && !lives_[id].has_body;
    const bool in_unack_too =
        finding.problem == Problem::two_states && options_.go_interference && dump_.dead.count(id) > 0;
    const bool expired = finding.problem == Problem::expired && !body;
    const bool garbage = finding.problem == Problem::garbage && dump_.garbage.count(id) > 0;
    if (!lost && !in_unack_too && !expired && !garbage) {
      throw Mismatch(id + ": check found " + to_string(finding.problem) + ": " + finding.description);
    }
  }
}

void Play::rewind(std::int64_t ms) {
  again_ = nullptr;
  test::rewind(moves_.keys().base, milliseconds(ms));
  lives_.rewind(ms * 1000);
  for (Holds& holds : consumers_) {
    for (Hold& hold : holds) hold.end -= ms * 1000;
  }
  read_state("rewind " + std::to_string(ms));
}

void Play::pause(bool on) {
  test::redis().cmd(on ? std::vector<std::string>{"SET", moves_.keys().paused, "1"}
                       : std::vector<std::string>{"DEL", moves_.keys().paused});
  read_state(on ? "pause" : "go on");
}

}  // namespace test::model
