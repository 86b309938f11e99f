// A master and its replicas, watched over by Sentinels.
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

constexpr milliseconds kLook{500};  // between looks at the master's address, should the news of a switch get lost
constexpr milliseconds kSentinelAnswers{500};

// Of the Sentinels themselves: nothing of how one logs in to the data nodes.
ConnectionOptions to_sentinels(const ConnectionOptions& options) {
  ConnectionOptions own = in_a_hurry(options);
  own.command_timeout = std::min(options.command_timeout, kSentinelAnswers);
  own.tls = options.sentinel.tls.value_or(options.tls);
  return own;
}

Login login_to_sentinels(const ConnectionOptions& options) {
  Login login;
  login.user = options.sentinel.user;
  login.password = options.sentinel.password;
  login.client_name = options.client_name.empty() ? "delayqueue" : options.client_name;
  return login;
}

class SentinelTopology : public Topology {
 public:
  SentinelTopology(const Url& url, const ConnectionOptions& options)
      : name_(url.master),
        where_(url.text()),
        login_(login_of(url, options)),
        options_(options),
        sentinel_login_(login_to_sentinels(options)),
        sentinel_options_(to_sentinels(options)),
        tls_(url.addresses.front().tls),
        sentinels_(url.addresses) {
    for (Address& sentinel : sentinels_) sentinel.tls = options.sentinel.encrypted.value_or(tls_);
  }

  ~SentinelTopology() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      for (const auto& tie : listening_) tie->cut();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<Connection> connect() override {
    const std::size_t switches = begin_to_follow();
    const Address master = ask();
    auto connection = std::make_unique<Connection>(master, login_, options_);
    check_role(*connection);
    const std::lock_guard lock(mutex_);
    if (switches != switches_ && master_.text() != master.text()) {
      throw ConnectionError(connection->where() + " has just been replaced as master '" + name_ + "' by " +
                            master_.text());
    }
    master_ = master;
    forget_ended();
    ties_.emplace_back(master.text(), connection->tie());
    return connection;
  }

 private:
  // ---- Asking ----
  std::unique_ptr<Connection> open(const Address& sentinel) const {
    return std::make_unique<Connection>(sentinel, sentinel_login_, sentinel_options_);
  }

  Address ask() {
    return ask_in_turn(in_order(), "no Sentinel of " + where_ + " names the master",
                       Clock::now() + options_.connect_timeout, [this](const Address& sentinel) {
                         const auto connection = open(sentinel);
                         const Address master = master_by(*connection);
                         prefer(sentinel);
                         return master;
                       });
  }

  Address master_by(Connection& sentinel) const {
    Pipeline pipeline(sentinel);
    pipeline.command("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name_);
    pipeline.run();
    const Reply answer = pipeline.reply(0);
    if (answer.is_nil()) {
      throw ReplyError("the Sentinel at " + sentinel.where() + " knows no master '" + name_ + "'; check the URL");
    }
    Address master;
    master.host = answer[0].text();
    master.port = static_cast<int>(answer[1].integer());
    master.tls = tls_;
    return master;
  }

  void check_role(Connection& connection) const {
    Pipeline pipeline(connection);
    pipeline.command("ROLE");
    pipeline.run();
    const std::string role(pipeline.reply(0)[0].text());
    if (role == "master") return;
    throw ConnectionError(connection.where() + ", named as master '" + name_ +
                          "' by the Sentinels, says that its role is " + role + "; a failover may be under way");
  }

  std::vector<Address> in_order() {
    const std::lock_guard lock(mutex_);
    return sentinels_;
  }

  void prefer(const Address& sentinel) {
    const std::lock_guard lock(mutex_);
    const auto is_it = [&](const Address& other) { return other.text() == sentinel.text(); };
    std::stable_partition(sentinels_.begin(), sentinels_.end(), is_it);
  }

  // ---- Following ----
  std::size_t begin_to_follow() {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { follow(); });
    return switches_;
  }

  void follow() {
    for (std::size_t failed = 0; !has_ended(failed);) {
      const std::vector<Address> sentinels = in_order();
      try {
        listen(sentinels[failed % sentinels.size()], failed);
      } catch (const std::exception&) {  // connect() asks the same, and tells
        ++failed;
      }
    }
  }

  // Hears what one Sentinel has to say, until its link breaks.
  void listen(const Address& sentinel, std::size_t& failed) {
    const auto news = open(sentinel);
    const auto asked = open(sentinel);
    {
      const std::lock_guard lock(mutex_);
      listening_ = {news->tie(), asked->tie()};
      if (ended_) return;
    }
    std::string subscribe;
    append_command(subscribe, {"SUBSCRIBE", "+switch-master"});
    news->write(subscribe);
    for (;;) {
      follow_to(master_by(*asked));
      failed = 0;
      news->read_until(Clock::now() + kLook);  // whatever it says: we look
    }
  }

  void follow_to(const Address& master) {
    const std::lock_guard lock(mutex_);
    if (master_.text() == master.text()) return;
    master_ = master;
    ++switches_;
    for (const auto& [address, weak] : ties_) {
      const auto tie = weak.lock();
      if (tie != nullptr && address != master.text()) tie->cut();
    }
    forget_ended();
  }

  void forget_ended() {
    const auto ended = [](const auto& tie) { return tie.second.expired(); };
    ties_.erase(std::remove_if(ties_.begin(), ties_.end(), ended), ties_.end());
  }

  // Waits a little after failures: at once for the next Sentinel, longer once all have failed.
  bool has_ended(std::size_t failed) {
    std::unique_lock lock(mutex_);
    const milliseconds pause = failed == 0 ? milliseconds(0) : failed < sentinels_.size() ? milliseconds(10) : kLook;
    return changed_.wait_for(lock, pause, [this] { return ended_; });
  }

  const std::string name_;
  const std::string where_;
  const Login login_;
  const ConnectionOptions options_;
  const Login sentinel_login_;
  const ConnectionOptions sentinel_options_;
  const bool tls_;  // of the data nodes

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<Address> sentinels_;  // the one that answered last comes first
  Address master_;                  // as last heard
  std::size_t switches_ = 0;
  std::vector<std::pair<std::string, std::weak_ptr<Tie>>> ties_;  // of connections to masters, by address
  std::vector<std::shared_ptr<Tie>> listening_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Topology> sentinels(const Url& url, const ConnectionOptions& options) {
  return std::make_unique<SentinelTopology>(url, options);
}

}  // namespace delayqueue::redis
