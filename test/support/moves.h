// A queue with messages in every state, for the tests of moves: runs one move on it and reports what the move changed.
#pragma once

#include "redis/connection.h"
#include "redis/script.h"
#include "store/moves.h"
#include "store/queries.h"
#include "store/script_calls.h"
#include "support/server.h"

namespace test {

using std::chrono::milliseconds;

// Excludes a parameter from template deduction, so that a braced list can be passed for it.
template <class T>
struct Same {
  using type = T;
};

// The states that the scripts distinguish.
enum class At { pending, ready, retry, held, held_by_go, backing_off, cancelled, dead, garbage, nowhere };

std::string to_string(At at);
std::vector<At> all_but(const std::vector<At>& some);  // the other states, in their order

// The stored fields of a message. Fields that are not set get the values that the library would store in that state.
struct Put {
  // In zsets: the due time, the lease end or the time of death is the scene's start plus `time`. The default is half a
  // minute off, so that `changes` does not confuse it with a time that the move took from Redis' clock.
  milliseconds time{std::chrono::seconds(630)};
  std::string retries = "3";  // retry:cnt; not set for cancelled, dead and garbage
  std::string attempts{};     // empty: none, except "<n> <end of the last lease>" for retry and dead
  std::string reason{};
  milliseconds ttl{0};  // TTL of the body
  std::string payload = "payload";
  std::string headers{};  // packed
};

// The names of the keys of a call, in the order of its manifest, and those that follow.
template <class KeyNames>
std::vector<std::string> key_names(const KeyNames& keys, const std::vector<std::string>& more = {}) {
  std::vector<std::string> names;
  for (const delayqueue::store::KeyName& key : keys) names.push_back(std::string(key.front) + std::string(key.back));
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

// A fresh queue on a server. Messages have names of up to 6 characters.
//
// Every scene starts with two bystanders in each state, none of them due, and with totals in stats. The names of
// bystanders start with '.'. `changes` shows a bystander that a move changed.
class Scene {
 public:
  struct Setup {
    static Setup without_lists();  // for moves that take messages: no bystanders come first

    delayqueue::store::Moves::Options moves{};
    bool lists = true;     // false: no bystanders in ready and retry, where they come first
    bool recorded = true;  // record the state before and after each move
    std::string socket = server().socket();
    delayqueue::redis::Login login{};
    bool breakable = false;  // for break_at()
  };

  Scene() : Scene(Setup()) {}
  explicit Scene(Setup setup);
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  Scene& put(At at, const std::string& name, const Put& what = {});
  Scene& put_many(At at, const std::string& first_letter, int count, const Put& what = {});  // x000, x001 ...

  // The id of a name. Ids sort like their names.
  std::string id(const std::string& name);
  std::string_view keep(const std::string& name);  // the same; valid as long as the scene
  std::vector<std::string> ids(const std::vector<std::string>& names);
  std::vector<std::string> many(const std::string& first_letter, int count);  // the ids of put_many

  // The receipt that the message's holder has: the lease end in unack.
  delayqueue::store::Receipt receipt(const std::string& name);
  // A receipt with the lease end that attempts holds.
  delayqueue::store::Receipt last_receipt(const std::string& name);
  std::vector<delayqueue::store::Receipt> receipts(const std::vector<std::string>& ids);

  // Runs one move of the store, and records the queue's state before and after it.
  template <class R, class... Words>
  R run(delayqueue::store::Answer<R> (delayqueue::store::Moves::*move)(delayqueue::store::Pipeline&, Words...) const,
        typename Same<Words>::type... words) {
    delayqueue::store::Pipeline pipeline(*connection_);
    const auto answer = (moves_.*move)(pipeline, words...);
    run_recorded(pipeline);
    return answer.get();
  }

  // From now on Redis refuses the given write of each script that a move runs (0: the first one), and all later writes
  // with the same command, as for a user who has lost the right to it. -1: none. A line is added in front of the
  // script.
  void break_at(int write) { *broken_write_ = write; }

  // From now on the calls of moves are repetitions: receipt() and last_receipt() return what they returned first, and
  // is_first() is false.
  void repeat(bool repeats = true) { repeats_ = repeats; }
  bool is_first() const { return !repeats_; }

  // Runs a script as if Redis' clock showed `now_us`. Checks that the script reads the clock once.
  Reply run_at(std::int64_t now_us, const delayqueue::redis::Script& script, const std::vector<std::string>& keys,
               const std::vector<std::string>& arguments);

  // What the last move changed, key by key, in the order of the key names; "" if nothing. Parts end in "; ":
  //   "pending -a +b@now+5m"  times taken from Redis' clock while the move ran
  //   "unack c@lease+1m"      what moved, of a held message by kind: lease, go (whole seconds), backoff (whole ms)
  //   "ready [left right]"    a list, whole      "retry:cnt -d +e=3 f=2"      "stats sent+1"
  //   "attempts g=2,end"      the second word is the end that unack had      "msg -a +b=payload c(expires)"
  // A time that is no whole number of minutes after the move or the scene's start is shown in us.
  std::string changes() const;

  // Names of messages that were alive when put, and now cannot be delivered or, if dead, have lost their body or place.
  std::string lost();

  std::int64_t start_ms() const { return start_us_ / 1000; }
  std::int64_t before_us() const { return before_us_; }
  std::int64_t after_us() const { return after_us_; }
  std::int64_t score_us(const std::string& zset, const std::string& name);  // 0: not a member
  std::int64_t ttl_ms(const std::string& name);

  Reply cmd(const std::vector<std::string>& words) { return client_.cmd(words); }
  const delayqueue::store::Keys& keys() const { return moves_.keys(); }
  const delayqueue::store::Moves& moves() const { return moves_; }
  delayqueue::redis::Connection& connection() { return *connection_; }
  Snapshot state() { return snapshot(keys().base, client_); }
  std::int64_t now_us();

 private:
  void run_recorded(delayqueue::store::Pipeline& pipeline);
  std::int64_t time_of(At at, const Put& what);
  std::string named(const std::string& text) const;  // replaces ids by names
  std::string change_of(const std::string& key) const;
  std::string member(const std::string& key, const std::string& id, const std::string& value) const;
  std::string time_text(const std::string& key, const std::string& score) const;
  delayqueue::store::Receipt first(const std::string& key, delayqueue::store::Receipt receipt);

  const delayqueue::store::Moves moves_;
  Redis client_;
  const std::shared_ptr<int> broken_write_ = std::make_shared<int>(-1);
  std::unique_ptr<delayqueue::redis::Connection> connection_;
  std::int64_t start_us_ = 0;
  std::map<std::string, std::string> names_;  // by id
  std::map<std::string, At> alive_;           // by name
  std::int64_t spread_us_ = 0;
  const bool recorded_;
  bool repeats_ = false;
  std::map<std::string, delayqueue::store::Receipt> receipts_;  // as they were returned first
  Snapshot before_, after_;
  std::int64_t before_us_ = 0, after_us_ = 0;
};

// Returns the text of the ReplyError that the call throws, or "".
template <class Call>
std::string refusal(Call call) {
  try {
    call();
    return "";
  } catch (const delayqueue::ReplyError& e) {
    return e.what();
  }
}

}  // namespace test
