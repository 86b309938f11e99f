#include "support/model_mixed.h"

#include "support/server.h"

namespace test::model {
namespace {

using delayqueue::store::Pipeline;
using delayqueue::store::Receipt;
using std::chrono::milliseconds;

template <class T>
std::vector<std::string> names(const std::map<std::string, T>& map) {
  std::vector<std::string> out;
  for (const auto& [name, value] : map) out.push_back(name);
  return out;
}

bool has(const std::vector<std::string>& list, const std::string& id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

}  // namespace

Mixed::Mixed(std::uint64_t seed, delayqueue::redis::Connection& connection, std::size_t search_lists)
    : queue_(test::fresh_queue()),
      admin_(test::server().url(), queue_, {partition_for(seed)}),
      random_(seed),
      connection_(connection),
      moves_(prepared_keys(queue_, partition_for(seed)), {true, search_lists}),
      go_(moves_.keys()) {
  read_state();
}

void Mixed::step() {
  struct Kind {
    std::size_t weight;
    void (Mixed::*move)();
  };
  static constexpr Kind kKinds[] = {
      {10, &Mixed::we_send},
      {12, &Mixed::we_take},
      {14, &Mixed::we_settle},
      {8, &Mixed::we_reclaim},
      {8, &Mixed::we_collect_garbage},
      {14, &Mixed::we_manage},
      {4, &Mixed::go_send},
      {12, &Mixed::go_take},
      {12, &Mixed::go_settle},
      {6, &Mixed::go_reclaim},
      {6, &Mixed::go_collects_garbage},
      {2, &Mixed::go_intercepts},
      {4, &Mixed::check_repairs},
      {10, &Mixed::pending2ready},
      {6, &Mixed::pending2unack},
      {14, &Mixed::rewind},
  };
  (this->*random_.weighted(kKinds).move)();
  read_state();
}

template <class Add>
auto Mixed::ask(Add add) {
  Pipeline pipeline(connection_);
  const auto answer = add(pipeline);
  pipeline.run();
  return answer.get();
}

void Mixed::read_state() {
  Pipeline pipeline(connection_);
  add_dump(pipeline, moves_.keys().base);
  pipeline.run();
  dump_ = read_dump(pipeline.reply(0));
  for (const auto& [id, message] : messages_) {
    if (message.alive) check(id, message);
  }
}

void Mixed::check(const std::string& id, const Message& message) const {
  const auto body = dump_.bodies.find(id);
  const bool dead = dump_.dead.count(id) > 0;
  const bool listed = has(dump_.ready, id) || has(dump_.retry, id);
  const bool placed = dump_.pending.count(id) + dump_.unack.count(id) > 0;
  if (body == dump_.bodies.end()) throw Mismatch(id + ": lost, its body is gone");
  if (body->second.payload != message.payload) throw Mismatch(id + ": has another payload");
  if (!dead && !listed && !placed) throw Mismatch(id + ": lost, it is nowhere");
  if (!dead && dump_.count.count(id) == 0) throw Mismatch(id + ": lost, it has no retries recorded");
}

void Mixed::over(const std::string& id, const std::string& how) {
  messages_[id].alive = false;
  messages_[id].end = how;
}

std::string Mixed::any_id() { return ids_[random_.below(ids_.size())]; }

void Mixed::we_send() {
  const bool again = ids_.size() > 8 && random_.one_in(2);
  if (!again) ids_.push_back(random_.uuid());
  const std::string id = again ? any_id() : ids_.back();
  const std::string payload = id.substr(0, 8) + " of move " + std::to_string(log_.size());
  delayqueue::store::SendTerms terms;
  terms.due.delay = milliseconds(random_.of({0, 10, 20, 60}) * 1000);
  terms.retries = static_cast<int>(random_.below(4));
  const std::string headers = headers_of(payload);
  const std::string answer = ask([&](Pipeline& pipeline) {
    return moves_.send(pipeline, {{id, payload, headers}}, terms);
  });
  log_.push_back("send " + id.substr(0, 8) + " in " + std::to_string(terms.due.delay->count()) + " -> " + answer);
  if (answer == "1" && messages_[id].alive) throw Mismatch(id + ": made twice");
  if (answer == "1") messages_[id] = {true, "", payload};
  read_state();
  const bool placed = dump_.pending.count(id) + dump_.unack.count(id) + dump_.dead.count(id) > 0;
  if (answer == "0" && !placed && dump_.count.count(id) == 0) throw Mismatch(id + ": 'existed', and it does not");
  const bool will_be = dump_.count.count(id) + dump_.dead.count(id) > 0;
  if (answer == "0" && !will_be) throw Mismatch(id + ": 'existed', and nothing will deliver it");
}

void Mixed::go_send() {
  const std::string id = random_.uuid();
  ids_.push_back(id);
  go_.send(id, "of Go", random_.of({0, 10, 60}), static_cast<int>(random_.below(4)));
  messages_[id] = {true, "", "of Go"};
  log_.push_back("Go: send " + id.substr(0, 8));
}

void Mixed::pending2ready() {
  const bool go = random_.one_in(2);
  go ? go_.pending2ready() : void(ask([&](Pipeline& pipeline) {
    return moves_.pending2ready(pipeline, false, {"me", std::chrono::seconds(1)});
  }));
  log_.push_back(go ? "Go: pending2ready" : "pending2ready");
}

void Mixed::pending2unack() {
  const std::size_t total = 1 + random_.below(5);
  const std::size_t moved = random_.one_in(2) ? total : delayqueue::store::kBatch;
  const milliseconds lease(random_.of({10, 60}) * 1000);
  const auto both = ask([&](Pipeline& pipeline) {
    return moves_.pending2unack(pipeline, false, {"me", std::chrono::seconds(1)}, {moved, total}, lease);
  });
  log_.push_back("pending2unack");
  if (both.taken) hold(*both.taken);
}

void Mixed::take(const delayqueue::store::TakeLimits& limits) {
  hold(ask([&](Pipeline& pipeline) {
    return moves_.ready2unack(pipeline, limits, milliseconds(random_.of({10, 60}) * 1000));
  }));
}

void Mixed::hold(const delayqueue::store::Taken& taken) {
  Ids ids;
  for (const auto& [id, attempt] : taken.messages) {
    ids.push_back(id);
    holds_.push_back({id, taken.lease_us});
  }
  log_.push_back("take ->" + joined(ids));
}

void Mixed::we_take() {
  const std::size_t total = 1 + random_.below(5);
  take({total, 1, total, random_.below(3), random_.below(3)});
}

void Mixed::go_take() {
  const bool from_retry = random_.one_in(3);
  const auto id = go_.take(from_retry, random_.of({10, 60}));
  if (id) go_holds_.push_back(*id);
  log_.push_back((from_retry ? "Go: take from retry -> " : "Go: take -> ") + id.value_or("nothing").substr(0, 8));
}

void Mixed::remove(const std::vector<Hold>& holds) {
  const std::string answer = ask([&](Pipeline& pipeline) { return moves_.ack(pipeline, receipts(holds)); });
  for (std::size_t i = 0; i < holds.size(); ++i) {
    log_.push_back("ack " + holds[i].id.substr(0, 8) + " -> " + answer[i]);
    if (answer[i] == 'S') over(holds[i].id, "done");
  }
}

void Mixed::we_settle() {
  if (holds_.empty()) return;
  const Hold hold = holds_[random_.below(holds_.size())];
  const Receipt receipt{hold.id, hold.end};
  const auto delay = milliseconds(random_.of({0, 10, 60}) * 1000);
  switch (random_.below(6)) {
    case 0:
      ask([&](Pipeline& pipeline) { return moves_.nack(pipeline, {{receipt, delay, "no luck"}}); });
      return log_.push_back("nack " + hold.id.substr(0, 8));
    case 1:
      ask([&](Pipeline& pipeline) { return moves_.nack(pipeline, {{receipt, std::nullopt, "no use"}}); });
      return log_.push_back("reject " + hold.id.substr(0, 8));
    case 2:
      ask([&](Pipeline& pipeline) { return moves_.release(pipeline, {receipt}, delay); });
      return log_.push_back("release " + hold.id.substr(0, 8));
    case 3: {
      const std::int64_t end = (dump_.now_us + 30'000'000) / 1000 * 1000 + 1;
      const auto renewed = ask([&](Pipeline& pipeline) { return moves_.renew(pipeline, {receipt}, end); });
      if (renewed.outcomes == "N") holds_.push_back({hold.id, end});
      return log_.push_back("renew " + hold.id.substr(0, 8) + " -> " + renewed.outcomes);
    }
    default:
      remove({hold});
  }
}

// Settles a message that Go once took, in time or late.
void Mixed::go_settle() {
  if (go_holds_.empty()) return;
  const std::size_t i = random_.below(go_holds_.size());
  const std::string id = go_holds_[i];
  go_holds_.erase(go_holds_.begin() + static_cast<std::ptrdiff_t>(i));
  if (!go_.body(id)) return log_.push_back("Go: no body of " + id.substr(0, 8));
  const bool done = random_.one_in(2);
  if (done) {
    go_.ack(id);
    over(id, "done by Go");
  } else {
    go_.nack(id, random_.of({0, 10}));
    if (random_.one_in(4)) go_holds_.push_back(id);  // once more, later
  }
  log_.push_back((done ? "Go: ack " : "Go: nack ") + id.substr(0, 8));
}

void Mixed::we_reclaim() {
  const auto reclaimed = ask([&](Pipeline& pipeline) { return moves_.unack2retry(pipeline); });
  log_.push_back("unack2retry -> retry" + joined(reclaimed.retried) + ", dead letters" +
                 joined(reclaimed.dead_lettered));
  if (reclaimed.dead_lettered.empty()) return;
  ask([&](Pipeline& pipeline) { return moves_.persist(pipeline, reclaimed.dead_lettered); });
}

void Mixed::go_reclaim() {
  const auto [retried, dead_lettered] = go_.unack2retry();
  for (const std::string& id : dead_lettered) over(id, "given up by Go");
  log_.push_back("Go: unack2retry -> retry" + joined(retried) + ", dead letters" + joined(dead_lettered));
}

void Mixed::gc(const Ids& ids) {
  if (ids.empty()) return;
  const std::size_t deleted = ask([&](Pipeline& pipeline) { return moves_.gc(pipeline, ids); });
  log_.push_back("gc" + joined(ids) + " -> " + std::to_string(deleted));
}

void Mixed::delete_orphaned_metadata() {
  Ids ids = names(dump_.attempts);
  for (const auto* hash : {&dump_.reason, &dump_.headers}) {
    const Ids more = names(*hash);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  if (!ids.empty()) ask([&](Pipeline& pipeline) { return moves_.delete_orphaned_metadata(pipeline, ids); });
}

void Mixed::we_collect_garbage() {
  gc({dump_.garbage.begin(), dump_.garbage.end()});
  if (random_.one_in(2)) delete_orphaned_metadata();
}

void Mixed::go_collects_garbage() {
  if (go_garbage_.empty()) {
    go_garbage_ = go_.read_garbage();
    return log_.push_back("Go: garbage is" + joined(go_garbage_));
  }
  for (const std::string& id : go_garbage_) over(id, "deleted by Go");
  go_.delete_garbage(go_garbage_);
  log_.push_back("Go: deletes" + joined(go_garbage_));
  go_garbage_.clear();
}

void Mixed::go_intercepts() {
  if (ids_.empty()) return;
  const std::string id = any_id();
  go_.intercept(id);
  // Go deletes the body of an id that waits. The id may be one that a dead letter has left in ready.
  const bool waits =
      dump_.pending.count(id) > 0 || std::find(dump_.ready.begin(), dump_.ready.end(), id) != dump_.ready.end();
  if (waits || dump_.dead.count(id) == 0) over(id, "intercepted by Go");
  log_.push_back("Go: intercepts " + id.substr(0, 8));
}

void Mixed::cancel(const std::string& id) {
  const std::string was = ask([&](Pipeline& pipeline) { return moves_.cancel(pipeline, id); });
  const bool placed = dump_.pending.count(id) + dump_.unack.count(id) + dump_.dead.count(id) > 0;
  if (was != "unknown" && !placed && dump_.count.count(id) == 0) throw Mismatch(id + ": cancelled, and it was nowhere");
  if (was != "unknown") over(id, "cancelled");
  log_.push_back("cancel " + id.substr(0, 8) + " -> " + was);
}

void Mixed::purge(bool list, bool first) {
  const auto& keys = moves_.keys();
  const std::string& state = list ? (first ? keys.ready : keys.retry) : first ? keys.pending : keys.dead;
  const auto purged = ask([&](Pipeline& pipeline) {
    return list ? moves_.purge_list(pipeline, state, 1) : moves_.purge_zset(pipeline, state, 1, std::nullopt, 0);
  });
  for (const std::string& id : purged.garbage) over(id, "purged");
  log_.push_back("purge " + state + " ->" + joined(purged.garbage));
}

void Mixed::we_manage() {
  if (ids_.empty()) return;
  const std::string id = any_id();
  const auto delay = milliseconds(random_.of({0, 10, 60}) * 1000);
  switch (random_.below(6)) {
    case 0:
      return cancel(id);
    case 1: {
      const std::string answer = ask([&](Pipeline& pipeline) { return moves_.reschedule(pipeline, id, {delay, 0}); });
      log_.push_back("reschedule " + id.substr(0, 8) + " in " + std::to_string(delay.count()) + " -> " + answer);
      return check_promise(id, answer == "moved");
    }
    case 2: {
      if (dump_.dead.empty()) return;
      const std::string dead = names(dump_.dead)[random_.below(dump_.dead.size())];
      const std::string answer = ask([&](Pipeline& pipeline) { return moves_.redrive(pipeline, {dead}, 1); });
      if (answer == "S") messages_[dead].alive = true;
      return log_.push_back("redrive " + dead.substr(0, 8) + " -> " + answer);
    }
    case 3:
      if (random_.one_in(2)) purge(random_.one_in(2), random_.one_in(2));
      return;
    default: {
      const std::string answer =
          ask([&](Pipeline& pipeline) { return moves_.release_waiting(pipeline, {id}, delay.count() > 0); });
      log_.push_back("release " + id.substr(0, 8) + " -> " + answer);
      return check_promise(id, answer == "S");
    }
  }
}

// A message without a retry count is never delivered.
void Mixed::check_promise(const std::string& id, bool will_be_delivered) {
  read_state();
  if (will_be_delivered && dump_.count.count(id) == 0) throw Mismatch(id + ": moved, and nothing will deliver it");
}

// A repair loses no message, even after Go workers damaged the queue. A living message may be found only if Go removed
// its retry count or its body.
void Mixed::check_repairs() {
  delayqueue::CheckOptions options;
  options.repair = true;
  options.recheck_after = milliseconds(0);
  options.sample = 1000;
  const auto report = admin_.check(options);
  test::redis().cmd({"DEL", moves_.keys().wake});
  for (const auto& finding : report.findings) {
    const std::string what = finding.id + ": " + to_string(finding.problem) + ", " + finding.description;
    log_.push_back("check " + what);
    if (!finding.repaired) throw Mismatch(what + ": found, and not repaired");
    // A Go worker delivers every id that it finds in a list, even if its message is pending. Such a message can become
    // a dead letter and still be pending.
    const bool dead_lettered =
        finding.problem == delayqueue::Problem::two_states && finding.description.find("dead") != what.npos;
    if (messages_[finding.id].alive && !dead_lettered) throw Mismatch(what + ": found, and it was healthy");
  }
}

void Mixed::rewind() {
  const milliseconds by(random_.of({10, 10, 20, 60}) * 1000);
  test::rewind(moves_.keys().base, by);
  for (Hold& hold : holds_) hold.end -= by.count() * 1000;
  log_.push_back("rewind " + std::to_string(by.count()));
}

// Go leaves the body behind when it intercepts a message in retry. An id without a retry count in ready is moved to
// garbage.
void Mixed::place_orphans() {
  for (const auto& [id, body] : dump_.bodies) {
    if (messages_[id].end == "intercepted by Go") test::redis().cmd({"LPUSH", moves_.keys().ready, id});
  }
}

void Mixed::finish_round() {
  test::rewind(moves_.keys().base, milliseconds(3'600'000));
  holds_.clear();
  we_reclaim();
  ask([&](Pipeline& pipeline) { return moves_.pending2ready(pipeline, false, {"me", std::chrono::seconds(1)}); });
  take({200, 1, 200});
  if (!holds_.empty()) remove(holds_);
  read_state();
  gc({dump_.garbage.begin(), dump_.garbage.end()});
  delete_orphaned_metadata();
  read_state();
}

void Mixed::drain() {
  for (const std::string& id : names(dump_.dead)) {
    ask([&](Pipeline& pipeline) { return moves_.redrive(pipeline, {id}, 0); });
  }
  for (int round = 0; round < 20 && !dump_.only_stats(); ++round) {
    if (round == 5) place_orphans();
    finish_round();
    if (round > 5) purge(false, false);
  }
  if (!dump_.only_stats()) throw Mismatch("left over at the end: " + dump_.left_over());
  for (const auto& [id, message] : messages_) {
    if (message.alive) throw Mismatch(id + ": lost, neither done nor cancelled, purged or given up");
  }
  test::redis().cmd({"DEL", moves_.keys().stats});
}

}  // namespace test::model
