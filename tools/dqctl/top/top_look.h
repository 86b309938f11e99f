// What top shows, and the thread that looks for it: the screen answers to keys however long a server takes.
#pragma once

#include <delayqueue/inspector.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "context.h"
#include "stuck.h"

namespace dqctl {

// Per second, over the last interval.
struct Rates {
  double sent = 0, delivered = 0, acked = 0, failed = 0;
};

struct QueueSnapshot {
  std::string name{};
  delayqueue::Counts counts{};
  std::optional<milliseconds> oldest{};  // how long what is first in line waits: since it was due, or since it was sent
  std::string finding{};                 // the worst that dqctl stuck would warn of, with its level; empty: nothing
  std::optional<Rates> rates{};
  std::vector<double> history{};  // of acked, the latest last
  std::string error{};            // why nothing else is known
  bool unreachable = false;       // for its server could not be reached
};

// What is on the screen, and so to be looked at.
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
  std::optional<ViewRequest> request{};  // that messages, or message, answer to
  std::vector<QueueSnapshot> queues{};
  QueueSnapshot queue{};  // the one that is open
  delayqueue::MessagePage page{};
  std::optional<delayqueue::MessageInfo> message{};
  std::optional<Time> now{};  // by the server's clock
  std::string error{};        // why the last look failed; what else is here is of the one before
  std::chrono::steady_clock::time_point failing_since{};
  std::string notice{};       // how the last thing that was asked for went
  std::uint64_t notices = 0;  // grows with each
};

class Poller {
 public:
  // names: of the queues; empty: all there are. changed: called from the looking thread when sight() has changed.
  // The first look is taken here; throws what it throws. From then on the context is this one's.
  Poller(Context& context, std::vector<std::string> names, milliseconds interval, std::function<void()> changed);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  void start();
  void request_view(const ViewRequest& request);  // looks at once if that is new
  void set_paused(const std::string& queue, bool paused);
  Snapshot snapshot() const;

  // False if it is still waiting for a server then; it must not be destroyed before it has ended.
  bool stop(milliseconds limit);

 private:
  struct PreviousPoll {
    delayqueue::Totals totals{};
    std::optional<Rates> rates{};
    Time now{};
    std::deque<double> history{};
    std::optional<QueueState> state{};  // the first of two looks that are compared
    std::string finding{};              // of the last comparison
  };

  void run();
  void apply_pause(const std::string& queue, bool paused);
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
  std::map<std::string, PreviousPoll> previous_{};  // of the looking thread

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_, ended_;
  Snapshot snapshot_{};
  ViewRequest request_{};
  bool request_is_new_ = false;
  std::vector<std::pair<std::string, bool>> actions_{};
  bool stopping_ = false, has_ended_ = true, started_ = false;
  std::thread thread_{};
};

}  // namespace dqctl
