// What the tests of moves share: a queue with messages in every state, one move on it, and what the move changed.
#pragma once

#include "redis/connection.h"
#include "redis/script.h"
#include "store/moves.h"
#include "store/queries.h"
#include "support/server.h"

#include <delayqueue/error.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace test {

using std::chrono::milliseconds;

// Keeps a parameter out of template deduction, so that braces can be passed for it.
template <class T>
struct Same {
  using type = T;
};

// Where a message can be, as the scripts tell it.
enum class At { pending, ready, retry, held, held_by_go, backing_off, cancelled, dead, garbage, nowhere };

std::string to_string(At at);

// What is stored of it; what is not set is as the library would have it in that state.
struct Put {
  // zsets: due, end or given up at the scene's start + time. Half a minute off, so that `changes` never takes a time
  // that a move derives from it for one that the move's clock gave.
  milliseconds time{std::chrono::seconds(630)};
  std::string retries = "3";  // retry:cnt, of all but cancelled, dead, garbage
  std::string attempts{};     // empty: none, but of retry and dead "<n> <end of the last lease>"
  std::string reason{};
  milliseconds ttl{0};  // of the body
  std::string payload = "payload";
};

// A queue of its own on a server. Messages are spoken of by names of up to 6 characters.
//
// Every scene starts with bystanders, two in each state (their names start with '.'), none of them due, and totals in
// stats. `changes` shows them too, should a move touch one.
class Scene {
 public:
  struct Setup {
    delayqueue::store::Store::Options store{};
    bool lists = true;    // bystanders in ready and retry, too: they are older than what is put there
    bool watched = true;  // the state before and after each move is kept
    std::string socket = server().socket();
    delayqueue::redis::Login login{};
  };

  Scene() : Scene(Setup()) {}
  explicit Scene(Setup setup);
  ~Scene();
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  Scene& put(At at, const std::string& name, const Put& what = {});
  Scene& put_many(At at, const std::string& first_letter, int count, const Put& what = {});  // x000, x001 ...

  // The id of a name: ids sort as their names do.
  std::string id(const std::string& name);
  std::string_view keep(const std::string& name);  // the same, for as long as the scene
  std::vector<std::string> ids(const std::vector<std::string>& names);
  std::vector<std::string> many(const std::string& first_letter, int count);  // their ids

  // What a holder of the message would settle it with: the end that was put, or that a move gave it.
  delayqueue::store::Receipt receipt(const std::string& name);
  // The end of lease that attempts remembers.
  delayqueue::store::Receipt last_receipt(const std::string& name);
  std::vector<delayqueue::store::Receipt> receipts(const std::vector<std::string>& ids);

  // Runs one move of the store, and keeps the queue's state before and after it.
  template <class R, class... Words>
  R run(delayqueue::store::Answer<R> (delayqueue::store::Store::*move)(delayqueue::store::Pipeline&, Words...) const,
        typename Same<Words>::type... words) {
    delayqueue::store::Pipeline pipeline(*connection_);
    const auto answer = (store_.*move)(pipeline, words...);
    watch(pipeline);
    return answer.get();
  }

  // Runs a script as if Redis' clock stood at `now_us`; checks that the script reads the clock once.
  Reply run_at(std::int64_t now_us, const delayqueue::redis::Script& script, const std::vector<std::string>& keys,
               const std::vector<std::string>& arguments);

  // All that the last move changed, key by key, by name; empty if it changed nothing. Parts end in "; ":
  //   "pending -a +b@now+5m"  times that Redis' clock decided: not before it, and not later than the move took
  //   "unack c@lease+1m"      what moved, of a held message by kind: lease, go (whole seconds), backoff (whole ms)
  //   "ready [left right]"    a list, whole      "retry:cnt -d +e=3 f=2"      "stats sent+1"
  //   "attempts g=2,end"      the second word is the end that unack had      "msg -a +b=payload c(expires)"
  // A time that is no whole number of minutes from then or from the scene's start is shown in us.
  std::string changes() const;

  // Names of messages that were put alive and can be delivered (or, if dead, looked at) no more.
  std::string lost();

  std::int64_t start_ms() const { return start_us_ / 1000; }
  std::int64_t before_us() const { return before_us_; }
  std::int64_t after_us() const { return after_us_; }
  std::int64_t score_us(const std::string& zset, const std::string& name);  // 0: not there
  std::int64_t ttl_ms(const std::string& name);

  Reply cmd(const std::vector<std::string>& words) { return client_.cmd(words); }
  const delayqueue::store::Keys& keys() const { return store_.keys(); }
  const delayqueue::store::Store& store() const { return store_; }
  delayqueue::redis::Connection& connection() { return *connection_; }
  Snapshot state() { return snapshot(keys().base, client_); }
  std::int64_t now_us();

 private:
  void watch(delayqueue::store::Pipeline& pipeline);
  std::int64_t time_of(At at, const Put& what);
  std::string named(const std::string& text) const;  // with names for ids
  std::string change_of(const std::string& key) const;
  std::string member(const std::string& key, const std::string& id, const std::string& value) const;
  std::string time_text(const std::string& key, const std::string& score) const;

  const delayqueue::store::Store store_;
  Redis client_;
  std::unique_ptr<delayqueue::redis::Connection> connection_;
  std::int64_t start_us_ = 0;
  std::map<std::string, std::string> names_;  // by id
  std::map<std::string, At> alive_;           // by name
  std::int64_t spread_us_ = 0;
  const bool watched_;
  Snapshot before_, after_;
  std::int64_t before_us_ = 0, after_us_ = 0;
};

// The text of the ReplyError that the call throws; "" if it throws none.
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
