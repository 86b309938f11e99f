#include "support/test.h"

#include "store/headers.h"
#include "store/layout.h"
#include "store/pause.h"
#include "store/record.h"
#include "store/schedules.h"
#include "support/all_moves.h"
#include "support/regex.h"
#include "support/saved_queue.h"
#include "support/seeds.h"

#include <random>

// Schedules in the scripts: what is stored, and what is not written.
namespace delayqueue::store {
namespace {

using test::At;
using test::Cells;
using test::SavedQueue;
using test::Scene;
using Mode = ScheduleMode;

constexpr std::int64_t kMinuteMs = 60'000;

// The defaults are those of most tests: no overlap check, no TTL.
struct OccurrencePlan {
  bool takes_back = false;
  bool skips = false;
  bool is_ahead = false;
  bool stays = false;
  milliseconds ttl{0};
  int retries = 3;
  std::string payload = "p";
};

class ScheduledQueue {
 public:
  explicit ScheduledQueue(const std::string& socket = {}) : scene(quiet(socket)) {}

  static Scene::Setup quiet(const std::string& socket) {
    Scene::Setup setup = Scene::Setup::without_lists();
    setup.recorded = false;
    setup.breakable = true;
    if (!socket.empty()) setup.socket = socket;
    return setup;
  }

  // A slot: so many minutes from the start of the scene.
  std::int64_t slot(std::int64_t minutes) const {
    return scene.start_ms() / kMinuteMs * kMinuteMs + minutes * kMinuteMs;
  }
  std::string id(std::int64_t minutes, const std::string& name = "tick") const {
    return occurrence_id(scene.keys(), name, slot(minutes));
  }

  StoredSchedule read(const std::string& name = "tick") {
    return scene.run(&Moves::read_schedules, {name}).schedules[0];
  }
  static std::int64_t generation_of(const StoredSchedule& one) { return parsed_schedule(one.text).generation; }
  std::string state(const std::string& name = "tick") { return std::string(parsed_schedule(read(name).text).state); }
  // The slot that is stored, in minutes; -1000: none.
  std::int64_t next(const std::string& name = "tick") {
    const auto at = read(name).slot_ms;
    return at ? (*at - slot(0)) / kMinuteMs : -1000;
  }

  // Changes the schedule as it is now.
  char change(Mode mode, const std::string& definition, const std::vector<std::int64_t>& minutes,
              const OccurrencePlan& plan = {}, const std::string& name = "tick") {
    return change_from(read(name), mode, definition, minutes, plan, name).outcome;
  }
  ScheduleChanged change_from(const StoredSchedule& was, Mode mode, const std::string& definition,
                              const std::vector<std::int64_t>& minutes, const OccurrencePlan& plan = {},
                              const std::string& name = "tick") {
    return scene.run(&Moves::schedule, ScheduleChange{name, mode, generation_of(was), was.slot_ms, definition,
                                                      occurrences(minutes, plan)});
  }

  // Advances it to these slots, the last of which is the next one.
  Advanced advance(const std::vector<std::int64_t>& minutes, const OccurrencePlan& plan = {},
                   const std::string& name = "tick") {
    return advance_from(read(name), minutes, plan, name);
  }
  Advanced advance_from(const StoredSchedule& was, const std::vector<std::int64_t>& minutes,
                        const OccurrencePlan& plan = {}, const std::string& name = "tick") {
    Advance advance;
    advance.name = name;
    advance.generation = generation_of(was);
    advance.slot_ms = was.slot_ms;
    if (!minutes.empty()) advance.last_ms = slot(minutes.back());
    advance.takes_back = plan.takes_back;
    advance.is_ahead = plan.is_ahead;
    advance.stays = plan.stays;
    advance.occurrences = occurrences(minutes, plan);
    return scene.run(&Moves::advance, advance);
  }

  // An active schedule whose newest occurrence, which is stored, has this slot.
  void put(std::int64_t minutes, const OccurrencePlan& plan = {}, const std::string& name = "tick") {
    REQUIRE(change(Mode::set, "d", {minutes}, plan, name) == 'w');
  }

  // A stored message counts as alive if it has all that makes one.
  bool is_stored(const std::string& message) {
    return scene.cmd({"EXISTS", scene.keys().bodies + message}) == 1 &&
           scene.cmd({"HEXISTS", scene.keys().count, message}) == 1;
  }
  bool is_stored(std::int64_t minutes) { return is_stored(id(minutes)); }
  bool is_pending(std::int64_t minutes) { return !scene.cmd({"ZSCORE", scene.keys().pending, id(minutes)}).nil(); }
  std::string open() { return scene.cmd({"HGET", scene.keys().open, "tick"}).text; }
  std::string open_text(std::int64_t own, std::int64_t newest) {
    return std::to_string(slot(own)) + " " + id(own) + " " + std::to_string(slot(newest));
  }
  Begun begin(std::int64_t minutes) { return scene.run(&Moves::begin, "tick", slot(minutes), id(minutes)); }
  void promote() { scene.run(&Moves::pending2ready, false, {"me", 1s}); }
  Taken take(std::size_t most = 200) {
    promote();
    return scene.run(&Moves::ready2unack, {most, 25, most}, 1min);
  }
  // How much the total has grown since the first call of this function.
  std::int64_t total(const std::string& name) {
    const std::int64_t now = std::atoll(scene.cmd({"HGET", scene.keys().stats, name}).text.c_str());
    return now - totals_.emplace(name, now).first->second;
  }

  Scene scene;

 private:
  Occurrences occurrences(const std::vector<std::int64_t>& minutes, const OccurrencePlan& plan) {
    Occurrences all;
    for (const std::int64_t one : minutes) all.slots_ms.push_back(slot(one));
    payload_ = plan.payload;
    all.payload = payload_;
    all.headers = &headers_;
    all.retries = plan.retries;
    all.ttl = plan.ttl;
    all.skips = plan.skips;
    return all;
  }

  std::map<std::string, std::int64_t> totals_;
  std::string payload_;
  const Headers headers_{{"k", "v"}};
};

OccurrencePlan taking_back(OccurrencePlan plan = {}) {
  plan.takes_back = true;
  return plan;
}
OccurrencePlan skipping(bool takes_back = false) {
  OccurrencePlan plan;
  plan.skips = true;
  plan.takes_back = takes_back;
  return plan;
}

TEST_CASE("schedules: an occurrence is a message of partition 0, whose id and headers name its schedule and slot") {
  const Keys keys = make_keys("orders", {}), tagged = make_keys("orders", {"dp", true, false});
  // As uuid.uuid5() of Python's library.
  CHECK(occurrence_id(keys, "nightly", 1'764'374'400'000) == "b78d33dc-7597-5f78-9318-c5e436789e0d");
  CHECK(occurrence_id(tagged, "nightly", 1'764'374'400'000) == occurrence_id(keys, "nightly", 1'764'374'400'000));
  CHECK(occurrence_id(keys, "nightly", 1'764'374'400'001) != occurrence_id(keys, "nightly", 1'764'374'400'000));
  CHECK_FALSE(partition_of(occurrence_id(keys, "x", 1), name_crc("orders", "dp")));
  CHECK(may_be_occurrence(occurrence_id(keys, "x", 1)));
  CHECK_FALSE(may_be_occurrence(new_ids(1)[0]));

  ScheduledQueue queue;
  queue.put(5, skipping());
  const auto headers = unpacked(queue.scene.cmd({"HGET", queue.scene.keys().headers, queue.id(5)}).text);
  REQUIRE(headers);
  CHECK(*headers->find("k") == "v");
  CHECK(*headers->find(kScheduleHeader) == "tick");
  CHECK(*headers->find(kSlotHeader) == std::to_string(queue.slot(5)));
  CHECK(*headers->find(kOverlapHeader) == "skip");
  queue.put(5, {}, "other");
  const auto others = unpacked(queue.scene.cmd({"HGET", queue.scene.keys().headers, queue.id(5, "other")}).text);
  REQUIRE(others);
  CHECK(others->find(kOverlapHeader) == nullptr);
}

TEST_CASE("schedules R1: a queue has at most 10,000; one that exists can still be changed") {
  ScheduledQueue queue;
  std::vector<std::string> fill = {"HSET", queue.scene.keys().schedules};
  for (std::size_t i = 0; i < kMostSchedules; ++i) fill.insert(fill.end(), {std::to_string(i), "1 paused\nd"});
  queue.scene.cmd(fill);
  const auto before = queue.scene.state();
  CHECK(queue.change(Mode::set, "d", {5}) == 'f');
  CHECK(queue.scene.state() == before);
  CHECK(queue.change(Mode::resume, "", {5}, {}, "77") == 'w');
  CHECK(queue.change(Mode::remove, "", {}, {}, "78") == 'w');
  CHECK(queue.change(Mode::set, "d", {5}) == 'w');
}

TEST_CASE("schedules R2: an active schedule has one slot, which does not depend on the occurrence") {
  for (const std::string what : {"waits", "cancelled", "purged", "dead", "expired", "handled", "body gone", "moved"}) {
    CAPTURE(what);
    ScheduledQueue queue;
    Scene& scene = queue.scene;
    queue.put(-1);
    CHECK(queue.state() == "active");
    CHECK(queue.next() == -1);
    CHECK(queue.is_stored(-1));
    const std::string id = queue.id(-1);
    if (what == "cancelled") CHECK(scene.run(&Moves::cancel, id) == "pending");
    if (what == "purged") scene.run(&Moves::purge_ids, scene.keys().pending, {id});
    if (what == "moved") CHECK(scene.run(&Moves::reschedule, id, {60min, 0}) == "moved");
    if (what == "body gone") scene.cmd({"DEL", scene.keys().bodies + id});
    if (what == "dead" || what == "expired" || what == "handled") {
      const Taken taken = queue.take();
      REQUIRE(taken.messages.size() == 1);
      CHECK(taken.messages[0].first == id);
      const Receipt receipt{id, taken.lease_us};
      if (what == "dead") scene.run(&Moves::nack, {{receipt, std::nullopt, "no"}});
      if (what == "expired") scene.run(&Moves::expire, {receipt});
      if (what == "handled") scene.run(&Moves::ack, {receipt});
    }
    const Advanced advanced = queue.advance({4});
    CHECK(advanced.outcome == 'a');
    CHECK(advanced.stored == 1);
    CHECK(queue.next() == 4);
    CHECK(queue.is_stored(4));
    CHECK(queue.is_pending(4));
    CHECK(scene.cmd({"ZCARD", scene.keys().slots}) == 1);
  }
}

TEST_CASE("schedules R3: advance writes only if generation, slot and state are what the caller has read") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-1);
  const StoredSchedule was = queue.read();
  const auto refused = [&](const StoredSchedule& read, char outcome) {
    const auto before = scene.state();
    const Advanced advanced = queue.advance_from(read, {4});
    CHECK(advanced.outcome == outcome);
    CHECK(scene.state() == before);
  };
  StoredSchedule other = was;
  other.text = std::to_string(ScheduledQueue::generation_of(was) + 1) + " active\nd";
  refused(other, 'c');
  other = was;
  *other.slot_ms += 1;
  refused(other, 'm');
  other.slot_ms.reset();
  refused(other, 'm');
  for (const char* state : {"paused", "ended", "other"}) {
    scene.cmd({"HSET", scene.keys().schedules, "tick",
               std::to_string(ScheduledQueue::generation_of(was)) + " " + state + "\nd"});
    refused(was, 'c');
  }
  scene.cmd({"HSET", scene.keys().schedules, "tick", was.text});
  CHECK(queue.advance_from(was, {4}).outcome == 'a');
  refused(was, 'm');  // the answer was lost, and the call is repeated
  refused(queue.read(), 'e');
  scene.cmd({"HDEL", scene.keys().schedules, "tick"});
  refused(was, 'c');
}

TEST_CASE("schedules R3: slots are compared as whole milliseconds, not as the text of a score") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-1);
  const std::string seconds = std::to_string(queue.slot(-1) / 1000 - 1);
  for (const std::string& score : {seconds + ".0999999", seconds + ".1", seconds + ".1000004"}) {
    scene.cmd({"ZADD", scene.keys().slots, score, "tick"});
    const StoredSchedule read = queue.read();
    CHECK(read.slot_ms == queue.slot(-1) - 900);
    CHECK(queue.change(Mode::set, "another" + score, {5}) == 'w');
    scene.cmd({"ZADD", scene.keys().slots, score, "tick"});
    CHECK(queue.advance({5}).outcome == 'a');
  }
}

TEST_CASE("schedules R5: out of memory advance is refused whole, and the next call goes on") {
  const PrivateServer server;
  ScheduledQueue queue(server.socket());
  Scene& scene = queue.scene;
  queue.put(-10);
  queue.put(10, {}, "later");
  const auto before = scene.state();
  scene.cmd({"CONFIG", "SET", "maxmemory", "1"});
  CHECK(test::refusal([&] { queue.advance({-5, 4}, taking_back()); }).find("OOM") != std::string::npos);
  CHECK(test::refusal([&] { queue.change(Mode::set, "new", {4}); }).find("OOM") != std::string::npos);
  CHECK(test::refusal([&] { queue.change(Mode::set, "new", {}, {}, "later"); }).find("OOM") != std::string::npos);
  CHECK(scene.state() == before);
  CHECK(queue.begin(-10) == Begun::handle);
  scene.cmd({"HDEL", scene.keys().open, "tick"});
  scene.cmd({"CONFIG", "SET", "maxmemory", "0"});
  CHECK(scene.state() == before);
  CHECK(queue.advance({-5, 4}, taking_back()).stored == 2);
}

TEST_CASE("schedules R6: made-up slots are pending with their slots as due times, so they are taken in their order") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-10);
  queue.promote();  // the first one is ready already
  CHECK(queue.advance({-9, -8, -7, -6, 4}).stored == 5);
  for (const std::int64_t at : {-9, -8, -7, -6, 4}) {
    CHECK(queue.is_pending(at));
    CHECK(std::llround(std::strtod(scene.cmd({"ZSCORE", scene.keys().pending, queue.id(at)}).text.c_str(), nullptr) *
                       1000) == queue.slot(at));
  }
  const Taken taken = queue.take();
  REQUIRE(taken.messages.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(taken.messages[i].first == queue.id(-10 + static_cast<std::int64_t>(i)));
}

TEST_CASE("schedules R7: an id that exists is left alone; what is left of a finished one is removed, as by send") {
  // As restored or imported, in each state.
  for (const std::string at : {"pending", "ready", "held", "cancelled", "dead", "backing off", "retry"}) {
    CAPTURE(at);
    ScheduledQueue queue;
    Scene& scene = queue.scene;
    queue.put(4);
    const std::string id = queue.id(4);
    if (at != "pending") scene.cmd({"ZADD", scene.keys().pending, "1", id});
    std::int64_t end = 0;
    if (at == "ready") queue.promote();
    if (at != "pending" && at != "ready") end = queue.take().lease_us;
    if (at == "cancelled") CHECK(scene.run(&Moves::cancel, id) == "unack");
    if (at == "dead") scene.run(&Moves::nack, {{{id, end}, std::nullopt, "no"}});
    if (at == "backing off") scene.run(&Moves::nack, {{{id, end}, 1h, "no"}});
    if (at == "retry") {
      scene.cmd({"ZADD", scene.keys().unack, "1.0000005", id});
      scene.run(&Moves::unack2retry, false);
    }
    scene.cmd({"ZADD", scene.keys().slots, std::to_string(queue.slot(-1) / 1000), "tick"});
    auto before = scene.state();
    CHECK(queue.advance({4}).outcome == 'a');
    CHECK(queue.next() == 4);
    auto after = scene.state();
    before.erase("schedules:next");
    after.erase("schedules:next");
    CHECK(before == after);
  }
  // Finished, in garbage; or with parts of a call that was refused midway.
  for (const std::string left : {"garbage", "garbage and count", "count", "body", "metadata", "dead and no body"}) {
    CAPTURE(left);
    ScheduledQueue queue;
    Scene& scene = queue.scene;
    queue.put(-1);
    const std::string id = queue.id(4);
    const Keys& keys = scene.keys();
    if (left.substr(0, 7) == "garbage") scene.cmd({"SADD", keys.garbage, id});
    if (left.find("garbage") == 0 || left == "body") scene.cmd({"SET", keys.bodies + id, "old"});
    if (left.find("count") != std::string::npos) scene.cmd({"HSET", keys.count, id, "77"});
    if (left == "dead and no body") scene.cmd({"ZADD", keys.dead, "1", id});
    scene.cmd({"HSET", keys.attempts, id, "5 123"});
    scene.cmd({"HSET", keys.reason, id, "old"});
    CHECK(queue.advance({4}).stored == 1);
    CHECK(scene.cmd({"GET", keys.bodies + id}) == "p");
    CHECK(scene.cmd({"HGET", keys.count, id}) == "3");
    CHECK(scene.cmd({"SISMEMBER", keys.garbage, id}) == 0);
    CHECK(scene.cmd({"ZSCORE", keys.dead, id}).nil());
    CHECK(scene.cmd({"HGET", keys.attempts, id}).nil());
    CHECK(scene.cmd({"HGET", keys.reason, id}).nil());
  }
}

TEST_CASE("schedules R7: while retry has entries a new occurrence counts as not delivered, and can be taken back") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  scene.cmd({"LPUSH", scene.keys().retry, queue.id(-1)});  // of an earlier life of the id
  queue.put(-1);
  CHECK(scene.cmd({"HGET", scene.keys().attempts, queue.id(-1)}) == "0");
  CHECK(queue.advance({4}, taking_back()).taken_back);
}

TEST_CASE("schedules: the payload, the retries and the TTL, which counts from the slot, are those of the definition") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  OccurrencePlan plan;
  plan.ttl = 60min;
  plan.retries = 7;
  plan.payload = std::string("\0\xff\n", 3) + std::string(65'000, 'x');
  static_cast<void>(queue.total("sent"));
  queue.put(-1, plan);
  CHECK(queue.advance({-1, 30}, plan).stored == 1);  // the first one exists
  for (const std::int64_t at : {-1, 30}) {
    CHECK(scene.cmd({"GET", scene.keys().bodies + queue.id(at)}) == plan.payload);
    CHECK(scene.cmd({"HGET", scene.keys().count, queue.id(at)}) == "7");
    const std::int64_t life = scene.cmd({"PTTL", scene.keys().bodies + queue.id(at)}).integer;
    CHECK(life > (at + 58) * kMinuteMs);
    CHECK(life <= (at + 61) * kMinuteMs);
  }
  CHECK(queue.total("sent") == 2);
  // The marker, by which an idle consumer finds the message that is due next.
  scene.cmd({"DEL", scene.keys().wake});
  ScheduledQueue other;
  other.put(3);
  CHECK(other.scene.cmd({"ZSCORE", other.scene.keys().wake, kMarker}) == std::to_string(other.slot(3) / 1000));
}

TEST_CASE("schedules: a queue that is full, or limits what is in flight, stores the occurrence nevertheless") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  KeyTerms terms;
  terms.length = static_cast<std::uint64_t>(scene.cmd({"HLEN", scene.keys().count}).integer) + 1;
  scene.cmd({"HSET", scene.keys().limits, "running", "1", "parts", "1", "part", "0"});
  CHECK(scene.run(&Moves::send_keyed, {{scene.keep("a"), "x"}}, {{0ms, 0}}, terms).outcomes == "1");
  queue.put(-1);
  CHECK(queue.advance({4}).stored == 1);
  *terms.length += 1;  // they count
  CHECK(scene.run(&Moves::send_keyed, {{scene.keep("b"), "x"}}, {{0ms, 0}}, terms).outcomes == "F");
  queue.promote();
  CHECK(scene.run(&Moves::take_paced, {200, 25, 200}, 1min, "me").messages.size() == 1);
}

TEST_CASE("schedules R15: what waits is taken back if the caller wants it, else it stays; in flight it always stays") {
  struct Case {
    const char* at;
    bool is_taken_back;
  };
  for (const Case& one : {Case{"pending", true}, Case{"ready", true}, Case{"held", false}, Case{"backing off", false},
                          Case{"released", true}, Case{"retry", false}, Case{"dead", false}, Case{"cancelled", false},
                          Case{"moved to later", false}, Case{"moved to earlier", false}}) {
    for (const bool wanted : {true, false}) {
      CAPTURE(one.at);
      CAPTURE(wanted);
      ScheduledQueue queue;
      Scene& scene = queue.scene;
      queue.put(-10);
      const std::string at = one.at, id = queue.id(-10);
      std::int64_t end = 0;
      if (at == "ready") queue.promote();
      if (at == "held" || at == "backing off" || at == "released" || at == "retry" || at == "dead") {
        end = queue.take().lease_us;
      }
      if (at == "backing off") scene.run(&Moves::nack, {{{id, end}, 1h, "no"}});
      if (at == "dead") scene.run(&Moves::nack, {{{id, end}, std::nullopt, "no"}});
      if (at == "released") scene.run(&Moves::release, {{id, end}}, 0ms);
      if (at == "cancelled") static_cast<void>(scene.run(&Moves::cancel, id));
      if (at == "moved to later") static_cast<void>(scene.run(&Moves::reschedule, id, {60min, 0}));
      if (at == "moved to earlier") scene.cmd({"ZADD", scene.keys().pending, "1", id});
      if (at == "retry") {
        scene.cmd({"ZADD", scene.keys().unack, "1.0000005", id});
        scene.run(&Moves::unack2retry, false);
      }
      const bool was_stored = queue.is_stored(-10);
      static_cast<void>(queue.total("skipped"));
      const Advanced advanced = queue.advance({-5, 4}, wanted ? taking_back() : OccurrencePlan());
      CHECK(advanced.outcome == 'a');
      CHECK(advanced.stored == 2);
      CHECK(advanced.taken_back == (one.is_taken_back && wanted));
      CHECK(queue.is_stored(-10) == (was_stored && !advanced.taken_back));
      CHECK(queue.total("skipped") == (advanced.taken_back ? 1 : 0));
      if (advanced.taken_back) {
        for (const std::string& hash : {scene.keys().headers, scene.keys().attempts, scene.keys().reason}) {
          CHECK(scene.cmd({"HEXISTS", hash, id}) == 0);
        }
        for (const auto& [taken, delivery] : queue.take().messages) CHECK(taken != id);  // its hint in ready is nothing
      }
    }
  }
}

TEST_CASE(
    "schedules R12: a schedule without a slot, or one that the clock has left far ahead, is set to the next one") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  OccurrencePlan ahead;
  ahead.is_ahead = true;
  queue.put(4);
  for (const char* score : {"none", "inf", "-inf", "-1", "7258118401"}) {
    CAPTURE(score);
    scene.cmd({"ZADD", scene.keys().slots, score == std::string("none") ? "1" : score, "tick"});
    if (score == std::string("none")) scene.cmd({"ZREM", scene.keys().slots, "tick"});
    CHECK_FALSE(queue.read().slot_ms);
    CHECK(queue.advance({9}).outcome == 'a');
    CHECK(queue.next() == 9);
  }
  // The clock jumped ten days ahead, and back.
  const std::int64_t days = 10 * 24 * 60;
  CHECK(queue.change(Mode::set, "other", {days}) == 'w');
  CHECK(queue.advance({5}).outcome == 'e');
  CHECK(queue.advance({days - 25 * 60}, ahead).outcome == 'e');  // 25 h: as hosts with other zone data may disagree
  CHECK(queue.advance({}, ahead).outcome == 'e');
  CHECK(queue.is_stored(days));
  const Advanced advanced = queue.advance({5}, ahead);
  CHECK(advanced.outcome == 'a');
  CHECK(advanced.taken_back);
  CHECK_FALSE(queue.is_stored(days));
  CHECK(queue.is_stored(5));
  CHECK(queue.next() == 5);
}

TEST_CASE("schedules R18: while the queue is paused no schedule is due, and none is advanced") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-1);
  scene.cmd({"SET", scene.keys().paused, "why"});
  CHECK(scene.run(&Moves::due_schedules, 100, 0).schedules.empty());
  const auto before = scene.state();
  CHECK(queue.advance({4}).outcome == 'p');
  CHECK(scene.state() == before);
  CHECK(queue.change(Mode::set, "other", {5}) == 'w');  // an operator still may
  scene.cmd({"DEL", scene.keys().paused});
  scene.cmd({"ZADD", scene.keys().slots, std::to_string(queue.slot(-1) / 1000), "tick"});
  CHECK(scene.run(&Moves::due_schedules, 100, 0).schedules.size() == 1);
}

TEST_CASE("schedules R19: begin: one at a time; the newest is left out while an earlier one is alive; others wait") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-9, skipping());
  queue.advance({-8, -7, 4}, skipping());
  CHECK(queue.open() == queue.open_text(-9, -7));  // the one that waits is first
  const Taken taken = queue.take();
  REQUIRE(taken.messages.size() == 3);
  CHECK(queue.begin(-9) == Begun::handle);
  CHECK(queue.begin(-9) == Begun::handle);  // a second delivery
  CHECK(queue.begin(-7) == Begun::skip);    // the newest
  CHECK(queue.begin(-8) == Begun::wait);
  CHECK(queue.begin(-10) == Begun::wait);  // as after a redrive
  CHECK(queue.open() == queue.open_text(-9, -7));
  // A dead letter is not alive; a backoff is.
  scene.run(&Moves::nack, {{{queue.id(-9), taken.lease_us}, 1h, "no"}});
  CHECK(queue.begin(-8) == Begun::wait);
  scene.run(&Moves::bury, {queue.id(-9)}, "no", true);
  CHECK(queue.begin(-8) == Begun::handle);
  CHECK(queue.open() == queue.open_text(-8, -7));
  CHECK(queue.begin(-9) == Begun::wait);  // redriven while a newer one runs: neither swallowed nor at the same time
  CHECK(queue.begin(-7) == Begun::skip);
  scene.run(&Moves::ack, {{queue.id(-8), taken.lease_us}});
  CHECK(scene.run(&Moves::redrive, {queue.id(-9)}, 3) == "S");
  CHECK(queue.begin(-9) == Begun::handle);
  CHECK(queue.begin(-7) == Begun::skip);
}

TEST_CASE("schedules R19: begin needs no entry, and notes nothing for a schedule that was removed") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-1, skipping());
  for (const std::string entry : {"", "x", "1 2 3", "99999999999999999999 x 1", "inf x nan", "-1 x 1"}) {
    scene.cmd({"HSET", scene.keys().open, "tick", entry});
    CHECK(queue.begin(-1) == Begun::handle);
    CHECK(queue.open().find(queue.id(-1)) != std::string::npos);
  }
  queue.put(-2, {}, "another");
  const std::string alive = queue.id(-2, "another");
  scene.cmd({"HSET", scene.keys().open, "tick", "1 " + alive + " " + std::string(200, '1')});
  CHECK(queue.begin(-1) == Begun::handle);
  // An entry whose newest slot is before its own one: an earlier occurrence waits for it.
  const std::string later = std::to_string(queue.slot(5));
  scene.cmd({"HSET", scene.keys().open, "tick", later + " " + alive + " 1"});
  CHECK(queue.begin(-1) == Begun::wait);
  CHECK(queue.change(Mode::remove, "", {}) == 'w');
  CHECK(scene.cmd({"EXISTS", scene.keys().open}) == 0);
  CHECK(queue.begin(-1) == Begun::handle);
  CHECK(scene.cmd({"EXISTS", scene.keys().open}) == 0);
}

TEST_CASE("schedules R20: nothing piles up behind a slow one: a due occurrence that waits is taken back") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-9, skipping());
  const Taken taken = queue.take();
  REQUIRE(taken.messages.size() == 1);
  CHECK(queue.begin(-9) == Begun::handle);
  CHECK_FALSE(queue.advance({-8}, skipping()).taken_back);  // it is in flight
  CHECK(queue.open() == queue.open_text(-9, -8));
  CHECK(queue.advance({-7}, skipping()).taken_back);  // -8, while -9 is alive
  CHECK_FALSE(queue.is_stored(-8));
  CHECK(queue.is_stored(-7));
  CHECK(queue.open() == queue.open_text(-9, -7));
  scene.run(&Moves::ack, {{queue.id(-9), taken.lease_us}});
  CHECK_FALSE(queue.advance({4}, skipping()).taken_back);  // -7
  CHECK(queue.open() == queue.open_text(-7, -7));
}

TEST_CASE("schedules R20: if all missed ones are made up for, the one that waits stays also behind an earlier one") {
  ScheduledQueue queue;
  queue.put(-9, skipping());
  const Taken taken = queue.take();
  CHECK(queue.begin(-9) == Begun::handle);
  CHECK(queue.advance({-8}, skipping()).outcome == 'a');
  OccurrencePlan plan = skipping();
  plan.stays = true;
  CHECK_FALSE(queue.advance({-7, -6, 4}, plan).taken_back);
  CHECK(queue.is_stored(-8));
}

TEST_CASE("schedules R20: the open occurrence is the oldest that is alive, also if that was made up") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-9, skipping());
  CHECK(queue.advance({-5, 4}, skipping(true)).taken_back);
  CHECK(queue.open() == queue.open_text(-5, -5));
  CHECK(queue.begin(-5) == Begun::handle);

  ScheduledQueue all;
  all.put(-9, skipping());
  CHECK(all.scene.run(&Moves::cancel, all.id(-9)) == "pending");
  CHECK(all.advance({-8, -7, 4}, skipping()).stored == 3);
  CHECK(all.open() == all.open_text(-8, -7));
  CHECK(queue.scene.cmd({"HEXISTS", scene.keys().open, "tick"}) == 1);

  // Of one that was taken back after it had begun, and was released.
  ScheduledQueue released;
  released.put(-9, skipping());
  const Taken taken = released.take();
  CHECK(released.begin(-9) == Begun::handle);
  CHECK(released.scene.run(&Moves::release, {{released.id(-9), taken.lease_us}}, 0ms) == "S");
  CHECK(released.advance({-5, 4}, skipping(true)).taken_back);
  CHECK(released.open() == released.open_text(-5, -5));

  ScheduledQueue allowed;  // without the option nothing is noted
  allowed.put(-9);
  CHECK(allowed.advance({-5, 4}, taking_back()).outcome == 'a');
  CHECK(allowed.scene.cmd({"EXISTS", allowed.scene.keys().open}) == 0);
}

TEST_CASE("schedules R23: set with the same definition writes nothing, also if it is paused or has ended") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(3);
  for (const std::string state : {"active", "paused", "ended"}) {
    CAPTURE(state);
    if (state == "paused") CHECK(queue.change(Mode::pause, "", {}) == 'w');
    if (state == "ended") {
      CHECK(queue.change(Mode::resume, "", {}) == 'w');
      CHECK(queue.state() == "ended");
    }
    const auto before = scene.state();
    CHECK(queue.change(Mode::set, "d", {5}) == 's');
    CHECK(scene.state() == before);
  }
  CHECK(queue.change(Mode::resume, "", {5}) == 's');
  CHECK(queue.change(Mode::pause, "", {}) == 's');
  CHECK(queue.change(Mode::set, "another", {6}) == 'w');
  CHECK(queue.state() == "active");
  CHECK(queue.next() == 6);
}

TEST_CASE("schedules R23: set with the same definition gives a schedule whose slot was lost a slot") {
  ScheduledQueue queue;
  queue.put(3);
  queue.scene.cmd({"DEL", queue.scene.keys().slots});
  CHECK(queue.change(Mode::set, "d", {5}) == 'w');
  CHECK(queue.next() == 5);
}

TEST_CASE("schedules R24: another definition takes back what is not due, and leaves what is due or was delivered") {
  for (const std::string at : {"pending", "due", "ready early", "moved", "held"}) {
    CAPTURE(at);
    ScheduledQueue queue;
    Scene& scene = queue.scene;
    queue.put(at == "due" ? -1 : 3);
    const std::string id = queue.id(at == "due" ? -1 : 3);
    if (at == "ready early" || at == "held") scene.run(&Moves::release_waiting, {id}, false);
    if (at == "moved") static_cast<void>(scene.run(&Moves::reschedule, id, {20min, 0}));
    if (at == "held") CHECK(queue.take().messages.size() == 1);
    const std::int64_t before = ScheduledQueue::generation_of(queue.read());
    static_cast<void>(queue.total("cancelled"));
    CHECK(queue.change(Mode::set, "another", {5}) == 'w');
    CHECK(queue.is_stored(id) == (at != "pending"));
    CHECK(queue.is_stored(5));
    CHECK(queue.next() == 5);
    CHECK(ScheduledQueue::generation_of(queue.read()) > before);
    CHECK(queue.total("cancelled") == (at == "pending" ? 1 : 0));
  }
}

TEST_CASE("schedules R24: the same slot with another payload is replaced in its place") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  OccurrencePlan plan;
  plan.ttl = 1h;
  CHECK(queue.total("sent") + queue.total("cancelled") == 0);
  queue.put(5, plan);
  const std::string score = scene.cmd({"ZSCORE", scene.keys().pending, queue.id(5)}).text;
  plan.payload = "another";
  plan.retries = 9;
  plan.ttl = 0ms;
  plan.skips = true;
  CHECK(queue.change(Mode::set, "another", {5}, plan) == 'w');
  CHECK(scene.cmd({"GET", scene.keys().bodies + queue.id(5)}) == "another");
  CHECK(scene.cmd({"PTTL", scene.keys().bodies + queue.id(5)}) == -1);
  CHECK(scene.cmd({"HGET", scene.keys().count, queue.id(5)}) == "9");
  CHECK(scene.cmd({"HGET", scene.keys().headers, queue.id(5)}).text.find("skip") != std::string::npos);
  CHECK(scene.cmd({"ZSCORE", scene.keys().pending, queue.id(5)}).text == score);
  CHECK(queue.total("sent") == 1);
  CHECK(queue.total("cancelled") == 0);
  CHECK(queue.take().messages.empty());
}

TEST_CASE("schedules R25: of two changes the later one counts, and is told what is there") {
  ScheduledQueue queue;
  queue.put(3);
  const StoredSchedule was = queue.read();
  CHECK(queue.change(Mode::set, "first", {5}) == 'w');
  const auto before = queue.scene.state();
  ScheduleChanged second = queue.change_from(was, Mode::set, "second", {6});
  CHECK(second.outcome == 'c');
  CHECK(second.text.find("active\nfirst") != std::string::npos);
  CHECK(second.slot_ms == queue.slot(5));
  CHECK(queue.scene.state() == before);
  second = queue.change_from({"tick", second.slot_ms, second.text}, Mode::set, "second", {6});
  CHECK(second.outcome == 'w');
  CHECK(queue.next() == 6);
  // A generation grows, also if the clock was set back.
  queue.scene.cmd({"HSET", queue.scene.keys().schedules, "tick", "9000000000000000 active\nd"});
  CHECK(queue.change(Mode::set, "third", {7}) == 'w');
  CHECK(ScheduledQueue::generation_of(queue.read()) == 9'000'000'000'000'001);
}

TEST_CASE("schedules R26: pause and remove take back what is not due, and leave what is; resume makes up nothing") {
  for (const Mode mode : {Mode::pause, Mode::remove}) {
    for (const bool due : {false, true}) {
      ScheduledQueue queue;
      Scene& scene = queue.scene;
      queue.put(due ? -1 : 3, skipping());
      scene.cmd({"HSET", scene.keys().open, "tick", "1 2 3"});
      CHECK(queue.change(mode, "", {}) == 'w');
      CHECK(queue.is_stored(due ? -1 : 3) == due);
      CHECK(scene.cmd({"EXISTS", scene.keys().slots}) == 0);
      CHECK(queue.state() == (mode == Mode::pause ? "paused" : ""));
      CHECK(scene.cmd({"EXISTS", scene.keys().open}) == (mode == Mode::pause ? 1 : 0));
      CHECK(queue.change(Mode::remove, "", {}, {}, "none") == 'g');
      CHECK(queue.change(Mode::pause, "", {}, {}, "none") == 'g');
      if (mode == Mode::remove) {
        CHECK(queue.change(mode, "", {}) == 'g');
        CHECK(queue.change(Mode::resume, "", {4}) == 'g');
        continue;
      }
      CHECK(queue.change(Mode::set, "another", {4}) == 'w');  // stays paused
      CHECK(queue.state() == "paused");
      CHECK_FALSE(queue.is_stored(4));
      CHECK(queue.change(Mode::resume, "", {6}) == 'w');
      CHECK(queue.state() == "active");
      CHECK(queue.read().text.find("\nanother") != std::string::npos);
      CHECK(queue.next() == 6);
      CHECK(queue.is_stored(6));
    }
  }
}

TEST_CASE("schedules R26: after the last slot a schedule has ended, and is kept") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-1);
  CHECK(queue.advance({}).outcome == 'a');
  CHECK(queue.state() == "ended");
  CHECK(queue.is_stored(-1));
  CHECK(scene.cmd({"EXISTS", scene.keys().slots}) == 0);
  CHECK(queue.change(Mode::set, "its end has passed", {}, {}, "other") == 'w');
  CHECK(queue.state("other") == "ended");
}

TEST_CASE("schedules R27: forget refuses a queue that has schedules, and deletes what is left of removed ones") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  Scene::Setup empty;
  scene.cmd({"FLUSHALL"});
  queue.put(-1);
  CHECK(queue.change(Mode::pause, "", {}) == 'w');
  CHECK(scene.run(&Moves::cancel, queue.id(-1)) == "pending");
  CHECK_FALSE(scene.run(&Moves::forget));
  CHECK(queue.state() == "paused");
  CHECK(queue.change(Mode::remove, "", {}) == 'w');
  scene.cmd({"HSET", scene.keys().open, "tick", "1 2 3"});
  scene.cmd({"ZADD", scene.keys().slots, "1", "tick"});
  CHECK(scene.run(&Moves::forget));
  CHECK(scene.cmd({"EXISTS", scene.keys().open, scene.keys().slots, scene.keys().schedules}) == 0);
}

TEST_CASE(
    "schedules R27: a restored occurrence that the schedule has stored again exists; one that is gone is created") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(5);
  RestoreRecord record;
  record.id = scene.keep("x");
  const std::string id = queue.id(5);
  record.id = id;
  record.payload = "old";
  CHECK(scene.run(&Moves::restore, {record}) == "0");
  CHECK(scene.run(&Moves::cancel, id) == "pending");
  CHECK(scene.run(&Moves::restore, {record}) == "1");
}

TEST_CASE("schedules R11: those that are due are found by offset, so broken ones at the head block none") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  for (int i = 0; i < 150; ++i)
    scene.cmd({"ZADD", scene.keys().slots, std::to_string(i), "broken" + std::to_string(i)});
  scene.cmd({"ZADD", scene.keys().slots, "-inf", std::string(5000, 'n')});
  scene.cmd({"HSET", scene.keys().schedules, std::string(5000, 'n'), "1 active\nd"});
  queue.put(-1);
  queue.put(7, {}, "later");
  ReadSchedules read = scene.run(&Moves::due_schedules, 100, 0);
  CHECK(read.schedules.size() == 100);
  CHECK(read.more);
  CHECK(read.schedules[0].name == std::string(129, 'n'));
  CHECK(read.schedules[0].text.empty());
  CHECK_FALSE(read.schedules[0].slot_ms);
  CHECK(read.schedules[1].name == "broken0");
  REQUIRE(read.next);
  CHECK(std::abs(read.next->count() / 1000 - (queue.slot(7) - read.now_us / 1000)) <= 2);
  read = scene.run(&Moves::due_schedules, 100, 100);
  CHECK(read.schedules.size() == 52);
  CHECK_FALSE(read.more);
  CHECK(read.schedules.back().name == "tick");
  CHECK(read.schedules.back().slot_ms == queue.slot(-1));
  CHECK(read.schedules.back().text.find("active\nd") != std::string::npos);
  scene.cmd({"DEL", scene.keys().slots});
  read = scene.run(&Moves::due_schedules, 100, 0);
  CHECK(read.schedules.empty());
  CHECK_FALSE(read.next);
}

TEST_CASE("schedules: a look reads at most 256 KiB of definitions, and no text above 128 KiB") {
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  for (int i = 0; i < 10; ++i) {
    const std::string name = "s" + std::to_string(i);
    scene.cmd({"HSET", scene.keys().schedules, name, "1 active\n" + std::string(i == 0 ? 140'000 : 100'000, 'x')});
    scene.cmd({"ZADD", scene.keys().slots, std::to_string(i), name});
  }
  const ReadSchedules read = scene.run(&Moves::due_schedules, 100, 0);
  CHECK(read.more);
  REQUIRE(read.schedules.size() == 4);
  CHECK(read.schedules[0].text.empty());
  CHECK(read.schedules[1].text.size() == 100'009);
  // A text that is too long is as one that cannot be read: set replaces it, and nothing else changes it.
  const auto before = scene.state();
  CHECK(queue.change(Mode::pause, "", {}, {}, "s0") == 'g');
  CHECK(queue.advance({4}, {}, "s0").outcome == 'c');
  CHECK(scene.state() == before);
  CHECK(queue.change(Mode::set, "d", {4}, {}, "s0") == 'w');
  CHECK(queue.next("s0") == 4);
  scene.cmd({"ZREM", scene.keys().slots, "s0"});
  scene.cmd({"HSET", scene.keys().schedules, "s0", std::string(140'000, 'x')});
  CHECK(queue.change(Mode::remove, "", {}, {}, "s0") == 'w');
}

TEST_CASE("schedules: hostile contents of the three keys fail no call, and no other schedule stands still") {
  const std::vector<std::string> texts = {"",
                                          "x",
                                          "\n",
                                          " \n",
                                          "1",
                                          "1 active",
                                          "0 active\n",
                                          "-1 active\nd",
                                          "99999999999999999 active\nd",
                                          "9007199254740992 active\nd",
                                          "1e5 active\nd",
                                          "1 ACTIVE\nd",
                                          "1  active\nd",
                                          std::string("1 active\n\0", 10),
                                          std::string(200'000, '1'),
                                          std::string(40, '9') + " active\nd",
                                          "1 ended\nd",
                                          "1 unknown\nd"};
  const std::vector<std::string> scores = {"inf", "-inf", "-1", "0", "1e300", "1", "7258118399.999", "1.0000001"};
  ScheduledQueue queue;
  Scene& scene = queue.scene;
  queue.put(-1, skipping(), "good");
  std::int64_t next = -1;
  for (const std::string& text : texts) {
    for (const std::string& score : scores) {
      CAPTURE(text.substr(0, 40));
      CAPTURE(score);
      scene.cmd({"HSET", scene.keys().schedules, "bad", text});
      scene.cmd({"ZADD", scene.keys().slots, score, "bad"});
      scene.cmd({"HSET", scene.keys().open, "bad", text.substr(0, 99)});
      bool found = false;
      for (const auto& one : scene.run(&Moves::due_schedules, 100, 0).schedules) found = found || one.name == "good";
      CHECK(found == (next < 0));
      static_cast<void>(queue.advance({4}, skipping(), "bad"));
      CHECK(scene.run(&Moves::begin, "bad", 5, scene.keep("x")) == Begun::handle);
      CHECK(queue.change(Mode::set, "d", {4}, {}, "bad") != 'c');
      CHECK(queue.change(Mode::remove, "", {}, {}, "bad") == 'w');
    }
  }
  CHECK(queue.advance({++next + 5}, skipping(), "good").outcome == 'a');
  scene.cmd({"HSET", scene.keys().schedules, "bad", "9007199254740991 active\nd"});
  const StoredSchedule last = queue.read("bad");
  CHECK(test::refusal([&] { queue.change_from(last, Mode::set, "e", {4}, {}, "bad"); }).find("remove the schedule") !=
        std::string::npos);
}

TEST_CASE("schedules: keys of a wrong type are refused before the first write") {
  for (const int which : {0, 1, 2}) {
    ScheduledQueue queue;
    Scene& scene = queue.scene;
    queue.put(-1, skipping());
    const StoredSchedule was = queue.read();
    const std::string key = which == 0 ? scene.keys().schedules : which == 1 ? scene.keys().slots : scene.keys().open;
    scene.cmd({"DEL", key});
    scene.cmd({"SET", key, "of another type"});
    const auto before = scene.state();
    CHECK_FALSE(test::refusal([&] { queue.advance_from(was, {4}, skipping()); }).empty());
    CHECK_FALSE(test::refusal([&] { queue.change_from(was, Mode::set, "e", {4}); }).empty());
    CHECK_FALSE(test::refusal([&] { queue.change_from(was, Mode::remove, "", {}); }).empty());
    CHECK(scene.state() == before);
  }
}

TEST_CASE("schedules R4: each command of advance and schedule denied: nothing is stored twice, and it goes on") {
  struct Case {
    std::string name;
    std::int64_t slot;
    void (*run)(ScheduledQueue&);
  };
  const std::vector<Case> cases = {
      {"advance", -10,
       [](ScheduledQueue& queue) {
         queue.advance({-5, 4}, skipping(true));
       }},
      {"advance, all", -10,
       [](ScheduledQueue& queue) {
         queue.advance({-5, -4, 4}, skipping());
       }},
      {"set", 10, [](ScheduledQueue& queue) { queue.change(Mode::set, "new", {4}); }},
      {"set, the same slot", 10, [](ScheduledQueue& queue) { queue.change(Mode::set, "new", {10}); }}};
  for (const Case& one : cases) {
    int refused = 0, accepted = 0;
    for (int write = 0; accepted < 5; ++write) {
      CAPTURE(one.name);
      CAPTURE(write);
      ScheduledQueue queue;
      Scene& scene = queue.scene;
      queue.put(one.slot, skipping());
      scene.break_at(write);
      const bool was_refused = !test::refusal([&] { one.run(queue); }).empty();
      scene.break_at(-1);
      (was_refused ? refused : accepted) += 1;
      // The schedule is alive: it has a slot, or maintenance gives it one.
      CHECK(queue.state() == "active");
      if (!queue.read().slot_ms) CHECK(queue.advance({4}).outcome == 'a');
      CHECK(queue.read().slot_ms);
      // At the next slot that has passed, the next one is stored, as if nothing had been refused.
      one.run(queue);
      CHECK(queue.next() >= 4);
      CHECK(queue.is_stored(queue.next()));
      const std::string advanced = one.name.substr(0, 7);
      if (advanced == "advance") CHECK(queue.is_stored(-5));
      // Each id is in one place.
      std::set<std::string> seen;
      for (const std::string& id : scene.cmd({"ZRANGE", scene.keys().pending, "0", "-1"}).strings()) {
        CHECK(seen.insert(id).second);
        // Or it was taken back in part: nothing delivers it.
        CHECK((queue.is_stored(id) || scene.cmd({"EXISTS", scene.keys().bodies + id}) == 0));
      }
    }
    CHECK(refused > 3);
  }
}

// ---- Random runs against a model ----

// Calls in random order, with random refusals, a clock of Redis that only goes on, and slots of 20 ms. The rules are
// checked after each step, from what is stored.
class RandomSchedule {
 public:
  RandomSchedule(std::uint64_t seed, bool breaks, int missed, bool skips)
      : random_(static_cast<std::mt19937::result_type>(seed)),
        breaks_(breaks),
        missed_(missed),
        skips_(skips),
        queue_(server().socket()),
        saved_(queue_.scene) {}

  void run() {
    change(Mode::set, "d1");
    for (int step = 0; step < 150; ++step) {
      CAPTURE(step);
      one_step();
      check();
    }
    finish();
  }

 private:
  static const PrivateServer& server() {
    static const PrivateServer server;
    return server;
  }
  static constexpr std::int64_t kPeriod = 20;

  std::size_t below(std::size_t n) { return random_() % n; }
  std::int64_t now() { return queue_.scene.now_us() / 1000; }
  static std::int64_t next_of(std::int64_t after) { return (after / kPeriod + 1) * kPeriod; }

  Occurrences some(const std::vector<std::int64_t>& slots) const {
    Occurrences all;
    all.slots_ms = slots;
    all.payload = "p";
    all.skips = skips_;
    return all;
  }

  // What a client does; `stale`: with what it has read earlier.
  void change(Mode mode, const std::string& definition) {
    Scene& scene = queue_.scene;
    const StoredSchedule was = queue_.read();
    if (mode == Mode::remove) was_removed_ = true;
    ScheduleChange wanted{"tick", mode, ScheduledQueue::generation_of(was), was.slot_ms, definition, {}};
    const std::int64_t first = next_of(now());
    if (mode == Mode::set || mode == Mode::resume) wanted.occurrences = some({first});
    const bool waited = was.slot_ms && is_waiting(saved_.cells(), *was.slot_ms);
    ScheduleChanged changed;
    const bool refused = guarded([&] { changed = scene.run(&Moves::schedule, wanted); });
    if (refused || changed.outcome != 'w') return;
    const Cells after = saved_.cells();
    if (mode == Mode::pause || mode == Mode::remove) {
      CHECK(after.count({"schedules:next", "tick"}) == 0);
      if (waited && *was.slot_ms > now() + 5) CHECK_FALSE(is_waiting(after, *was.slot_ms));
    }
    if (changed.slot_ms) noted_.insert(*changed.slot_ms);
  }

  bool guarded(const std::function<void()>& call) {
    if (breaks_ && below(3) == 0) queue_.scene.break_at(static_cast<int>(below(14)));
    const bool refused = !test::refusal(call).empty();
    queue_.scene.break_at(-1);
    was_refused_ = was_refused_ || refused;
    return refused;
  }

  void look() {
    Scene& scene = queue_.scene;
    if (below(4) != 0 || !view_) {
      const ReadSchedules read = scene.run(&Moves::due_schedules, 100, 0);
      view_.reset();
      for (const StoredSchedule& one : read.schedules) {
        if (one.name == "tick" && one.slot_ms) view_ = {one, read.now_us / 1000};
      }
    }
    if (!view_) return;
    const auto& [was, at] = *view_;
    std::vector<std::int64_t> missed;
    for (std::int64_t x = next_of(*was.slot_ms); x <= at; x = next_of(x)) missed.push_back(x);
    std::vector<std::int64_t> slots = missed_ == 2 ? missed : std::vector<std::int64_t>();
    if (slots.size() > 50) slots.erase(slots.begin(), slots.end() - 50);
    if (missed_ == 1 && !missed.empty()) slots = {missed.back()};
    slots.push_back(next_of(at));
    Advance advance;
    advance.name = "tick";
    advance.generation = ScheduledQueue::generation_of(was);
    advance.slot_ms = was.slot_ms;
    advance.last_ms = slots.back();
    advance.takes_back = missed_ != 2 && !missed.empty();
    advance.occurrences = some(slots);
    const Cells before = saved_.cells();
    Advanced advanced;
    if (guarded([&] { advanced = scene.run(&Moves::advance, advance); })) return;
    if (advanced.outcome != 'a') {
      CHECK(saved_.cells() == before);
      return;
    }
    for (const std::int64_t slot : slots) noted_.insert(slot);
    if (advanced.taken_back) CHECK(is_waiting(before, *was.slot_ms));
    // No slot between the two is lost, unless the rule for missed ones says so.
    CHECK(*was.slot_ms < slots.front());
    if (missed_ == 2 && missed.size() <= 50) CHECK(slots.front() == next_of(*was.slot_ms));
  }

  bool is_waiting(const Cells& cells, std::int64_t slot) {
    const std::string id = occurrence_id(queue_.scene.keys(), "tick", slot);
    const auto has = [&](const char* place) { return cells.count({place, id}) > 0; };
    return has("msg") && has("retry:cnt") && !has("unack") && !has("dead");
  }

  void one_step() {
    Scene& scene = queue_.scene;
    switch (below(12)) {
      case 0:
        return change(Mode::set, "d" + std::to_string(below(2)));
      case 1:
        return change(Mode::pause, "");
      case 2:
      case 3:
        return change(Mode::resume, "");
      case 4:
        if (below(4) == 0) change(Mode::remove, "");
        return change(Mode::set, "d1");
      case 5:
      case 6:
      case 7:
        return look();
      case 8: {
        const Taken taken = queue_.take(1 + below(3));
        for (const auto& one : taken.messages) begin_or_settle(one.first, taken.lease_us);
        return;
      }
      case 9:
        if (!running_.empty()) settle(below(running_.size()));
        return;
      case 10:
        scene.run(&Moves::unack2retry, false);
        return;
      default:
        std::this_thread::sleep_for(milliseconds(below(3) * kPeriod / 2));
    }
  }

  void begin_or_settle(const std::string& id, std::int64_t end) {
    Scene& scene = queue_.scene;
    const auto headers = unpacked(scene.cmd({"HGET", scene.keys().headers, id}).text);
    REQUIRE(headers);
    const std::string* slot = headers->find(kSlotHeader);
    REQUIRE(slot != nullptr);
    CHECK(std::stoll(*slot) <= scene.now_us() / 1000);  // never early
    if (skips_) {
      const Begun begun = scene.run(&Moves::begin, "tick", std::stoll(*slot), id);
      if (begun == Begun::skip) scene.run(&Moves::remove, {"skipped", false}, {{id, end}});
      if (begun == Begun::wait) scene.run(&Moves::release, {{id, end}}, 5ms);
      if (begun != Begun::handle) return;
      // One at a time, as long as the schedule was not removed meanwhile.
      if (!was_removed_) {
        for (const auto& other : running_) CHECK(other.first == id);
      }
    }
    running_.emplace_back(id, end);
  }

  void settle(std::size_t which) {
    const auto [id, end] = running_[which];
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(which));
    if (below(4) == 0) {
      queue_.scene.run(&Moves::nack, {{{id, end}, below(3) == 0 ? std::nullopt : std::optional(3ms), "no"}});
    } else {
      queue_.scene.run(&Moves::ack, {{id, end}});
    }
  }

  void check() {
    const Cells cells = saved_.cells();
    const auto text = cells.find({"schedules", "tick"});
    const bool is_active = text != cells.end() && text->second.find(" active\n") != std::string::npos;
    const bool has_slot = cells.count({"schedules:next", "tick"}) > 0;
    if (!breaks_) CHECK(has_slot == is_active);
    // What is stored is whole, and each message has its retries.
    for (const auto& [at, value] : cells) {
      if (at.first != "pending" || !may_be_occurrence(at.second)) continue;
      if (!breaks_) {
        for (const char* place : {"msg", "retry:cnt", "headers"}) CHECK(cells.count({place, at.second}) > 0);
      }
    }
    if (!has_slot || breaks_) return;
    // One slot that is not due, at most: else an old definition goes on beside the new one.
    const std::int64_t at_ms = now();
    int future = 0;
    for (const auto& [at, value] : cells) {
      if (at.first != "pending" || !may_be_occurrence(at.second)) continue;
      if (std::strtod(value.c_str(), nullptr) * 1000 > static_cast<double>(at_ms + kPeriod)) ++future;
    }
    CHECK(future <= 1);
  }

  // All that is left is handled, and the schedule goes on.
  void finish() {
    Scene& scene = queue_.scene;
    breaks_ = false;
    change(Mode::set, "last");
    change(Mode::resume, "");
    if (!queue_.read().slot_ms) change(Mode::set, "very last");
    REQUIRE(queue_.state() == "active");
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(milliseconds(kPeriod));
      view_.reset();
      look();
    }
    const auto slot = queue_.read().slot_ms;
    REQUIRE(slot);
    CHECK(*slot + 10 * kPeriod > now());
    CHECK(scene.cmd({"ZCARD", scene.keys().slots}) == 1);
  }

  std::mt19937 random_;
  bool breaks_;
  const int missed_;  // 0 none, 1 last, 2 all
  const bool skips_;
  ScheduledQueue queue_;
  SavedQueue saved_;
  bool was_refused_ = false, was_removed_ = false;
  std::optional<std::pair<StoredSchedule, std::int64_t>> view_;
  std::set<std::int64_t> noted_;
  std::vector<std::pair<std::string, std::int64_t>> running_;
};

TEST_CASE("schedules R2 to R26: random calls, refusals and stale views: alive, never early, one at a time") {
  for (std::uint64_t seed = 1; seed <= test::seeds(60); ++seed) {  // 12 combinations in turn
    CAPTURE(seed);
    RandomSchedule(seed, seed % 2 == 1, static_cast<int>(seed / 2 % 3), seed / 6 % 2 == 1).run();
  }
}

}  // namespace
}  // namespace delayqueue::store
