// Each move, refused at each of its writes, and then repeated with all rights. The queue must be as after a call that
// Redis has not refused.
#include "support/test.h"

#include "support/all_moves.h"
#include "support/saved_queue.h"

namespace delayqueue::store {
namespace {

using test::alike;
using test::AnyMove;
using test::Cells;
using test::SavedQueue;
using test::Scene;

// What counts in a queue: without totals and hints. Ids in lists are hints, too, unless their message waits there.
Cells meaning_of(const Cells& cells) {
  const auto has = [&](const char* place, const std::string& id) { return cells.count({place, id}) > 0; };
  Cells rest;
  for (const auto& [at, value] : cells) {
    const std::string& place = at.first;
    const std::string& id = at.second;
    if (place == "stats" || place == "wake" || place == "watch" || place.rfind("staged:", 0) == 0) continue;
    // A take that is refused may have used tokens and places. A place counts only while its message has a lease.
    if (place == "limits" || place == "running") continue;
    if (place == "attempts" && value == "0") continue;  // of a new message: an id that is still in retry is no delivery
    const bool in_list = place == "ready" || place == "retry";
    if (in_list && (!has("retry:cnt", id) || has("pending", id) || has("unack", id) || has("dead", id))) continue;
    rest[at] = in_list ? "waits" : value;
  }
  return rest;
}

// Moves of messages that were delivered more than once, and whose bodies have a TTL.
std::vector<AnyMove> moves_with_ttls() {
  static const auto add_ttls = [](Scene& scene) {
    for (const char* name : {"later", "ready", "retry", "held", "last", "back"}) {
      scene.cmd({"PEXPIRE", scene.keys().bodies + scene.id(name), "7200000"});
      scene.cmd({"HSET", scene.keys().attempts, scene.id(name), "5"});
    }
  };
  return {{"snooze",
           [](Scene& s) {
             s.run(&Moves::release, {s.receipt("held"), s.receipt("last"), s.receipt("cancel")}, 5min);
           },
           add_ttls},
          {"reschedule to a later time",
           [](Scene& s) {
             s.run(&Moves::reschedule, s.id("later"), {20min, 0});
           },
           add_ttls},
          {"reschedule to an earlier time",
           [](Scene& s) {
             s.run(&Moves::reschedule, s.id("later"), {1min, 0});
           },
           add_ttls},
          {"reschedule to now",
           [](Scene& s) {
             s.run(&Moves::reschedule, s.id("later"), {0ms, 0});
           },
           add_ttls},
          {"reschedule ready",
           [](Scene& s) {
             s.run(&Moves::reschedule, s.id("ready"), {20min, 0});
           },
           add_ttls},
          {"reschedule backing off",
           [](Scene& s) {
             s.run(&Moves::reschedule, s.id("back"), {20min, 0});
           },
           add_ttls}};
}

class BreakTest {
 public:
  explicit BreakTest(const AnyMove& move) : move_(move), saved_(prepared(scene_, move)) {}

  void run() {
    CAPTURE(move_.name);
    for (const bool cleans : {false, true}) {
      CAPTURE(cleans);
      start();
      REQUIRE(call() == "");
      finish(cleans);
      const Cells whole = meaning_of(saved_.cells());
      const std::string lost = scene_.lost();
      int succeeded = 0;  // although a write was refused: that is a hint
      for (int write = 0; succeeded < 5; ++write) {
        CAPTURE(write);
        start();
        scene_.break_at(write);
        refused_ = call();
        scene_.break_at(-1);
        if (refused_.empty()) {
          ++succeeded;
        } else {
          if (cleans) clean();
          scene_.repeat();
          CHECK(call() == "");
        }
        finish(cleans);
        CHECK(scene_.lost() == lost);
        if (write == 0 || !is_checked_first()) compare(whole);
      }
    }
  }

 private:
  static Scene& prepared(Scene& scene, const AnyMove& move) {
    test::put_messages_for(scene, move);
    return scene;
  }

  static Scene::Setup quick() {
    Scene::Setup setup;
    setup.recorded = false;
    setup.breakable = true;
    static const PrivateServer server;
    setup.socket = server.socket();
    return setup;
  }

  void start() {
    saved_.restore();
    scene_.repeat(false);
  }

  std::string call() {
    return test::refusal([&] { move_.run(scene_); });
  }

  void finish(bool cleans) {
    // While a list has ids, pending2unack only moves further ones there, and the consumer takes them next.
    if (move_.name == "pending2unack") scene_.run(&Moves::ready2unack, {200, 25, 200}, 1min);
    if (cleans) clean();
  }

  // What each consumer does now and then.
  void clean() {
    std::vector<std::string> ids;
    std::set<std::string> noted;
    for (const auto& [at, value] : saved_.cells()) {
      if (at.second.size() != 36) continue;
      if (at.first == "garbage") ids.push_back(at.second);
      if (at.first == "attempts" || at.first == "reason" || at.first == "headers" || at.first == "keys")
        noted.insert(at.second);
    }
    if (!ids.empty()) scene_.run(&Moves::gc, ids);
    if (!noted.empty()) scene_.run(&Moves::delete_orphaned_metadata, {noted.begin(), noted.end()});
  }

  void compare(const Cells& whole) {
    const Cells is = meaning_of(saved_.cells());
    std::set<std::pair<std::string, std::string>> all;
    for (const auto& cell : whole) all.insert(cell.first);
    for (const auto& cell : is) all.insert(cell.first);
    const auto value = [](const Cells& cells, const std::pair<std::string, std::string>& at) {
      const auto found = cells.find(at);
      return found == cells.end() ? std::string("-") : found->second;
    };
    for (const auto& at : all) {
      const std::string should_be = value(whole, at), now = value(is, at);
      CHECK_MESSAGE((alike(should_be, now) || is_allowed(at, whole, is)),
                    at.first << " " << at.second << ": " << now << " instead of " << should_be);
    }
  }

  // Whether the first write of the script is the refused command, too: then a user without the right fails there.
  bool is_checked_first() const {
    const std::string script = test::script_of(move_.name);
    const bool takes = script == "ready2unack" || script == "take_paced";
    const std::string first = takes ? "LTRIM" : "ZREM";
    const bool checks = takes || script == "unack2retry" || script == "release";
    return checks && refused_.find("NOPERM " + first + " ") != std::string::npos;
  }

  // The differences that no order of the writes could avoid.
  bool is_allowed(const std::pair<std::string, std::string>& at, const Cells& whole, const Cells& is) const {
    const std::string& place = at.first;
    const std::string& id = at.second;
    const auto ended = [&](const Cells& cells) { return cells.count({"msg", id}) == 0; };
    // What is left of a finished message, until a consumer finds it.
    if (place != "unique" && ended(whole) && ended(is)) return true;
    // A key that no message holds.
    const auto holds = [&](const std::string& one) {
      return is.count({"msg", one}) > 0 && is.count({"retry:cnt", one}) + is.count({"dead", one}) > 0;
    };
    if (place == "unique" && is.count(at) > 0 && !holds(is.at(at).substr(0, 36))) return true;
    if (place == "keys" && is.count(at) > 0 && !holds(id)) return true;
    // A TTL that was moved twice.
    const std::string script = test::script_of(move_.name);
    if (place == "msg" && (script == "reschedule" || script == "release" || script == "extend")) {
      const auto ttl = [](const std::string& body) { return std::stoll(body.substr(body.rfind(' '))); };
      return !ended(is) && ttl(is.at(at)) >= ttl(whole.at(at));
    }
    // Counted although the take was refused after it; a rescheduled message that is taken for the first time again.
    return script == "pending2unack" && place == "attempts" && refused_.find("ZREMRANGEBYRANK") != std::string::npos;
  }

  const AnyMove& move_;
  Scene scene_{quick()};
  SavedQueue saved_;
  std::string refused_;  // the error of the call that was refused
};

TEST_CASE("broken and repeated: each move, at each of its writes, ends as if it had never been refused") {
  for (const AnyMove& one : test::all_moves()) BreakTest(one).run();
  for (const AnyMove& one : moves_with_ttls()) BreakTest(one).run();
}

}  // namespace
}  // namespace delayqueue::store
