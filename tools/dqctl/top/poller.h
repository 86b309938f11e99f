// Polls Redis for dqctl top in a separate thread, so that the screen reacts to keys while a server is slow.
#pragma once

#include <delayqueue/inspector.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "context.h"
#include "stuck.h"
#include "top/changes.h"

namespace dqctl {

// Events per second, over the last interval.
struct Rates {
  double sent = 0, delivered = 0, acked = 0, failed = 0;
};

struct QueueSnapshot {
  std::string name{};
  delayqueue::Counts counts{};
  std::optional<milliseconds> oldest{};  // for how long the oldest message has waited; see FindingWatch
  std::string finding{};                 // worst finding of dqctl stuck, with its level; empty: none
  std::optional<Rates> rates{};
  std::vector<double> history{};  // acked per second, latest last
  std::string error{};            // why the queue could not be read; the fields above are then unset
  bool unreachable = false;       // the error is a failed connection
};

// The data that the current screen needs.
struct ViewRequest {
  enum class View { queues, messages, message };

  View view = View::queues;
  std::string queue{};
  delayqueue::State state = delayqueue::State::pending;
  std::string cursor{};
  std::size_t limit = 20;
  std::string id{};
};

bool operator==(const ViewRequest& a, const ViewRequest& b);

struct Snapshot {
  std::optional<ViewRequest> request{};  // the request that page or message answers
  std::vector<QueueSnapshot> queues{};
  QueueSnapshot queue{};  // the opened queue
  delayqueue::MessagePage page{};
  std::optional<delayqueue::MessageInfo> message{};
  std::optional<Time> now{};  // by Redis' clock
  std::string error{};        // why the last poll failed; the other fields are then from the poll before
  std::chrono::steady_clock::time_point failing_since{};
  std::string notice{};       // result of the last change, or its progress
  std::uint64_t notices = 0;  // number of notices so far
};

class Poller {
 public:
  // names: the queues to poll; empty: all queues. changed: called by the polling thread after each change of
  // snapshot(). The constructor polls once, and throws if that fails. From then on only this object may use the
  // context.
  Poller(Context& context, std::vector<std::string> names, milliseconds interval, std::function<void()> changed);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  void start();
  void request_view(const ViewRequest& request);  // polls at once if it is a new request
  void request_change(const TopChange& change);
  Snapshot snapshot() const;

  // Stops the thread. False: after `limit` the thread still waits for a server. Then do not destroy this object.
  bool stop(milliseconds limit);

 private:
  struct PreviousPoll {
    delayqueue::Totals totals{};
    std::optional<Rates> rates{};
    Time now{};
    std::deque<double> history{};
    FindingWatch findings{};
  };

  void run();
  void make_change(const TopChange& change);
  void notify(const std::string& text);
  void continue_redrive();
  void end_redrive();
  void poll(const ViewRequest& request);
  QueueSnapshot read_queue(const std::string& name);
  std::string update_finding(const std::string& name, const QueueState& now);
  std::optional<Rates> update_rates(const std::string& name, const delayqueue::Counts& counts,
                                    std::vector<double>& history);
  void publish(const std::function<void(Snapshot&)>& change);

  Context& context_;
  const std::vector<std::string> names_;
  const milliseconds interval_;
  const std::function<void()> changed_;
  std::map<std::string, PreviousPoll> previous_{};  // used by the polling thread only
  std::unique_ptr<RedriveRun> redrive_{};           // used by the polling thread only

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable wake_, ended_;
  Snapshot snapshot_{};
  ViewRequest request_{};
  bool request_is_new_ = false;
  std::vector<TopChange> changes_{};
  bool stopping_ = false, has_ended_ = true, started_ = false;
  std::thread thread_{};
};

}  // namespace dqctl
