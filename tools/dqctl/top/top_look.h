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

struct QueueLook {
  std::string name{};
  delayqueue::Counts counts{};
  std::optional<milliseconds> oldest{};  // how long what is first in line waits: since it was due, or since it was sent
  std::string finding{};                 // the worst that dqctl stuck would warn of, with its level; empty: nothing
  std::optional<Rates> rates{};
  std::vector<double> history{};  // of acked, the latest last
  std::string trouble{};          // why nothing else is known
  bool away = false;              // for its server could not be reached
};

// What is on the screen, and so to be looked at.
struct Wish {
  enum class View { queues, messages, message };

  View view = View::queues;
  std::string queue{};
  delayqueue::State state = delayqueue::State::pending;
  std::string cursor{};
  std::size_t limit = 20;
  std::string id{};
};

bool operator==(const Wish& a, const Wish& b);

struct Sight {
  std::optional<Wish> wish{};  // that messages, or message, answer to
  std::vector<QueueLook> queues{};
  QueueLook queue{};  // the one that is open
  delayqueue::MessagePage page{};
  std::optional<delayqueue::MessageInfo> message{};
  std::optional<Time> now{};  // by the server's clock
  std::string trouble{};      // why the last look failed; what else is here is of the one before
  std::chrono::steady_clock::time_point trouble_since{};
  std::string notice{};       // how the last thing that was asked for went
  std::uint64_t notices = 0;  // grows with each
};

class Looker {
 public:
  // names: of the queues; empty: all there are. changed: called from the looking thread when sight() has changed.
  // The first look is taken here; throws what it throws. From then on the context is this one's.
  Looker(Context& context, std::vector<std::string> names, milliseconds interval, std::function<void()> changed);
  ~Looker();
  Looker(const Looker&) = delete;
  Looker& operator=(const Looker&) = delete;

  void start();
  void want(const Wish& wish);  // looks at once if that is new
  void set_paused(const std::string& queue, bool paused);
  Sight sight() const;

  // False if it is still waiting for a server then; it must not be destroyed before it has ended.
  bool stop(milliseconds limit);

 private:
  struct Before {
    delayqueue::Totals totals{};
    std::optional<Rates> rates{};
    Time now{};
    std::deque<double> history{};
    std::optional<QueueState> state{};  // the first of two looks that are compared
    std::string finding{};              // of the last comparison
  };

  void run();
  void act(const std::string& queue, bool paused);
  void look(const Wish& wish);
  QueueLook look_at(const std::string& name);
  std::string finding_of(const std::string& name, const QueueState& now);
  std::optional<Rates> rates_of(const std::string& name, const delayqueue::Counts& counts,
                                std::vector<double>& history);
  void publish(const std::function<void(Sight&)>& change);

  Context& context_;
  const std::vector<std::string> names_;
  const milliseconds interval_;
  const std::function<void()> changed_;
  std::map<std::string, Before> before_{};  // of the looking thread

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wanted_, ended_;
  Sight sight_{};
  Wish wish_{};
  bool wish_is_new_ = false;
  std::vector<std::pair<std::string, bool>> actions_{};
  bool stopping_ = false, has_ended_ = true, started_ = false;
  std::thread thread_{};
};

}  // namespace dqctl
