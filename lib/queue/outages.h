// Outages: which servers of a Client are away, since when, and the thread that tries to reach them again.
//
// If each call tried for itself, a web service would soon have all its threads in calls that wait for a dead server. So
// one thread of the Client tries for all its objects, by a request without a message: no send is put in doubt by an
// attempt. The calls wait for it as long as they may, or fail at once.
#pragma once

#include "os/interrupt.h"

#include <delayqueue/client.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace delayqueue {

// Any number of threads may use one. A server is named by its address; "": the only one.
class Outages {
 public:
  using Clock = std::chrono::steady_clock;

  // Connects to the owner of the slot, and sends a request. Throws as that does.
  using Probe = std::function<void(int slot)>;

  struct Away {
    Clock::time_point since;
    Clock::time_point first_probe;  // until then no call gives up
    std::string text;               // the last error, and how long the server has been away

    // When calls give up that bridge an outage of this length. One connection that died silently makes no call give up
    // that uses another: the outage is old when it is noticed, but nothing has been tried yet.
    Clock::time_point end(milliseconds length) const { return std::max(since + length, first_probe); }
  };

  // Called in the thread of the Outages: when the first probe of a server has failed, with the last error, and when
  // that outage has ended, with "". Before it, a server may have been slow for a moment.
  using Listener = std::function<void(const std::string& server, const std::string& why)>;

  explicit Outages(Probe probe);
  ~Outages();
  Outages(const Outages&) = delete;
  Outages& operator=(const Outages&) = delete;

  // A request to the server, or an attempt to connect, has failed because it is away. `slot`: one that it has; `since`:
  // when it was last heard of, or the attempt began; what began before a probe that has succeeded since says nothing.
  // The first call starts the thread. If the system refuses it, an outage could not be ended again, so none begins: it
  // returns false, and the calls try for themselves.
  bool failed(const std::string& server, int slot, const std::string& why, Clock::time_point since);

  // A request to the server has succeeded.
  void answered(const std::string& server) {
    if (any_) end(server);
  }

  bool any() const { return any_; }

  // Unset: calls may use the server.
  std::optional<Away> away(const std::string& server) const;

  // `owner` names the listener. After ignore() it is not called any more. A listener may call both.
  void listen(const void* owner, Listener listener);
  void ignore(const void* owner);

  // Waits until calls may use one of these servers. Returns false if there is none at this time.
  bool wait(const std::vector<std::string>& servers, Clock::time_point until) const;

 private:
  // An outage begins with a failure, and ends with the first request of a call that succeeds. After a successful probe
  // calls may use the server; it may still refuse their requests, and the outage goes on then since the same time.
  struct Outage {
    std::string server;
    int slot;
    Clock::time_point since;
    Clock::time_point noticed;
    std::string why{};
    int attempts = 0;
    std::optional<Clock::time_point> probed{};  // when a probe has succeeded: calls may use the server
    Clock::time_point next{};                   // when to probe
    bool told = false;                          // the listeners know of it
  };

  void end(const std::string& server);
  bool has_thread();
  void run();
  void read(const Outage& probed, const std::optional<std::string>& failure);
  void tell(const std::string& server, const std::string& why);
  void schedule(Outage& outage, Clock::time_point now);
  Outage* find(const std::string& server);
  const Outage* find_away(const std::string& server) const;

  const Probe probe_;
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;  // guards all members below
  mutable std::condition_variable changed_;
  std::vector<Outage> outages_;
  std::vector<std::string> ended_;  // servers whose end the listeners do not know yet
  std::minstd_rand random_;
  bool stopping_ = false;
  std::recursive_mutex listeners_mutex_;  // guards the next; held while a listener runs
  std::map<const void*, Listener> listeners_;
  std::unique_ptr<Interrupt> interrupt_;  // made with the thread
  std::thread thread_;
};

}  // namespace delayqueue
