// The topology of a master and its replicas that are monitored by Sentinels.
#include "os/interrupt.h"
#include "os/resources.h"
#include "redis/escaped.h"
#include "redis/pipeline.h"
#include "redis/topology.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace delayqueue::redis {
namespace {

constexpr milliseconds kPollInterval{500};  // of the master's address, in case a +switch-master message is lost
constexpr milliseconds kSentinelCommandTimeout{500};
constexpr milliseconds kListenTime{10'000};     // to one Sentinel, then to the next: one may be partitioned
constexpr milliseconds kRollbackDelay{10'000};  // a lower epoch is accepted after it was the majority's for so long
constexpr milliseconds kFailurePause{10};       // after one Sentinel has failed
constexpr milliseconds kRefusedPause{5000};     // after a refused login: retrying soon may lock the account

// The options for connections to Sentinels. Credentials of the data nodes are not sent to them.
ClientOptions to_sentinels(const ClientOptions& options) {
  ClientOptions own = with_probe_timeout(options);
  own.command_timeout = std::min(options.command_timeout, kSentinelCommandTimeout);
  own.tls = options.sentinel.tls.value_or(options.tls);
  return own;
}

Login login_to_sentinels(const ClientOptions& options) {
  Login login;
  login.user = options.sentinel.user;
  login.password = options.sentinel.password;
  login.client_name = options.client_name.empty() ? "delayqueue" : options.client_name;
  return login;
}

// The master that a Sentinel reports, with its configuration epoch: each failover has a greater one.
struct MasterView {
  Address master;
  long long epoch = -1;
};

bool older(const MasterView& a, const MasterView& b) { return a.epoch < b.epoch; }
bool agree(const MasterView& a, const MasterView& b) { return a.master.text() == b.master.text(); }
bool is_outdated(const MasterView& view, const MasterView& known) { return older(view, known) && !agree(view, known); }

class SentinelTopology : public Topology {
 public:
  SentinelTopology(const Url& url, const ClientOptions& options)
      : name_(url.master),
        where_(url.text()),
        login_(login_of(url, options)),
        options_(options),
        sentinel_login_(login_to_sentinels(options)),
        sentinel_options_(to_sentinels(options)),
        tls_(url.addresses.front().tls),
        all_(addresses_of(url, options)),
        preferred_(all_) {}

  ~SentinelTopology() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (const auto& shutdown_handle : listening_) shutdown_handle->shut_down();
    }
    interrupt_.raise();
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<Connection> connect(int /*slot*/) override {
    const Deadline deadline = Clock::now() + options_.connect_timeout;
    start_listener();
    for (;;) {
      const bool queried_all = is_unconfirmed();
      if (queried_all) query_all(deadline);
      try {
        return first_success(preferred(), "cannot reach the master '" + name_ + "' through " + where_, deadline,
                             [this](const Address& sentinel) { return connect_via(sentinel); });
      } catch (const ConnectionError&) {
        if (queried_all || !is_unconfirmed() || Clock::now() >= deadline) throw;
      }
    }
  }

  // Includes replicas that a Sentinel reports as down: they may come back.
  std::vector<Address> servers() override {
    return first_success(preferred(), "cannot list the servers of the master '" + name_ + "' through " + where_,
                         Clock::now() + options_.connect_timeout,
                         [this](const Address& sentinel) { return servers_via(*open(sentinel)); });
  }

  std::unique_ptr<Connection> dial(const Address& server) override {
    return std::make_unique<Connection>(server, login_, options_);
  }

 private:
  static std::vector<Address> addresses_of(const Url& url, const ClientOptions& options) {
    std::vector<Address> addresses = url.addresses;
    for (Address& sentinel : addresses) sentinel.tls = options.sentinel.encrypted.value_or(sentinel.tls);
    return addresses;
  }

  // ---- Queries, in the thread of the caller ----

  void start_listener() {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) return;
    thread_ = start_thread<ConnectionError>("listening to " + where_, [this] { run_listener(); });
  }

  std::vector<Address> preferred() {
    const std::lock_guard lock(mutex_);
    return preferred_;
  }

  std::unique_ptr<Connection> open(const Address& sentinel) const {
    return std::make_unique<Connection>(sentinel, sentinel_login_, sentinel_options_);
  }

  std::unique_ptr<Connection> connect_via(const Address& sentinel) {
    MasterView view;
    try {
      view = newest(query(*open(sentinel)));
      auto connection = dial(view.master);
      check_role(*connection);
      track(view, *connection);
      prefer(sentinel, true);
      return connection;
    } catch (const Error&) {
      mark_unconfirmed(view);
      prefer(sentinel, false);
      throw;
    }
  }

  std::vector<Address> servers_via(Connection& sentinel) {
    std::vector<Address> servers = {newest(query(sentinel)).master};
    Pipeline pipeline(sentinel);
    pipeline.command("SENTINEL").arg("REPLICAS").arg(name_);
    pipeline.run();
    const Reply replicas = pipeline.reply(0);
    for (std::size_t i = 0; i < replicas.size() && servers.size() < kMostNodes; ++i) {
      Address server;
      for (std::size_t field = 0; field + 1 < replicas[i].size(); field += 2) {
        const Reply value = replicas[i][field + 1];
        if (replicas[i][field].text() == "ip") server.host = value.text();
        if (replicas[i][field].text() == "port") server.port = port_of(value, sentinel);
      }
      server.tls = tls_;
      const auto same = [&](const Address& known) { return known.text() == server.text(); };
      if (server.host.empty() || std::any_of(servers.begin(), servers.end(), same)) continue;
      servers.push_back(server);
    }
    return servers;
  }

  MasterView query(Connection& sentinel) const {
    Pipeline pipeline(sentinel);
    // The epoch first: after a failover in between, the view has the old epoch with the new address, which is safe.
    pipeline.command("SENTINEL").arg("MASTER").arg(name_);
    pipeline.command("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name_);
    pipeline.run();
    const Reply address = pipeline.reply(1);
    if (address.is_nil()) {
      throw ReplyError("the Sentinel at " + sentinel.where() + " monitors no master '" + name_ + "'; check the URL");
    }
    MasterView view;
    view.master.host = address[0].text();
    view.master.port = port_of(address[1], sentinel);
    view.master.tls = tls_;
    const Reply fields = pipeline.reply(0);
    for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
      if (fields[i].text() == "config-epoch") view.epoch = std::max(view.epoch, fields[i + 1].integer());
    }
    return view;
  }

  void check_role(Connection& connection) const {
    Pipeline pipeline(connection);
    pipeline.command("ROLE");
    pipeline.run();
    const std::string role(pipeline.reply(0)[0].text());
    if (role == "master") return;
    throw ConnectionError(connection.where() + ", reported as master '" + name_ + "' by the Sentinels, has the role " +
                          escaped(role) + "; a failover may be under way");
  }

  bool is_unconfirmed() {
    const std::lock_guard lock(mutex_);
    return unconfirmed_;
  }

  // Queries every Sentinel and takes the view with the greatest epoch: the first one that answers may have missed the
  // last failover.
  void query_all(Deadline deadline) {
    std::vector<MasterView> views;
    for (const Address& sentinel : preferred()) {
      if (Clock::now() >= deadline || is_stopping()) break;
      try {
        views.push_back(query(*open(sentinel)));
        adopt_if_newer(views.back());
      } catch (const Error&) {  // not reported here: connect_via() gets and reports the same error
        prefer(sentinel, false);
      }
    }
    if (views.empty()) return;
    const MasterView& greatest = *std::max_element(views.begin(), views.end(), older);
    const auto same = [&](const MasterView& view) { return agree(view, greatest); };
    const auto votes = static_cast<std::size_t>(std::count_if(views.begin(), views.end(), same));
    const std::lock_guard lock(mutex_);
    const bool outdated = is_outdated(greatest, known_);
    if (!outdated || accepts_rollback(greatest, votes)) adopt(greatest);
    unconfirmed_ = outdated || !is_majority(views.size());
  }

  bool is_majority(std::size_t count) const { return 2 * count > all_.size(); }

  // Whether to accept a view with a lower epoch. Sentinels that were set up again count epochs from the beginning. But
  // Sentinels that have missed a failover may also be the majority of those in the URL, for less than kRollbackDelay.
  // Requires the lock.
  bool accepts_rollback(const MasterView& view, std::size_t votes) {
    if (!is_majority(votes)) return false;
    if (!agree(view, rollback_)) {
      rollback_ = view;
      rollback_since_ = Clock::now();
    }
    return Clock::now() - rollback_since_ >= kRollbackDelay;
  }

  void adopt_if_newer(const MasterView& view) {
    const std::lock_guard lock(mutex_);
    if (older(known_, view)) adopt(view);
  }

  // The newer one of `view` and the known one: Sentinels do not all learn of a failover at the same moment.
  MasterView newest(const MasterView& view) {
    const std::lock_guard lock(mutex_);
    if (older(view, known_)) return known_;
    rollback_ = {};
    return view;
  }

  // Registers a connection to the master, so that adopt() can shut it down.
  void track(const MasterView& view, Connection& connection) {
    const std::lock_guard lock(mutex_);
    if (is_outdated(view, known_)) {
      throw ConnectionError(connection.where() + " has just been replaced as master '" + name_ + "' by " +
                            known_.master.text());
    }
    if (older(known_, view) || !agree(view, known_)) adopt(view);
    shutdown_handles_.emplace_back(view.master.text(), connection.shutdown_handle());
  }

  void mark_unconfirmed(const MasterView& view) {
    const std::lock_guard lock(mutex_);
    if (agree(view, known_)) unconfirmed_ = true;
  }

  // Moves a Sentinel to the front of the order of queries, or to its end.
  void prefer(const Address& sentinel, bool first) {
    const std::lock_guard lock(mutex_);
    const auto goes_before = [&](const Address& other) { return (other.text() == sentinel.text()) == first; };
    std::stable_partition(preferred_.begin(), preferred_.end(), goes_before);
  }

  // ---- The listener thread ----

  void run_listener() {
    const Interrupt::Scope until(interrupt_);
    std::size_t next = 0;
    milliseconds pause{0};
    Deadline next_query = Clock::now() + kPollInterval;  // not at once: connect() has just queried all Sentinels
    while (!is_stopping(pause)) {
      try {
        const bool refused = pause == kRefusedPause;
        pause = milliseconds(0);
        if (!refused && is_unconfirmed() && Clock::now() >= next_query) {
          next_query = Clock::now() + kPollInterval;
          query_all(Clock::now() + options_.connect_timeout);
          if (is_stopping()) return;
        }
        listen(all_[next++ % all_.size()]);
      } catch (const AccessDenied&) {
        pause = kRefusedPause;
      } catch (const std::exception&) {  // not reported here: connect() gets and reports the same error
        pause = next % all_.size() == 0 ? kPollInterval : kFailurePause;
      }
    }
  }

  // Follows one Sentinel for kListenTime. Throws if the connection is lost, or if the Sentinel's view is outdated.
  void listen(const Address& sentinel) {
    const auto subscription = open(sentinel);
    const auto queries = open(sentinel);
    {
      const std::lock_guard lock(mutex_);
      listening_ = {subscription->shutdown_handle(), queries->shutdown_handle()};
      if (stopping_) return;
    }
    std::string subscribe;
    append_command(subscribe, {"SUBSCRIBE", "+switch-master"});
    subscription->write(subscribe);
    for (const Deadline until = Clock::now() + kListenTime; Clock::now() < until;) {
      adopt_unless_outdated(query(*queries), sentinel);
      subscription->read_until(Clock::now() + kPollInterval);  // any message only ends the wait for the next query
    }
  }

  void adopt_unless_outdated(const MasterView& view, const Address& sentinel) {
    const std::lock_guard lock(mutex_);
    if (is_outdated(view, known_)) {
      unconfirmed_ = true;
      throw ConnectionError(sentinel.text() + " is behind the other Sentinels");
    }
    adopt(view);
  }

  // Sets the known master and shuts down the connections to all others. Requires the lock.
  void adopt(const MasterView& view) {
    known_ = view;
    rollback_ = {};
    for (const auto& [address, weak] : shutdown_handles_) {
      const auto shutdown_handle = weak.lock();
      if (shutdown_handle != nullptr && address != view.master.text()) shutdown_handle->shut_down();
    }
    const auto ended = [](const auto& shutdown_handle) { return shutdown_handle.second.expired(); };
    shutdown_handles_.erase(std::remove_if(shutdown_handles_.begin(), shutdown_handles_.end(), ended),
                            shutdown_handles_.end());
  }

  // Waits for `pause`, or until the destructor runs; returns whether it runs.
  bool is_stopping(milliseconds pause = {}) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, pause, [this] { return stopping_; });
  }

  const std::string name_;
  const std::string where_;
  const Login login_;
  const ClientOptions options_;
  const Login sentinel_login_;
  const ClientOptions sentinel_options_;
  const bool tls_;  // of the data nodes
  const std::vector<Address> all_;

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<Address> preferred_;  // the Sentinels in the order of queries: the last successful one first
  MasterView known_;                // the newest view
  MasterView rollback_;             // a view of the majority that is older than known_
  Clock::time_point rollback_since_;
  bool unconfirmed_ = true;  // known_ may be outdated: all Sentinels are to be queried
  // Connections to masters, by the master's address.
  std::vector<std::pair<std::string, std::weak_ptr<ShutdownHandle>>> shutdown_handles_;
  std::vector<std::shared_ptr<ShutdownHandle>> listening_;  // connections of thread_
  bool stopping_ = false;
  Interrupt interrupt_;  // of thread_
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Topology> sentinels(const Url& url, const ClientOptions& options) {
  return std::make_unique<SentinelTopology>(url, options);
}

}  // namespace delayqueue::redis
