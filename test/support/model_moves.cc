#include "support/model_ask.h"

#include <delayqueue/inspector.h>

#include <algorithm>

#include "support/server.h"

// How moves run and are checked. How their arguments are drawn: model_draw.cc.
namespace test::model {
namespace {

using delayqueue::store::Pipeline;
using delayqueue::store::Receipt;
using delayqueue::store::TakeLimits;
using std::chrono::milliseconds;

std::vector<Receipt> receipts(const std::vector<Hold>& holds) {
  std::vector<Receipt> out;
  for (const Hold& hold : holds) out.push_back({hold.id, hold.end});
  return out;
}

void check_wait(const std::optional<std::chrono::microseconds>& real, const std::optional<Span>& head, Span now) {
  if (!real && !head) return;
  const auto bound = [](std::int64_t us) { return std::max<std::int64_t>(0, us); };
  const bool right =
      real && head && real->count() >= bound(head->from - now.to) && real->count() <= bound(head->to - now.from);
  if (!right) throw Mismatch("the wait until the next: " + (real ? std::to_string(real->count()) : "none"));
}

}  // namespace

std::string shown(const std::string& text) { return text; }
std::string shown(std::size_t count) { return std::to_string(count); }

std::string shown(const std::vector<Hold>& holds) {
  std::string out;
  for (const Hold& hold : holds) out += ' ' + hold.id.substr(0, 8) + '@' + std::to_string(hold.end);
  return out;
}

std::string shown(const delayqueue::store::Promoted& promoted) {
  return std::to_string(promoted.moved) + joined(promoted.ids);
}

std::string shown(const delayqueue::store::Taken& taken) {
  std::string out = std::to_string(taken.popped) + " popped, " + std::to_string(taken.from_retry) + " from retry, " +
                    std::to_string(taken.retry_left) + " left there:";
  for (const auto& [id, attempt] : taken.messages) out += ' ' + id.substr(0, 8) + '#' + std::to_string(attempt);
  return out + "; possible poison:" + joined(taken.possible_poison) + ", further " +
         std::to_string(taken.further_poison);
}

std::string shown(const delayqueue::store::Renewed& renewed) { return renewed.outcomes; }

std::string shown(const delayqueue::store::Reclaimed& reclaimed) {
  return std::to_string(reclaimed.moved) + " moved, retry:" + joined(reclaimed.retried) +
         ", given up:" + joined(reclaimed.dead_lettered);
}

std::string shown(const delayqueue::store::Purged& purged) {
  std::vector<std::string> garbage = purged.garbage;
  std::sort(garbage.begin(), garbage.end());
  return std::to_string(purged.removed) + " removed, " + std::to_string(purged.purged) + " purged:" + joined(garbage);
}

std::string shown(const delayqueue::store::PurgedIds& purged) {
  return purged.outcomes + ", " + std::to_string(purged.places) + " places";
}

std::string shown(const std::vector<std::optional<std::string>>& bodies) {
  std::string out;
  for (const auto& body : bodies) out += body ? " \"" + *body + '"' : " nothing";
  return out;
}

void Play::read_state(const std::string& event) {
  Pipeline pipeline(connection_);
  add_dump(pipeline, store_.keys().base);
  pipeline.run();
  dump_ = read_dump(pipeline.reply(0));
  now_ = {dump_.now_us, dump_.now_us};
  log_.push_back(event);
  model_.compare(dump_);
  lives_.check(dump_);
}

void Play::agree(const std::string& answer, const std::string& expected) {
  if (answer != expected) throw Mismatch("answered '" + answer + "', should be '" + expected + "'");
  model_.compare(dump_);
  lives_.check(dump_);
}

void Play::send(const std::vector<std::pair<std::string, std::string>>& messages,
                const delayqueue::store::SendTerms& terms) {
  std::vector<delayqueue::store::NewMessage> all;
  Ids ids;
  for (const auto& [id, payload] : messages) {
    all.push_back({id, payload});
    ids.push_back(id);
  }
  const auto& due = terms.due;
  const std::string when = due.delay ? "in " + std::to_string(due.delay->count()) : "at " + std::to_string(due.at_ms);
  const std::string answer = ask("send" + joined(ids) + ' ' + when + " retries " + std::to_string(terms.retries) +
                                     " ttl " + std::to_string(terms.ttl.count()) + (terms.fresh ? " fresh" : ""),
                                 [&](Pipeline& pipeline) { return store_.send(pipeline, all, terms); });
  const std::string expected = model_.send(now_, messages, terms);
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    const std::int64_t from = due.delay ? now_.from + due.delay->count() * 1000 : due.at_ms * 1000;
    if (answer[i] == '1') lives_.created(ids[i], from, terms.retries);
    if (answer[i] == '0' && dump_.unack.count(ids[i]) == 0) lives_.existed(ids[i]);
  }
  agree(answer, expected);
}

void Play::pending2ready() {
  const auto moved = ask("pending2ready", [&](Pipeline& pipeline) {
    return store_.pending2ready(pipeline, true, {"me", std::chrono::seconds(1)});
  });
  const Ids expected = model_.pending2ready(now_);
  agree(shown(moved), std::to_string(expected.size()) + joined(expected));
  check_wait(moved.next, model_.first_due(), now_);
}

void Play::take(const TakeLimits& limits, milliseconds lease, bool answer_is_lost) {
  const auto taken =
      ask("ready2unack " + std::to_string(limits.total) + " share " + std::to_string(limits.retry_share) +
              " retry_max " + std::to_string(limits.retry_max) + " poison_max " + std::to_string(limits.poison_max) +
              " poison_skip " + std::to_string(limits.poison_skip) + " lease " + std::to_string(lease.count()),
          [&](Pipeline& pipeline) { return store_.ready2unack(pipeline, limits, lease); });
  const auto expected = model_.ready2unack(limits, taken.lease_us);
  Ids ids;
  for (const auto& [id, attempt] : taken.messages) {
    lives_.delivered(id, taken.lease_us, now_);
    ids.push_back(id);
    if (!answer_is_lost) remember({id, taken.lease_us});
  }
  agree(shown(taken), shown(expected));
  if (taken.now_us < now_.from || taken.now_us > now_.to) throw Mismatch("taken: the time is not Redis' time");
  const std::int64_t length = taken.lease_us - taken.now_us - lease.count() * 1000;
  if (!ids.empty() && (length < 0 || length > 1)) throw Mismatch("taken: the lease is not what was asked for");
  if (!ids.empty()) check_bodies(ids);
}

void Play::check_bodies(const Ids& ids) {
  const auto real = ask("bodies" + joined(ids), [&](Pipeline& pipeline) { return store_.bodies(pipeline, ids); });
  std::vector<std::optional<std::string>> expected;
  for (const std::string& id : ids) expected.push_back(model_[id].body);
  agree(shown(real), shown(expected));
}

void Play::remove(const Holds& holds, bool expired) {
  const std::string what = expired ? "expire" : "ack";
  const std::string answer = ask(what + shown(holds), [&](Pipeline& pipeline) {
    return expired ? store_.expire(pipeline, receipts(holds)) : store_.ack(pipeline, receipts(holds));
  });
  const std::string expected = model_.remove(holds, expired ? "expired" : "acked");
  for (std::size_t i = 0; i < holds.size() && i < answer.size(); ++i) {
    if (answer[i] == 'S') lives_.done(holds[i].id, holds[i].end, what);
  }
  agree(answer, expected);
}

void Play::nack(const Holds& holds, std::optional<std::int64_t> delay_ms, const std::string& why) {
  std::vector<delayqueue::store::Nack> nacks;
  const auto delay = delay_ms ? std::optional(milliseconds(*delay_ms)) : std::nullopt;
  for (const Receipt& receipt : receipts(holds)) nacks.push_back({receipt, delay, why});
  const std::string answer = ask("nack" + shown(holds) + (delay_ms ? " in " + std::to_string(*delay_ms) : " never"),
                                 [&](Pipeline& pipeline) { return store_.nack(pipeline, nacks); });
  const std::string expected = model_.nack(now_, holds, delay_ms, why);
  for (std::size_t i = 0; i < holds.size() && i < answer.size(); ++i) {
    if (answer[i] != 'S' && answer[i] != 'D') continue;
    lives_.nacked(holds[i].id, holds[i].end, now_.from + delay_ms.value_or(0) * 1000);
    if (answer[i] == 'D') lives_.dead_lettered(holds[i].id, options_.keep_dead);
  }
  agree(answer, expected);
}

void Play::renew(const Holds& holds, std::int64_t new_end, bool answer_is_lost) {
  const auto real = ask("renew" + shown(holds) + " until " + std::to_string(new_end),
                        [&](Pipeline& pipeline) { return store_.renew(pipeline, receipts(holds), new_end); });
  const bool in_time = new_end > now_.from;
  const std::string expected = model_.renew(now_, holds, new_end);
  for (std::size_t i = 0; i < holds.size() && i < real.outcomes.size(); ++i) {
    if (real.outcomes[i] != 'N' || !in_time) continue;
    lives_.renewed(holds[i].id, holds[i].end, new_end);
    if (!answer_is_lost) remember({holds[i].id, new_end});
  }
  agree(real.outcomes, expected);
  if (real.now_us < now_.from || real.now_us > now_.to) throw Mismatch("renewed: the time is not Redis' time");
}

void Play::release(const Holds& holds, std::int64_t delay_ms) {
  const std::string answer = ask("release" + shown(holds) + " in " + std::to_string(delay_ms), [&](Pipeline& pipeline) {
    return store_.release(pipeline, receipts(holds), milliseconds(delay_ms));
  });
  const std::string expected = model_.release(now_, holds, delay_ms);
  for (std::size_t i = 0; i < holds.size() && i < answer.size(); ++i) {
    if (answer[i] == 'S') lives_.released(holds[i].id, holds[i].end, now_.from + delay_ms * 1000);
  }
  agree(answer, expected);
}

void Play::release_waiting(const Ids& ids, bool force) {
  std::vector<bool> in_unack;
  for (const std::string& id : ids) in_unack.push_back(model_[id].lease.has_value());
  const std::string answer = ask((force ? "force release" : "release waiting") + joined(ids),
                                 [&](Pipeline& pipeline) { return store_.release_waiting(pipeline, ids, force); });
  const std::string expected = model_.release_waiting(now_, ids, force);
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] == 'S') lives_.moved_by_operator(ids[i], now_.from, in_unack[i]);
  }
  agree(answer, expected);
}

void Play::unack2retry() {
  const auto real = ask("unack2retry", [&](Pipeline& pipeline) { return store_.unack2retry(pipeline); });
  const auto expected = model_.unack2retry(now_);
  for (const std::string& id : real.retried) lives_.reclaimed(id, now_);
  for (const std::string& id : real.dead_lettered) {
    lives_.reclaimed(id, now_);
    lives_.dead_lettered(id, options_.keep_dead);
  }
  agree(shown(real), shown(expected));
  check_wait(real.next, model_.first_lease(), now_);
}

void Play::persist(const Ids& ids) {
  const auto real = ask("persist" + joined(ids), [&](Pipeline& pipeline) { return store_.persist(pipeline, ids); });
  agree(shown(real), shown(model_.persist(ids)));
}

void Play::gc(const Ids& ids) {
  const auto real = ask("gc" + joined(ids), [&](Pipeline& pipeline) { return store_.gc(pipeline, ids); });
  agree(shown(real), shown(model_.gc(ids)));
}

void Play::delete_orphaned_metadata(const Ids& ids) {
  const auto real = ask("delete_orphaned_metadata" + joined(ids),
                        [&](Pipeline& pipeline) { return store_.delete_orphaned_metadata(pipeline, ids); });
  agree(shown(real), shown(model_.delete_orphaned_metadata(ids)));
}

void Play::cancel(const std::string& id, bool search) {
  const std::string was = ask("cancel " + id.substr(0, 8),
                              [&](Pipeline& pipeline) { return (search ? searching_ : store_).cancel(pipeline, id); });
  const bool again = !model_[id].retries && was == "unack";  // cancelled before, and still held
  const std::string expected = model_.cancel(id, search ? kSearchLists : 0);
  if (was != "unknown" && !again) lives_.cancelled(id, was);
  agree(was, expected);
}

void Play::reschedule(const std::string& id, const Due& due, bool search) {
  const std::string when = due.delay ? " in " + std::to_string(due.delay->count()) : " at " + std::to_string(due.at_ms);
  const bool in_unack = model_[id].lease.has_value();
  const std::string answer = ask("reschedule " + id.substr(0, 8) + when, [&](Pipeline& pipeline) {
    return (search ? searching_ : store_).reschedule(pipeline, id, due);
  });
  const std::string expected = model_.reschedule(now_, id, due, search ? kSearchLists : 0);
  const std::int64_t from = due.delay ? now_.from + due.delay->count() * 1000 : due.at_ms * 1000;
  if (answer == "moved") lives_.moved_by_operator(id, from, in_unack);
  agree(answer, expected);
}

void Play::redrive(const Ids& ids, int retries) {
  const std::string answer = ask("redrive" + joined(ids) + " retries " + std::to_string(retries),
                                 [&](Pipeline& pipeline) { return store_.redrive(pipeline, ids, retries); });
  const std::string expected = model_.redrive(ids, retries);
  for (std::size_t i = 0; i < ids.size() && i < answer.size(); ++i) {
    if (answer[i] == 'S') lives_.redriven(ids[i], now_.from, retries);
    if (answer[i] == 'B') lives_.ended(ids[i], "redriven without a body");
  }
  agree(answer, expected);
}

void Play::purge_zset(bool pending, std::size_t limit, std::optional<std::int64_t> age_ms, std::int64_t leave) {
  const std::string& state = pending ? store_.keys().pending : store_.keys().dead;
  const auto age = age_ms ? std::optional(milliseconds(*age_ms)) : std::nullopt;
  const auto real = ask("purge " + state + " limit " + std::to_string(limit) + " age " +
                            std::to_string(age_ms.value_or(-1)) + " leave " + std::to_string(leave),
                        [&](Pipeline& pipeline) { return store_.purge_zset(pipeline, state, limit, age, leave); });
  const auto age_us = age_ms ? std::optional(*age_ms * 1000) : std::nullopt;
  const auto expected = model_.purge_zset(now_, pending, limit, age_us, leave);
  for (const std::string& id : real.garbage) lives_.ended(id, "purged");
  agree(shown(real), shown(expected));
}

void Play::purge_list(bool ready, std::size_t limit) {
  const std::string& state = ready ? store_.keys().ready : store_.keys().retry;
  const auto real = ask("purge " + state + " limit " + std::to_string(limit),
                        [&](Pipeline& pipeline) { return store_.purge_list(pipeline, state, limit); });
  const auto expected = model_.purge_list(ready, limit);
  for (const std::string& id : real.garbage) lives_.ended(id, "purged");
  agree(shown(real), shown(expected));
}

void Play::check_finds_nothing() {
  using delayqueue::Problem;
  delayqueue::CheckOptions options;
  options.settle = milliseconds(0);
  options.sample = 1000;
  const auto report = delayqueue::Inspector(test::server().url(), queue_).check(options);
  for (const delayqueue::Finding& finding : report.findings) {
    const std::string& id = finding.id;
    const bool body = dump_.bodies.count(id) > 0;
    const bool lost = finding.problem == Problem::no_body && !lives_[id].has_body;
    const bool in_unack_too =
        finding.problem == Problem::two_states && options_.go_interference && dump_.dead.count(id) > 0;
    const bool expired = finding.problem == Problem::expired && !body;
    const bool garbage = finding.problem == Problem::garbage && dump_.garbage.count(id) > 0;
    if (!lost && !in_unack_too && !expired && !garbage) {
      throw Mismatch(id + ": check found " + to_string(finding.problem) + ": " + finding.what);
    }
  }
}

void Play::rewind(std::int64_t ms) {
  again_ = nullptr;
  test::rewind(store_.keys().base, milliseconds(ms));
  model_.rewind(ms * 1000);
  lives_.rewind(ms * 1000);
  for (Holds& holds : consumers_) {
    for (Hold& hold : holds) hold.end -= ms * 1000;
  }
  read_state("rewind " + std::to_string(ms));
}

void Play::pause(bool on) {
  test::redis().cmd(on ? std::vector<std::string>{"SET", store_.keys().paused, "1"}
                       : std::vector<std::string>{"DEL", store_.keys().paused});
  model_.pause(on);
  read_state(on ? "pause" : "go on");
}

}  // namespace test::model
