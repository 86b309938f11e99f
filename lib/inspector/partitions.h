// The partitions of one queue as an Inspector or QueueAdmin uses them: the connection to each, the layout, and calls
// that concern many of them. A queue without partitions has one, and then a call costs what it costs for that one.
#pragma once

#include "queue/layout_keeper.h"
#include "queue/shared_connection.h"

#include <delayqueue/error.h>
#include <delayqueue/inspector.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace delayqueue {

// The answer of one partition to a request that was sent to many.
template <class T>
struct PartitionAnswer {
  unsigned partition = 0;
  std::string server{};      // that answered; empty: none
  std::optional<T> value{};  // unset: there is an error
  std::exception_ptr error{};

  const T& get() const {
    if (error != nullptr) std::rethrow_exception(error);
    return *value;
  }
};

// Any number of threads may use one object.
class Partitions {
 public:
  // `lost`: whether this object updates copies of the layout that are behind. Throws std::invalid_argument.
  Partitions(const Client& client, const std::string& queue, const InspectorOptions& options, LostCopies lost);

  SharedConnection& home() { return home_; }  // of partition 0
  SharedConnection& of(unsigned partition);   // the reference stays valid

  LayoutKeeper& layout() { return layout_; }

  // The partition of InspectorOptions; unset: calls concern the whole queue.
  std::optional<unsigned> only() const { return only_; }

  // Throws std::invalid_argument if the queue does not have that partition. All calls below do this, too. Changes no
  // copy of the layout.
  void check_only();

  // The partitions that a call for the whole queue concerns, as the copies of the layout tell now.
  std::vector<unsigned> all() { return all(lost_); }
  std::vector<unsigned> all(LostCopies lost);

  // Their number, as the copies told when this object last read them. Reads them if it never did.
  unsigned top();

  // Sends the requests of these partitions, and reads their answers: one round trip to each server. `add` adds those of
  // one partition to a pipeline. It returns the function that reads the answers; this gets the address of the server.
  // If that fails, or the server does not answer, `fail` is called for the partition.
  using Read = std::function<void(const std::string& server)>;
  using Add = std::function<Read(redis::Pipeline&, unsigned partition)>;
  using Fail = std::function<void(unsigned partition, const std::exception_ptr&)>;
  void exchange(std::vector<unsigned> partitions, const Add& add, const Fail& fail);

  // The answers of all partitions, each read at its own moment. `ask(pipeline, store)` adds one request. Reads the
  // copies of the layout with the same requests.
  template <class Ask>
  auto ask_all(Ask ask) {
    using Asked = std::invoke_result_t<Ask, redis::Pipeline&, const store::Moves&>;
    using T = std::decay_t<decltype(std::declval<Asked>().get())>;
    std::vector<PartitionAnswer<T>> answers;
    const auto answer_of = [&](unsigned partition) -> PartitionAnswer<T>* {
      if (only_) return &answers.front();
      return partition < answers.size() ? &answers[partition] : nullptr;
    };
    const Add add = [&](redis::Pipeline& pipeline, unsigned partition) -> Read {
      PartitionAnswer<T>* const answer = answer_of(partition);
      const std::optional<Asked> asked =
          answer != nullptr ? std::optional<Asked>(ask(pipeline, of(partition).moves())) : std::nullopt;
      const auto learn = add_copy(pipeline, partition);
      return [answer, asked, learn](const std::string& server) {
        learn();
        if (answer == nullptr) return;
        answer->value = asked->get();
        answer->server = server;
      };
    };
    const Fail fail = [&](unsigned partition, const std::exception_ptr& error) {
      if (PartitionAnswer<T>* const answer = answer_of(partition)) answer->error = error;
    };
    while (true) {
      std::vector<unsigned> partitions = further(answers.size());
      if (partitions.empty()) return answers;
      for (const unsigned partition : partitions) answers.push_back({partition});
      if (needs_copy(answers.size())) partitions.push_back(1);
      exchange(std::move(partitions), add, fail);
    }
  }

  // The partitions that the ids belong to. Throws as LayoutKeeper::partitions_of, and as all().
  std::vector<unsigned> of_ids(const std::vector<std::string>& ids);

  // Calls `call(connection, ids)` for the ids of each partition, and returns the results in the order of `ids`.
  // `where`: the partition of each id. If a call fails, the others are made nevertheless, unless their server is away,
  // too; then the first error is thrown.
  template <class Call>
  auto by_partition(const std::vector<unsigned>& where, const std::vector<std::string>& ids, Call call) {
    std::invoke_result_t<Call, SharedConnection&, const std::vector<std::string>&> all;
    all.resize(ids.size());
    std::map<unsigned, std::vector<std::size_t>> places;
    for (std::size_t i = 0; i < ids.size(); ++i) places[where[i]].push_back(i);
    std::exception_ptr error;
    std::vector<SharedConnection*> away;
    for (const auto& one : places) {
      SharedConnection& connection = of(one.first);
      if (std::any_of(away.begin(), away.end(),
                      [&](SharedConnection* other) { return share_master(*other, connection); }))
        continue;
      std::vector<std::string> some;
      for (const std::size_t place : one.second) some.push_back(ids[place]);
      try {
        auto results = call(connection, some);
        for (std::size_t i = 0; i < some.size(); ++i) all[one.second[i]] = std::move(results[i]);
      } catch (const Error& e) {
        if (error == nullptr) error = std::current_exception();
        if (dynamic_cast<const ConnectionError*>(&e) != nullptr) away.push_back(&connection);
      }
    }
    if (error != nullptr) std::rethrow_exception(error);
    return all;
  }

  // Wakes an idle consumer for each of these partitions. Ignores a refusal, for example because Redis is out of memory,
  // and for other partitions than 0 that partition 0 is away: a marker is only a hint.
  void wake(const std::set<unsigned>& partitions);

  // Looks for keys of all partitions that a queue can have: see LayoutKeeper::probe(). One round trip to each server,
  // two to that of partition 0. complete: throws if one of them cannot be examined. reachable: leaves it out; a user
  // without rights for other partitions finds none.
  enum class Probe { complete, reachable };
  std::vector<unsigned> probe(Probe which);

  // What the copies of the layout in partitions 0 and 1 have lost, as those of all partitions and what this object has
  // read before tell. Changes none. Nothing if one of the two cannot be read, or for only().
  struct Lost {
    store::Layout named{}, whole{};    // by the copies of partitions 0 and 1; with all others
    std::vector<unsigned> uncopied{};  // beyond the whole: have messages, but no copy

    bool is_layout() const { return store::merged(named, whole) != named; }
  };
  Lost find_lost();

 private:
  std::vector<unsigned> further(std::size_t asked);
  bool needs_copy(std::size_t asked);
  std::function<void()> add_copy(redis::Pipeline& pipeline, unsigned partition);
  static bool share_master(SharedConnection& a, SharedConnection& b) {
    return a.endpoint().shares_master(b.endpoint());
  }

  SharedConnection home_;
  const std::optional<unsigned> only_;
  const LostCopies lost_;
  LayoutKeeper layout_;
  std::atomic<bool> read_{false};        // a copy of the layout was read once
  std::atomic<bool> asked_copy_{false};  // so was that of partition 1 by ask_all()
  std::mutex mutex_;                     // guards others_
  std::map<unsigned, std::unique_ptr<SharedConnection>> others_;
};

}  // namespace delayqueue
