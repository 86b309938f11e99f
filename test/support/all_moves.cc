#include "support/all_moves.h"

namespace test {

using namespace std::chrono_literals;
using delayqueue::Headers;
using delayqueue::store::Advance;
using delayqueue::store::Conflict;
using delayqueue::store::KeyTerms;
using delayqueue::store::Moves;
using delayqueue::store::occurrence_id;
using delayqueue::store::Occurrences;
using delayqueue::store::ScheduleChange;
using delayqueue::store::ScheduleMode;
using delayqueue::store::StoredSchedule;

namespace {

// Moves the messages of the lists to pending, those of retry first. Between them are an id without a message, and one
// that is held.
void make_lists_pending(Scene& scene) {
  const auto& keys = scene.keys();
  const auto add = [&](const std::string& score, const std::string& id) {
    scene.cmd({"ZADD", keys.pending, score, id});
  };
  int due = 0;
  for (const std::string& list : {keys.retry, keys.ready}) {
    for (const std::string& id : scene.cmd({"LRANGE", list, "0", "-1"}).strings()) add(std::to_string(++due), id);
    scene.cmd({"DEL", list});
  }
  add("3.5", scene.id("gone"));
  add("3.6", scene.id("held"));
}

}  // namespace

void put_messages_for_all_moves(Scene& scene) {
  scene.put(At::pending, "due", {-5min}).put(At::pending, "later");
  scene.put(At::ready, "ready").put(At::ready, "ready2", {-1min, "3", "2", "once failed"});
  scene.put(At::retry, "retry").put(At::held, "held").put(At::held, "last", {10min, "0"});
  scene.put(At::held, "over", {-5min}).put(At::held, "overl", {-4min, "0", "", "", 1h});
  scene.put(At::held_by_go, "go").put(At::backing_off, "back").put(At::cancelled, "cancel");
  scene.put(At::cancelled, "cancov", {-5min}).put(At::dead, "dead", {-1h, "0", "", "too bad", 1h});
  scene.put(At::garbage, "garb", {0ms, "", "2", "note"}).put(At::nowhere, "none").put(At::nowhere, "none2");
}

namespace {

const std::string kHeaders = "\1k\1v";

// Some messages in each state have headers.
void add_headers(Scene& scene) {
  for (const char* name : {"later", "ready", "retry", "held", "back", "cancel", "dead", "garb", "none"}) {
    scene.cmd({"HSET", scene.keys().headers, scene.id(name), kHeaders});
  }
}

// The queue has limits that keep no move from anything, and the messages in flight have places.
void add_limits(Scene& scene) {
  scene.cmd({"HSET", scene.keys().limits, "rate", "1000000", "period", "1000000", "burst", "100000", "running", "1000",
             "full", "1", "tat", "1"});
  for (const char* name : {"held", "last", "over", "overl", "cancel", "cancov"}) {
    scene.cmd(
        {"ZADD", scene.keys().running, scene.cmd({"ZSCORE", scene.keys().unack, scene.id(name)}).text, scene.id(name)});
  }
  scene.cmd({"ZADD", scene.keys().running, "1", scene.id("gone")});
}

// Some messages have unique keys, and the entries of the keys name them.
void add_keys(Scene& scene) {
  for (const char* name : {"later", "ready", "retry", "held", "over", "back", "cancel", "dead", "garb"}) {
    const std::string id = scene.id(name);
    scene.cmd({"HSET", scene.keys().keys, id, std::string("key ") + name});
    scene.cmd({"HSET", scene.keys().unique, std::string("key ") + name, id + " 1700000000000000 0"});
  }
}

}  // namespace

namespace {

constexpr char kSchedule[] = "tick";

std::int64_t slot_at(Scene& scene, milliseconds in) { return scene.start_ms() / 1000 * 1000 + in.count(); }

Occurrences occurrences(const std::vector<std::int64_t>& slots, milliseconds ttl = 0ms) {
  static const Headers headers{{"k", "v"}};
  Occurrences all;
  all.slots_ms = slots;
  all.payload = "new";
  all.headers = &headers;
  all.ttl = ttl;
  all.skips = true;
  return all;
}

// Changes the schedule as a client does: it reads what is stored first.
void change_schedule(Scene& scene, ScheduleMode mode, const std::string& definition,
                     const std::vector<std::int64_t>& slots) {
  const StoredSchedule now = scene.run(&Moves::read_schedules, {kSchedule}).schedules.at(0);
  scene.run(&Moves::schedule, ScheduleChange{kSchedule, mode, std::strtoll(now.text.c_str(), nullptr, 10), now.slot_ms,
                                             definition, occurrences(slots, 1h)});
}

void advance_schedule(Scene& scene, bool takes_back, const std::vector<std::int64_t>& slots) {
  Advance advance;
  advance.name = kSchedule;
  advance.generation = 1'700'000'000'000'000;
  advance.slot_ms = slot_at(scene, -10min);
  if (!slots.empty()) advance.last_ms = slots.back();
  advance.takes_back = takes_back;
  advance.occurrences = occurrences(slots);
  scene.run(&Moves::advance, advance);
}

// A schedule whose newest occurrence, which waits, has this slot.
template <int minutes>
void add_schedule(Scene& scene) {
  const auto& keys = scene.keys();
  const std::int64_t slot = slot_at(scene, std::chrono::minutes(minutes));
  const std::string score = std::to_string(slot / 1000), id = occurrence_id(keys, kSchedule, slot);
  scene.cmd({"HSET", keys.schedules, kSchedule, "1700000000000000 active\nold"});
  scene.cmd({"ZADD", keys.slots, score, kSchedule});
  scene.cmd({"HSET", keys.open, kSchedule, std::to_string(slot - 60'000) + " " + scene.id("held") + " 1"});
  scene.cmd({"SET", keys.bodies + id, "old"});
  scene.cmd({"HSET", keys.count, id, "7"});
  scene.cmd({"HSET", keys.headers, id, kHeaders});
  scene.cmd({"ZADD", keys.pending, score, id});
}

void add_paused_schedule(Scene& scene) {
  scene.cmd({"HSET", scene.keys().schedules, kSchedule, "1700000000000000 paused\nold"});
}

}  // namespace

void put_messages_for(Scene& scene, const AnyMove& move) {
  put_messages_for_all_moves(scene);
  if (move.prepare != nullptr) move.prepare(scene);
}

std::string script_of(const std::string& move_name) {
  static const std::map<std::string, std::string> others = {{"expire", "ack"}, {"snooze", "release"}};
  const std::string word = move_name.substr(0, move_name.find(' '));
  const auto found = others.find(word);
  return found != others.end() ? found->second : word;
}

const std::vector<AnyMove>& all_moves() {
  static const std::string body = "new";
  static const std::string large(delayqueue::store::kStagedBytes, 'x');
  static const std::vector<AnyMove> moves = {
      {"send",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), body}, {s.id("garb"), body}}, {{5min, 0}});
       }},
      {"send now",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), body}, {s.id("garb"), body}}, {{0ms, 0}, 3, 1h});
       }},
      {"send of a finished one with a count",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), body}, {s.id("garb"), body}}, {{0ms, 0}, 3, 1h});
       },
       [](Scene& s) {
         s.cmd({"HSET", s.keys().count, s.id("garb"), "7"});
       }},
      {"send fresh",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), body}, {s.id("none2"), body}}, {{5min, 0}, 3, 0ms, s.is_first()});
       }},
      {"send_one",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), body}}, {{5min, 0}, 3, 1h, s.is_first()});
       }},
      {"send_one now",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), body}}, {{0ms, 0}, 3, 0ms, s.is_first()});
       }},
      {"send staged",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), large}, {s.id("garb"), large}}, {{5min, 0}, 3, 1h});
       }},
      {"send_new",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), large}}, {{5min, 0}, 3, 1h, s.is_first()});
       }},
      {"send_new now",
       [](Scene& s) {
         s.run(&Moves::send, {{s.id("none"), large}, {s.id("none2"), body}}, {{0ms, 0}, 3, 0ms, s.is_first()});
       }},
      {"send_new with headers",
       [](Scene& s) {
         s.run(&Moves::send, {{s.keep("none"), large}, {s.keep("none2"), body, kHeaders}},
               {{5min, 0}, 3, 1h, s.is_first()});
       }},
      {"send with headers",
       [](Scene& s) {
         s.run(&Moves::send, {{s.keep("none"), body, kHeaders}, {s.keep("garb"), body}}, {{5min, 0}});
       },
       add_headers},
      {"send staged with headers",
       [](Scene& s) {
         s.run(&Moves::send, {{s.keep("none"), large}, {s.keep("garb"), large, kHeaders}}, {{5min, 0}, 3, 1h});
       }},
      {"send_one with headers",
       [](Scene& s) {
         s.run(&Moves::send, {{s.keep("none"), body, kHeaders}}, {{5min, 0}, 3, 1h, s.is_first()});
       }},
      {"send_keyed",
       [](Scene& s) {
         s.run(&Moves::send_keyed,
               {{s.keep("none"), body, kHeaders, "key none"}, {s.keep("garb"), body, {}, "key garb"}}, {{5min, 0}},
               KeyTerms{});
       },
       add_keys},
      {"send_keyed now",
       [](Scene& s) {
         s.run(&Moves::send_keyed, {{s.keep("none"), body, {}, "key over"}, {s.keep("garb"), body, {}, "key g"}},
               {{0ms, 0}, 3, 1h}, KeyTerms{Conflict::keep, false, 1h, {}, 1000});
       },
       add_keys},
      {"send_keyed fresh",
       [](Scene& s) {
         s.run(&Moves::send_keyed, {{s.keep("none"), body, kHeaders, "key none"}, {s.keep("none2"), body}},
               {{5min, 0}, 3, 0ms, s.is_first()}, KeyTerms{Conflict::keep, true, 1h, {}, 1000});
       },
       add_keys},
      {"send_keyed of a finished one with a count, and one that is kept out",
       [](Scene& s) {
         s.run(&Moves::send_keyed,
               {{s.keep("none"), body, {}, "key later", s.keep("later")}, {s.keep("garb"), body, {}, "key garb"}},
               {{5min, 0}}, KeyTerms{});
       },
       [](Scene& s) {
         add_keys(s);
         s.cmd({"HSET", s.keys().count, s.id("garb"), "7", s.id("none"), "7"});
       }},
      {"send_keyed staged",
       [](Scene& s) {
         s.run(&Moves::send_keyed, {{s.keep("none"), large, {}, "key none"}, {s.keep("garb"), large, kHeaders, "k"}},
               {{5min, 0}, 3, 1h}, KeyTerms{});
       },
       add_keys},
      {"send_keyed replacing",
       [](Scene& s) {
         s.run(&Moves::send_keyed,
               {{s.keep("none"), body, {}, "key later", s.keep("later")},
                {s.keep("none2"), body, kHeaders, "key ready", s.keep("ready")},
                {s.keep("none3"), body, {}, "key retry", s.keep("retry")},
                {s.keep("none4"), body, kHeaders, "key back", s.keep("back")}},
               {{5min, 0}}, KeyTerms{Conflict::replace});
       },
       add_keys},
      {"send_keyed replacing staged",
       [](Scene& s) {
         s.run(&Moves::send_keyed,
               {{s.keep("none"), large, {}, "key later", s.keep("later")},
                {s.keep("none2"), large, {}, "key retry", s.keep("retry")}},
               {{5min, 0}}, KeyTerms{Conflict::replace});
       },
       add_keys},
      {"send_keyed replacing and postponing",
       [](Scene& s) {
         s.run(&Moves::send_keyed,
               {{s.keep("none"), body, {}, "key later", s.keep("later")},
                {s.keep("none2"), body, {}, "key ready", s.keep("ready")},
                {s.keep("none3"), body, {}, "key retry", s.keep("retry")},
                {s.keep("none4"), body, {}, "key back", s.keep("back")}},
               {{20min, 0}}, KeyTerms{Conflict::postpone});
       },
       add_keys},
      {"send_keyed replacing and postponing to now",
       [](Scene& s) {
         s.run(&Moves::send_keyed,
               {{s.keep("none"), body, {}, "key later", s.keep("later")},
                {s.keep("none2"), body, {}, "key back", s.keep("back")}},
               {{20min, 0}}, KeyTerms{Conflict::postpone, true, 0ms, 1min});
       },
       add_keys},
      {"pending2ready",
       [](Scene& s) {
         s.run(&Moves::pending2ready, true, {"me", std::chrono::seconds(1)});
       }},
      {"ready2unack",
       [](Scene& s) {
         s.run(&Moves::ready2unack, {200, 25, 200}, 1min);
       }},
      {"ready2unack with headers",
       [](Scene& s) {
         s.run(&Moves::ready2unack, {200, 25, 200}, 1min);
       },
       add_headers},
      {"ready2unack one possible poison message",
       [](Scene& s) {
         s.run(&Moves::ready2unack, {200, 25, 200, 1, 200}, 1min);
       }},
      {"take_paced",
       [](Scene& s) {
         s.run(&Moves::take_paced, {200, 25, 200}, 1min, "me");
       },
       add_limits},
      {"take_paced when all places are used",
       [](Scene& s) {
         s.run(&Moves::take_paced, {200, 25, 200}, 1min, "me");
       },
       [](Scene& s) {
         add_limits(s);
         s.cmd({"HSET", s.keys().limits, "running", "6"});
       }},
      {"take_paced without limits",
       [](Scene& s) {
         s.run(&Moves::take_paced, {200, 25, 200}, 1min, "me");
       }},
      {"pending2unack",
       [](Scene& s) {
         s.run(&Moves::pending2unack, true, {"me", std::chrono::seconds(1)}, {200, 7}, 1min);
       },
       make_lists_pending},
      {"pending2unack behind others",
       [](Scene& s) {
         s.run(&Moves::pending2unack, true, {"me", std::chrono::seconds(1)}, {200, 7}, 1min);
       }},
      {"ack",
       [](Scene& s) {
         s.run(&Moves::ack, {s.receipt("held"), s.receipt("last"), s.last_receipt("retry")});
       }},
      {"ack one", [](Scene& s) { s.run(&Moves::ack, {s.receipt("held")}); }},
      {"ack one with headers", [](Scene& s) { s.run(&Moves::ack, {s.receipt("held")}); }, add_headers},
      {"ack with headers",
       [](Scene& s) {
         s.run(&Moves::ack, {s.receipt("held"), s.receipt("last"), s.last_receipt("retry")});
       },
       add_headers},
      {"ack_paced",
       [](Scene& s) {
         s.run(&Moves::remove, {"acked", true}, {s.receipt("held"), s.receipt("last"), s.last_receipt("retry")});
       },
       add_limits},
      {"ack_paced one",
       [](Scene& s) {
         s.run(&Moves::remove, {"acked", true}, {s.receipt("held")});
       },
       add_limits},
      {"ack_paced with keys",
       [](Scene& s) {
         s.run(&Moves::remove, {"acked", true}, {s.receipt("held"), s.receipt("last"), s.last_receipt("retry")});
       },
       add_keys},
      {"ack_paced one with a key",
       [](Scene& s) {
         s.run(&Moves::remove, {"acked", true}, {s.receipt("held")});
       },
       add_keys},
      {"ready2unack with keys",
       [](Scene& s) {
         s.run(&Moves::ready2unack, {200, 25, 200}, 1min);
       },
       add_keys},
      {"ack late",
       [](Scene& s) {
         s.run(&Moves::ack, {s.last_receipt("retry"), s.last_receipt("dead")});
       }},
      {"expire",
       [](Scene& s) {
         s.run(&Moves::expire, {s.receipt("held"), s.receipt("cancel")});
       }},
      {"nack",
       [](Scene& s) {
         s.run(&Moves::nack,
               {{s.receipt("held"), 1min, "a"}, {s.receipt("last"), 1min, "b"}, {s.receipt("cancel"), {}, ""}});
       }},
      {"renew",
       [](Scene& s) {
         s.run(&Moves::renew, {s.receipt("held"), s.receipt("over")}, s.now_us() / 1000 * 1000 + 600'000'001);
       }},
      {"release",
       [](Scene& s) {
         s.run(&Moves::release, {s.receipt("held"), s.receipt("last"), s.receipt("cancel")}, 0ms);
       }},
      {"snooze",
       [](Scene& s) {
         s.run(&Moves::release, {s.receipt("held"), s.receipt("last"), s.receipt("cancel")}, 5min);
       }},
      {"release with a pause",
       [](Scene& s) {
         s.run(&Moves::release_and_pause, {s.receipt("held"), s.receipt("last"), s.receipt("cancel")}, 5min, "why");
       }},
      {"release waiting",
       [](Scene& s) {
         s.run(&Moves::release_waiting, s.ids({"later", "back", "held", "dead"}), true);
       }},
      {"unack2retry", [](Scene& s) { s.run(&Moves::unack2retry, false); }},
      {"nack with places",
       [](Scene& s) {
         s.run(&Moves::nack, {{s.receipt("held"), 1min, "a"}, {s.receipt("last"), 1min, "b"}});
       },
       add_limits},
      {"release with places",
       [](Scene& s) {
         s.run(&Moves::release, {s.receipt("held"), s.receipt("last"), s.receipt("cancel")}, 0ms);
       },
       add_limits},
      {"unack2retry with places", [](Scene& s) { s.run(&Moves::unack2retry, false); }, add_limits},
      {"bury with places",
       [](Scene& s) {
         s.run(&Moves::bury, s.ids({"held", "overl"}), "why", true);
       },
       add_limits},
      {"correct_places",
       [](Scene& s) {
         s.run(&Moves::correct_places, s.ids({"held", "gone", "back", "none"}));
       },
       add_limits},
      {"persist",
       [](Scene& s) {
         s.run(&Moves::persist, s.ids({"dead", "retry"}));
       }},
      {"gc",
       [](Scene& s) {
         s.run(&Moves::gc, s.ids({"garb", "ready"}));
       }},
      {"gc with headers",
       [](Scene& s) {
         s.run(&Moves::gc, s.ids({"garb", "ready"}));
       },
       add_headers},
      {"gc with keys",
       [](Scene& s) {
         s.run(&Moves::gc, s.ids({"garb", "ready"}));
       },
       add_keys},
      {"delete_orphaned_metadata with headers",
       [](Scene& s) {
         s.run(&Moves::delete_orphaned_metadata, s.ids({"garb", "ready2", "dead", "none"}));
       },
       add_headers},
      {"delete_orphaned_metadata with keys",
       [](Scene& s) {
         s.run(&Moves::delete_orphaned_metadata, s.ids({"garb", "ready2", "dead", "none"}));
       },
       [](Scene& s) {
         add_keys(s);
         s.cmd({"HSET", s.keys().keys, s.id("none"), "key none"});
       }},
      {"delete_orphaned_keys",
       [](Scene& s) {
         s.run(&Moves::delete_orphaned_keys, {"key later", "key dead", "key garb", "key none", "window"});
       },
       [](Scene& s) {
         add_keys(s);
         s.cmd({"HSET", s.keys().unique, "window", s.id("garb") + " 1 9000000000000000"});
       }},
      {"delete_orphaned_metadata",
       [](Scene& s) {
         s.run(&Moves::delete_orphaned_metadata, s.ids({"garb", "ready2", "dead", "none"}));
       }},
      {"cancel pending", [](Scene& s) { s.run(&Moves::cancel, s.id("later")); }},
      {"cancel with headers", [](Scene& s) { s.run(&Moves::cancel, s.id("later")); }, add_headers},
      {"cancel held with a key", [](Scene& s) { s.run(&Moves::cancel, s.id("held")); }, add_keys},
      {"reschedule by key",
       [](Scene& s) {
         s.run(&Moves::reschedule_by_key, s.id("later"), "key later", {20min, 0});
       },
       add_keys},
      {"cancel with a key", [](Scene& s) { s.run(&Moves::cancel, s.id("later")); }, add_keys},
      {"cancel ready", [](Scene& s) { s.run(&Moves::cancel, s.id("ready")); }},
      {"cancel backing off", [](Scene& s) { s.run(&Moves::cancel, s.id("back")); }},
      {"cancel held", [](Scene& s) { s.run(&Moves::cancel, s.id("held")); }},
      {"cancel dead", [](Scene& s) { s.run(&Moves::cancel, s.id("dead")); }},
      {"reschedule pending",
       [](Scene& s) {
         s.run(&Moves::reschedule, s.id("later"), {20min, 0});
       }},
      {"reschedule to now",
       [](Scene& s) {
         s.run(&Moves::reschedule, s.id("later"), {0ms, 0});
       }},
      {"reschedule retry",
       [](Scene& s) {
         s.run(&Moves::reschedule, s.id("retry"), {20min, 0});
       }},
      {"reschedule backing off",
       [](Scene& s) {
         s.run(&Moves::reschedule, s.id("back"), {0ms, 0});
       }},
      {"redrive",
       [](Scene& s) {
         s.run(&Moves::redrive, s.ids({"dead", "none"}), 3);
       }},
      {"redrive with a key",
       [](Scene& s) {
         s.run(&Moves::redrive, s.ids({"dead", "none"}), 3);
       },
       add_keys},
      {"restore",
       [](Scene& s) {
         s.run(&Moves::restore, {{s.keep("none"), false, s.start_ms() * 1000 + 300'000'000, 3, 2, 1h, "why", body},
                                 {s.keep("garb"), true, 1'700'000'000'000'000, 0, 2, 0ms, "why", body}});
       }},
      {"restore staged",
       [](Scene& s) {
         s.run(&Moves::restore, {{s.keep("none"), false, s.start_ms() * 1000 + 300'000'000, 3, 2, 1h, "why", large},
                                 {s.keep("garb"), true, 1'700'000'000'000'000, 0, 2, 0ms, "why", large}});
       }},
      {"restore with keys",
       [](Scene& s) {
         s.run(&Moves::restore,
               {{s.keep("none"), false, 0, 3, 2, 1h, "why", body, "", false, "key none"},
                {s.keep("garb"), true, 1'700'000'000'000'000, 0, 2, 0ms, "why", body, "", false, "key garb"},
                {s.keep("none2"), false, 0, 3, 2, 1h, "why", body, "", false, "key later"}});
       },
       add_keys},
      {"restore replacing with keys",
       [](Scene& s) {
         s.run(&Moves::restore, {{s.keep("later"), false, 0, 3, 2, 1h, "why", body, "", true, "key later"},
                                 {s.keep("ready"), false, 0, 3, 2, 0ms, "why", body, "", true},
                                 {s.keep("dead"), false, 0, 3, 2, 0ms, "why", large, "", true, "key dead"}});
       },
       add_keys},
      {"restore dead",
       [](Scene& s) {
         s.run(&Moves::restore, {{s.keep("garb"), true, 1'700'000'000'000'000, 0, 2, 0ms, "why", body}});
       }},
      {"restore with headers",
       [](Scene& s) {
         s.run(&Moves::restore, {{s.keep("none"), false, 0, 3, 2, 1h, "why", body, kHeaders},
                                 {s.keep("garb"), true, 1'700'000'000'000'000, 0, 2, 0ms, "why", body}});
       },
       add_headers},
      {"restore replacing",
       [](Scene& s) {
         const std::int64_t later = s.start_ms() * 1000 + 300'000'000;
         s.run(&Moves::restore, {{s.keep("later"), false, later, 3, 2, 1h, "why", body, kHeaders, true},
                                 {s.keep("back"), false, later, 3, 2, 0ms, "why", body, kHeaders, true},
                                 {s.keep("ready"), true, 1'700'000'000'000'000, 0, 2, 0ms, "why", body, "", true},
                                 {s.keep("dead"), false, 0, 3, 2, 0ms, "why", body, "", true},
                                 {s.keep("held"), false, 0, 3, 2, 0ms, "why", body, "", true}});
       },
       add_headers},
      {"restore replacing staged",
       [](Scene& s) {
         s.run(&Moves::restore, {{s.keep("later"), false, 0, 3, 2, 1h, "why", large, "", true},
                                 {s.keep("dead"), false, 0, 3, 2, 0ms, "why", large, "", true},
                                 {s.keep("held"), false, 0, 3, 2, 0ms, "why", large, "", true}});
       }},
      {"bury",
       [](Scene& s) {
         s.run(&Moves::bury, s.ids({"later", "ready", "ready2", "retry", "held", "back", "dead", "cancel"}), "why",
               false);
       }},
      {"bury held",
       [](Scene& s) {
         s.run(&Moves::bury, s.ids({"held", "go", "overl"}), "why", true);
       }},
      {"extend",
       [](Scene& s) {
         s.run(&Moves::extend, s.ids({"back", "go", "overl"}), 5min, true);
       }},
      {"purge_ids dead",
       [](Scene& s) {
         s.run(&Moves::purge_ids, s.keys().dead, s.ids({"dead", "later"}));
       }},
      {"purge_ids with headers",
       [](Scene& s) {
         s.run(&Moves::purge_ids, s.keys().dead, s.ids({"dead", "later"}));
       },
       add_headers},
      {"purge_ids with keys",
       [](Scene& s) {
         s.run(&Moves::purge_ids, s.keys().dead, s.ids({"dead", "later"}));
       },
       add_keys},
      {"purge_ids pending",
       [](Scene& s) {
         s.run(&Moves::purge_ids, s.keys().pending, s.ids({"dead", "later"}));
       }},
      {"purge_ids ready",
       [](Scene& s) {
         s.run(&Moves::purge_ids, s.keys().ready, s.ids({"ready", "dead"}));
       }},
      {"purge pending", [](Scene& s) { s.run(&Moves::purge_zset, s.keys().pending, 1, std::nullopt, 0); }},
      {"purge dead", [](Scene& s) { s.run(&Moves::purge_zset, s.keys().dead, 200, 1min, 0); }},
      {"purge ready", [](Scene& s) { s.run(&Moves::purge_list, s.keys().ready, 3); }},
      {"schedule set", [](Scene& s) { change_schedule(s, ScheduleMode::set, "new", {slot_at(s, 5min)}); }},
      {"schedule set with another definition",
       [](Scene& s) { change_schedule(s, ScheduleMode::set, "new", {slot_at(s, 5min)}); }, add_schedule<20>},
      {"schedule set replacing the same slot",
       [](Scene& s) { change_schedule(s, ScheduleMode::set, "new", {slot_at(s, 20min)}); }, add_schedule<20>},
      {"schedule resume", [](Scene& s) { change_schedule(s, ScheduleMode::resume, "", {slot_at(s, 5min)}); },
       add_paused_schedule},
      {"schedule pause", [](Scene& s) { change_schedule(s, ScheduleMode::pause, "", {}); }, add_schedule<20>},
      {"schedule remove", [](Scene& s) { change_schedule(s, ScheduleMode::remove, "", {}); }, add_schedule<20>},
      {"advance", [](Scene& s) { advance_schedule(s, false, {slot_at(s, 5min)}); }, add_schedule<-10>},
      {"advance taking back",
       [](Scene& s) {
         advance_schedule(s, true, {slot_at(s, -5min), slot_at(s, 5min)});
       },
       add_schedule<-10>},
      {"advance to the end", [](Scene& s) { advance_schedule(s, true, {}); }, add_schedule<-10>},
      {"advance to a finished one with a count", [](Scene& s) { advance_schedule(s, false, {slot_at(s, 5min)}); },
       [](Scene& s) {
         add_schedule<-10>(s);
         const std::string id = occurrence_id(s.keys(), kSchedule, slot_at(s, 5min));
         s.cmd({"SADD", s.keys().garbage, id});
         s.cmd({"SET", s.keys().bodies + id, "old"});
         s.cmd({"HSET", s.keys().count, id, "7"});
       }},
      {"begin", [](Scene& s) { s.run(&Moves::begin, kSchedule, slot_at(s, -10min), s.keep("over")); },
       [](Scene& s) {
         add_schedule<-10>(s);
         s.cmd({"HSET", s.keys().open, kSchedule, "1 " + s.id("dead") + " 1"});
       }},
      {"purge retry", [](Scene& s) { s.run(&Moves::purge_list, s.keys().retry, 3); }},
  };
  return moves;
}

}  // namespace test
